"""The perceptron of ../digits for one image."""

import jax.numpy as jnp

import fixture
from reference import digits


def mlir():
    network = digits().trained()[0]
    (w0, w1), (b0, b1) = [[m.astype("float32") for m in part] for part in (network.coefs_, network.intercepts_)]

    def classify(image):
        scores = jnp.maximum(image / 16 @ w0 + b0, 0) @ w1 + b1
        return scores, jnp.argmax(scores, axis=1).astype(jnp.int32)

    return fixture.export(classify, jnp.zeros((1, 64), jnp.float32)).replace("@main", "@classify")
