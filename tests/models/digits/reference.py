"""The handwritten digits that come with scikit-learn (UCI, Optical Recognition of Handwritten Digits).

A perceptron with one hidden layer is trained on four fifths of the 1,797 images; the other fifth is the test.
Besides the case, this writes labels.npy (the true digits) and accuracy.txt (what scikit-learn itself reaches).
"""

import functools
from pathlib import Path

import numpy as np

import fixture

VARIANTS = [fixture.LLVM_CPU, fixture.VMVX]
VARIANTS += fixture.for_arm_64(fixture.LLVM_CPU)


@functools.cache
def trained():
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier

    digits = load_digits()
    train_x, test_x, train_y, test_y = train_test_split(
        digits.data.astype(np.float32), digits.target, test_size=360, random_state=0, stratify=digits.target
    )
    network = MLPClassifier((48,), max_iter=400, random_state=0).fit(train_x / 16, train_y)
    return network, test_x, test_y


def extra_files(folder: Path):
    network, images, labels = trained()
    np.save(folder / "labels.npy", labels.astype(np.int32))
    (folder / "accuracy.txt").write_text(f"{network.score(images / 16, labels):.6f}\n")


def cases():
    network, images, _ = trained()
    hidden = np.maximum(images.astype(np.float64) / 16 @ network.coefs_[0] + network.intercepts_[0], 0)
    scores = (hidden @ network.coefs_[1] + network.intercepts_[1]).astype(np.float32)
    predicted = network.predict(images / 16).astype(np.int32)
    return [fixture.Case("test_images").call("classify", [images], [scores, predicted], f32=1e-3)]
