#!/usr/bin/env python3
"""Exports a classifier for any number of samples, and says why it is written as it is.

    pip install -r requirements-jax.txt
    python from_jax_batch.py batch.mlir

IREE's compiler cannot broadcast or reshape a tensor whose first extent is unknown. Sums over an axis that keep it are products with
ones here, and a maximum that keeps it is that of a window which covers the axis.
"""

import sys
from pathlib import Path

import jax
import jax.export
import jax.numpy as jnp

import sample

FEATURES, WIDTH, CLASSES = 4, 16, 3


def weights(key: jax.Array) -> dict:
    shapes = {"up": (FEATURES, WIDTH), "bias": (WIDTH,), "down": (WIDTH, CLASSES)}
    keys = jax.random.split(key, len(shapes))
    return {name: jax.random.normal(k, shape) * shape[0] ** -0.5 for k, (name, shape) in zip(keys, shapes.items())}


def kept_sum(x: jax.Array) -> jax.Array:
    """The sum over the last axis in each of its elements."""
    return x @ jnp.ones((x.shape[-1], x.shape[-1]), x.dtype)


def kept_max(x: jax.Array) -> jax.Array:
    """The maximum over the last of two axes in each of its elements."""
    width = x.shape[-1]
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2 * width - 1), (1, 1), ((0, 0), (width - 1, width - 1)))


def normalise(x: jax.Array) -> jax.Array:
    centred = x - kept_sum(x) / x.shape[-1]
    return centred * jax.lax.rsqrt(kept_sum(centred**2) / x.shape[-1] + 1e-5)


def softmax(x: jax.Array) -> jax.Array:
    exponentials = jnp.exp(x - kept_max(x))
    return exponentials / kept_sum(exponentials)


def main(path: Path) -> None:
    w = weights(jax.random.key(0))

    @jax.jit
    def model(features: jax.Array) -> dict:
        logits = normalise(jax.nn.relu(features @ w["up"] + w["bias"])) @ w["down"]
        return {"scores": softmax(logits), "label": jnp.argmax(logits, axis=-1)}

    (batch,) = jax.export.symbolic_shape("batch")
    shape = jax.ShapeDtypeStruct((batch, FEATURES), jnp.float32)
    path.write_text(jax.export.export(model)(shape).mlir_module())
    features = jax.random.normal(jax.random.key(1), (5, FEATURES))
    sample.save(path, [features], jax.tree.leaves(model(features)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
