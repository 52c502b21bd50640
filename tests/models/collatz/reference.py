"""Collatz steps, counted by Python's integers."""

import numpy as np

import fixture

VARIANTS = [fixture.LLVM_CPU, fixture.VMVX, fixture.INLINE_STATIC]
VARIANTS += fixture.for_arm_64(fixture.LLVM_CPU)


def steps(n):
    count = 0
    while n > 1:
        n, count = (3 * n + 1 if n % 2 else n // 2), count + 1
    return count


def cases():
    # The peak of 27 is 9232; that of 63728127 needs more than 32 bits.
    return [
        *(fixture.Case(f"scalar{n}").call("steps", [f"{n}"], [f"{steps(n)}"]) for n in (1, 27, 63728127)),
        *(
            fixture.Case(f"device{n}").call("steps_on_device", [np.int32(n)], [np.int32(steps(n))])
            for n in (1, 6, 27)
        ),
    ]
