"""Embedding look-up, scatter, sort, running sum and a slice whose position is an argument."""

import jax.numpy as jnp
from jax import lax

import fixture
from reference import table


def mlir():
    values = jnp.asarray(table())

    def indexing(ids, start):
        rows = values[ids]
        histogram = jnp.zeros(16, jnp.int32).at[ids].add(1)
        order = jnp.sort(rows[:, 0])
        window = lax.dynamic_slice(values, (start, jnp.int32(1)), (3, 4))
        return rows, histogram, order, jnp.cumsum(histogram, dtype=jnp.int32), window

    return fixture.export(indexing, jnp.zeros(10, jnp.int32), jnp.int32(0)).replace("@main", "@indexing")
