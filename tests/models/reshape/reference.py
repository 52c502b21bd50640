"""The same elements in another shape."""

import numpy as np

import fixture

VARIANTS = [fixture.LLVM_CPU, fixture.VMVX]
VARIANTS += fixture.for_arm_64(fixture.LLVM_CPU)


def cases():
    x = np.array([1, 2, 3, 4], np.float32)
    return [fixture.Case("reshape").call("reshape", [x], [x.reshape(2, 2)])]
