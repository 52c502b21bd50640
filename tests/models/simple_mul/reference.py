"""Elementwise product, and what a call with arguments of the wrong shape or type must end with."""

import numpy as np

import fixture

VARIANTS = [fixture.LLVM_CPU, fixture.SYSTEM_LIBRARY, fixture.ASYNC_EXTERNAL, fixture.FLATBUFFER, fixture.VMVX, fixture.INLINE_STATIC, fixture.INLINE_DYNAMIC, fixture.INLINE_DYNAMIC_LLVM_CPU]
VARIANTS += fixture.for_arm_64(fixture.LLVM_CPU, fixture.SYSTEM_LIBRARY, fixture.ASYNC_EXTERNAL, fixture.INLINE_DYNAMIC_LLVM_CPU)
VARIANTS += [fixture.for_windows(fixture.SYSTEM_LIBRARY)]
VARIANTS += fixture.by("3.0.0", fixture.ASYNC_EXTERNAL) + fixture.by("3.9.0", fixture.ASYNC_EXTERNAL)


def cases():
    lhs = np.array([1, -2, 3.5, 1e30], np.float32)
    rhs = np.array([2, 4, -0.5, 1e30], np.float32)
    with np.errstate(over="ignore"):
        product = lhs * rhs
    return [
        fixture.Case("arrays").call("simple_mul", [lhs, rhs], [product]),
        fixture.Case("text").call("simple_mul", ["4xf32=1,2,3,4", "4xf32=2"], ["4xf32=2,4,6,8"]),
        fixture.Case("wrong_shape").fails("simple_mul", ["3xf32=1,2,3", "4xf32=2"], "INVALID_ARGUMENT"),
        fixture.Case("wrong_type").fails("simple_mul", ["4xi32=1,2,3,4", "4xf32=2"], "INVALID_ARGUMENT"),
    ]
