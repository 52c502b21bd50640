"""Sum, greatest element of each row and where it stands."""

import numpy as np

import fixture

VARIANTS = [fixture.LLVM_CPU, fixture.VMVX, fixture.INLINE_STATIC]
VARIANTS += fixture.for_arm_64(fixture.LLVM_CPU)


def cases():
    x = np.random.default_rng(12).normal(size=(6, 5)).astype(np.float32)
    results = [np.float32(x.astype(np.float64).sum()), x.max(axis=1), x.argmax(axis=1).astype(np.int32), "30", -x]
    y = np.array([1, 2, 3], np.float32)
    return [
        fixture.Case("statistics").call("statistics", [x], results, f32=1e-5),
        fixture.Case("nothing").call("nothing", [], []),
        fixture.Case("echo").call("echo", [y], [y, y]),
    ]
