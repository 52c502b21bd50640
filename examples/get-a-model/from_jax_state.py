#!/usr/bin/env python3
"""Exports a step of a recurrent network, whose state goes in and comes out, with the names of its structures.

    pip install -r requirements-jax.txt
    python from_jax_state.py step.mlir
"""

import dataclasses
import sys
from pathlib import Path

import jax
import jax.export
import jax.numpy as jnp

import sample

FEATURES, WIDTH, CLASSES = 4, 8, 3


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    hidden: jax.Array
    steps: jax.Array


def weights(key: jax.Array) -> dict:
    shapes = {"input": (FEATURES, WIDTH), "hidden": (WIDTH, WIDTH), "output": (WIDTH, CLASSES)}
    keys = jax.random.split(key, len(shapes))
    return {name: jax.random.normal(k, shape) * shape[0] ** -0.5 for k, (name, shape) in zip(keys, shapes.items())}


def step(w: dict, state: State, features: jax.Array) -> dict:
    hidden = jnp.tanh(features @ w["input"] + state.hidden @ w["hidden"])
    scores = jax.nn.softmax(hidden @ w["output"])
    return {"state": State(hidden, state.steps + 1), "scores": scores, "label": jnp.argmax(scores)}


def main(path: Path) -> None:
    w = weights(jax.random.key(0))
    state = State(jnp.zeros(WIDTH), jnp.int32(0))
    features = jax.random.normal(jax.random.key(1), (FEATURES,))

    # The weights become constants, because the exported function closes over them.
    @jax.jit
    def model(state: State, features: jax.Array) -> dict:
        return step(w, state, features)

    path.write_text(jax.export.export(model)(state, features).mlir_module())
    # The order of the module's inputs and outputs is that of JAX's trees.
    sample.save(path, jax.tree.leaves((state, features)), jax.tree.leaves(model(state, features)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
