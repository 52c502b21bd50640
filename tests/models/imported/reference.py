"""The functions of model.mlir, whose modules have no declarations."""

import numpy as np

import fixture

VARIANTS = [fixture.LLVM_CPU, fixture.VMVX]
VARIANTS += fixture.for_arm_64(fixture.LLVM_CPU)


def cases():
    rng = np.random.default_rng(7)
    images, weights = rng.normal(size=(5, 4)).astype(np.float32), rng.normal(size=(4, 3)).astype(np.float32)
    scores = (images.astype(np.float64) @ weights).astype(np.float32)
    state, unused = np.array([40, -1], np.int64), np.zeros(7, np.float32)
    return [
        fixture.Case("classify").call("classify", [images, weights], [scores, scores > 0], f32=1e-5),
        fixture.Case("advance").call("advance", [state, unused], [state + 1]),
    ]
