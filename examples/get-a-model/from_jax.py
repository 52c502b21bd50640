#!/usr/bin/env python3
"""Exports a JAX function as StableHLO, and a sample that checks it.

    pip install -r requirements-jax.txt
    python from_jax.py net.mlir

`jax.export` serves Flax, Equinox and the like as well: export the function that applies the model to its weights.
"""

import sys
from pathlib import Path

import jax
import jax.export
import jax.numpy as jnp

import sample

TOKENS, WIDTH, HEADS, CLASSES = 16, 64, 4, 5


def weights(key: jax.Array) -> dict:
    shapes = {
        "embedding": (100, WIDTH),
        "positions": (TOKENS, WIDTH),
        "qkv": (WIDTH, 3 * WIDTH),
        "projection": (WIDTH, WIDTH),
        "up": (WIDTH, 4 * WIDTH),
        "down": (4 * WIDTH, WIDTH),
        "head": (WIDTH, CLASSES),
    }
    keys = jax.random.split(key, len(shapes))
    return {name: jax.random.normal(k, shape) * shape[0] ** -0.5 for k, (name, shape) in zip(keys, shapes.items())}


def normalise(x: jax.Array) -> jax.Array:
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def classify(w: dict, tokens: jax.Array) -> jax.Array:
    """A transformer of one layer that classifies a text."""
    x = w["embedding"][tokens] + w["positions"]
    q, k, v = jnp.split(normalise(x) @ w["qkv"], 3, axis=-1)
    heads = (TOKENS, HEADS, WIDTH // HEADS)
    attended = jax.nn.dot_product_attention(q.reshape(heads), k.reshape(heads), v.reshape(heads))
    x = x + attended.reshape(TOKENS, WIDTH) @ w["projection"]
    x = x + jax.nn.gelu(normalise(x) @ w["up"]) @ w["down"]
    return jax.nn.log_softmax(x.mean(0) @ w["head"])


def main(path: Path) -> None:
    w = weights(jax.random.key(0))
    tokens = jax.random.randint(jax.random.key(1), (TOKENS,), 0, 100)
    # The weights become constants of the model, the tokens its argument.
    predict = jax.jit(lambda tokens: classify(w, tokens))
    exported = jax.export.export(predict)(tokens)
    path.write_text(exported.mlir_module())
    sample.save(path, [tokens], [predict(tokens)])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
