"""The trained perceptron of reference.py with its weights as constants: images to scores and to digits."""

import jax.numpy as jnp

import fixture
from reference import trained


def mlir():
    network = trained()[0]
    (w0, w1), (b0, b1) = [[m.astype("float32") for m in part] for part in (network.coefs_, network.intercepts_)]

    def classify(images):
        scores = jnp.maximum(images / 16 @ w0 + b0, 0) @ w1 + b1
        return scores, jnp.argmax(scores, axis=1).astype(jnp.int32)

    return fixture.export(classify, jnp.zeros((360, 64), jnp.float32)).replace("@main", "@classify")
