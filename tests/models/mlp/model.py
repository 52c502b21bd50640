"""A multi-layer perceptron, 32 -> 48 -> 24 -> 10, with its weights as constants."""

import jax.numpy as jnp

import fixture
from reference import weights


def mlir():
    (w0, b0), (w1, b1), (w2, b2) = weights()

    def mlp(x):
        h = jnp.maximum(x @ w0 + b0, 0)
        h = jnp.tanh(h @ w1 + b1)
        return h @ w2 + b2

    return fixture.export(mlp, jnp.zeros((8, 32), jnp.float32)).replace("@main", "@mlp")
