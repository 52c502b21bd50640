#!/usr/bin/env python3
"""Prints the nanoseconds of the shortest call of a model of JAX that XLA compiled, on the cores that the process may use.

    taskset --cpu-list 0 ./xla.py NAME SECONDS
"""

import sys
import time

sys.dont_write_bytecode = True

from architectures.of_jax import FUNCTIONS


def main() -> None:
    import jax

    function, weights, inputs = FUNCTIONS[sys.argv[1]]()
    # Weights are constants, as in the exported module.
    call = jax.jit(lambda *inputs: function(weights, *inputs))
    inputs = [jax.numpy.asarray(array) for array in inputs]
    jax.block_until_ready(call(*inputs))
    shortest, end = float("inf"), time.perf_counter() + float(sys.argv[2])
    while time.perf_counter() < end:
        start = time.perf_counter_ns()
        jax.block_until_ready(call(*inputs))
        shortest = min(shortest, time.perf_counter_ns() - start)
    print(shortest)


if __name__ == "__main__":
    main()
