"""Consecutive calls on one instance; each case starts with a fresh one."""

import numpy as np

import fixture

VARIANTS = [fixture.LLVM_CPU, fixture.VMVX]
VARIANTS += fixture.for_arm_64(fixture.LLVM_CPU)


def cases():
    rng = np.random.default_rng(13)
    table = np.arange(4, dtype=np.float32) + np.float32(0.5)
    turns = fixture.Case("turns")
    sum_ = np.zeros(4, np.float32)
    for _ in range(3):
        x = rng.normal(size=4).astype(np.float32)
        sum_ = sum_ + x * table
        turns.call("accumulate", [x], [sum_], f32=1e-6)
    turns.call("count", [], ["3"]).call("reset", [], []).call("count", [], ["0"])
    x = rng.normal(size=4).astype(np.float32)
    turns.call("accumulate", [x], [x * table], f32=1e-6)
    # A call that fails must leave the state as it was.
    recovery = fixture.Case("after_failure").call("accumulate", [x], [x * table], f32=1e-6)
    recovery.fails("accumulate", [np.zeros(3, np.float32)], "INVALID_ARGUMENT").call("count", [], ["1"])
    recovery.call("accumulate", [x], [x * table * 2], f32=1e-6)
    return [turns, recovery, fixture.Case("fresh").call("count", [], ["0"])]
