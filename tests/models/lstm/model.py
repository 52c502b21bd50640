"""LSTM cells in a loop that the host runs; its trip count is an argument."""

import jax
import jax.numpy as jnp
from jax import lax

import fixture
from reference import FEATURES, HIDDEN, STEPS, weights


def mlir():
    w, u, b = weights()

    def lstm(x, length):
        def step(t, state):
            h, c = state
            i, f, g, o = jnp.split(lax.dynamic_index_in_dim(x, t, keepdims=False) @ w + h @ u + b, 4)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return jax.nn.sigmoid(o) * jnp.tanh(c), c

        zero = jnp.zeros(HIDDEN, jnp.float32)
        return lax.fori_loop(0, length, step, (zero, zero))

    text = fixture.export(lstm, jnp.zeros((STEPS, FEATURES), jnp.float32), jnp.int32(0))
    return text.replace("@main", "@lstm")
