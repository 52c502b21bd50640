#!/usr/bin/env python3
"""Exports a classifier for any number of samples.

    pip install -r requirements-jax.txt
    python from_jax_batch.py batch.mlir
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


def normalise(x: jax.Array) -> jax.Array:
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def main(path: Path) -> None:
    w = weights(jax.random.key(0))

    @jax.jit
    def model(features: jax.Array, mask: jax.Array) -> dict:
        kept = jnp.where(mask[:, None], features, 0)
        logits = normalise(jax.nn.relu(kept @ w["up"] + w["bias"])) @ w["down"]
        return {"scores": jax.nn.softmax(logits), "label": jnp.argmax(logits, axis=-1)}

    # Each call decides the extent.
    (batch,) = jax.export.symbolic_shape("batch")
    shapes = (jax.ShapeDtypeStruct((batch, FEATURES), jnp.float32), jax.ShapeDtypeStruct((batch,), jnp.bool_))
    path.write_text(jax.export.export(model)(*shapes).mlir_module())
    inputs = (jax.random.normal(jax.random.key(1), (5, FEATURES)), jnp.arange(5) != 2)
    sample.save(path, list(inputs), jax.tree.leaves(model(*inputs)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
