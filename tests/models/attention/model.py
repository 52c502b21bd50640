"""One causal attention block: two heads, softmax, projection, residual and layer norm."""

import jax
import jax.numpy as jnp

import fixture
from reference import CHANNELS, HEADS, TOKENS, weights


def mlir():
    qkv, out, gain, bias = weights()

    def attention(x):
        q, k, v = jnp.split((x @ qkv).reshape(TOKENS, HEADS, -1).transpose(1, 0, 2), 3, axis=-1)
        scores = q @ k.transpose(0, 2, 1) * (CHANNELS // HEADS) ** -0.5
        mask = jnp.tril(jnp.ones((TOKENS, TOKENS), bool))
        probabilities = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1)
        y = x + (probabilities @ v).transpose(1, 0, 2).reshape(TOKENS, CHANNELS) @ out
        centred = y - y.mean(-1, keepdims=True)
        return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gain + bias

    return fixture.export(attention, jnp.zeros((TOKENS, CHANNELS), jnp.float32)).replace("@main", "@attention")
