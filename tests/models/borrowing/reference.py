"""What is done to an argument, where it is only read and where the compiler lets an operation work in place."""

import numpy as np

import fixture

VARIANTS = [fixture.LLVM_CPU, fixture.VMVX]
VARIANTS += fixture.for_arm_64(fixture.LLVM_CPU)


def cases():
    numbers = (np.arange(64 * 128, dtype=np.int32) * 2741 % 8192).reshape(64, 128)
    replaced = np.ones((64, 128), np.float32)
    replaced[5] = 2
    x = "64x128xf32=1.5"
    return [
        fixture.Case("scale").call("scale", [x], ["64x128xf32=3"]),
        fixture.Case("add").call("add", [x, x], ["64x128xf32=3"]),
        fixture.Case("same").call("same", [x], [x]),
        fixture.Case("keep").call("keep", [replaced], []).call("kept", [], [replaced]),
        fixture.Case("row").call("row", [x, "5"], ["128xf32=1.5"]),
        fixture.Case("replace").call("replace", ["64x128xf32=1", "1x128xf32=2", "5"], [replaced]),
        fixture.Case("sort").call("sort", [numbers], [np.sort(numbers, axis=1)]),
        fixture.Case("accumulate").call("accumulate", [x, "64x8xf32=0.5", "8x128xf32=1"], ["64x128xf32=5.5"]),
        fixture.Case("check").call("check", [x, "3"], ["64x128xf32=4.5"]),
        fixture.Case("fail").fails("check", [x, "2000"], "FAILED_PRECONDITION"),
    ]
