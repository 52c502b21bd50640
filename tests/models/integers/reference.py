"""Integer tensors by NumPy."""

import numpy as np

import fixture

# Compiler 3.13.0 has no population count for VMVX.
VARIANTS = [fixture.LLVM_CPU]
VARIANTS += fixture.for_arm_64(fixture.LLVM_CPU)


def cases():
    rng = np.random.default_rng(14)
    mask = rng.integers(0, 2, 9).astype(bool)
    a16, b16 = (rng.integers(-(1 << 15), 1 << 15, 9).astype(np.int16) for _ in range(2))
    a32, b32 = (rng.integers(-(1 << 31), 1 << 31, 7).astype(np.int32) for _ in range(2))
    a32[0], b32[0], b32[1] = -1, 0, 1
    ones = np.array([int(v).bit_count() for v in a32.view(np.uint32)], np.int32)
    zeros = np.array([32 - int(v).bit_length() for v in b32.view(np.uint32)], np.int32)
    a8, b8 = np.array([127, -128, -1, 0, 100, 7], np.int8), np.array([1, -1, -1, 0, 100, -7], np.int8)
    wide = (a8.view(np.uint8).astype(np.int16) + b8.view(np.uint8)).astype(np.int16)
    a64 = np.array([1 << 40, -(1 << 62), 12345678901234567, -7], np.int64)
    b64 = np.array([3, -4, 1000003, 2], np.int64)
    quotient = np.array([int(x / abs(x)) * (abs(x) // abs(y)) * (1 if y > 0 else -1) for x, y in
                         zip(map(int, a64), map(int, b64))], np.int64)
    return [
        fixture.Case("select").call("select", [mask, a16, b16], [np.where(mask, a16, b16), a16 < b16]),
        fixture.Case("bits").call("bits_i32", [a32, b32], [ones, zeros, a32 ^ b32]),
        fixture.Case("wrap").call("wrap_i8", [a8, b8], [a8 + b8, wide]),
        fixture.Case("wide").call("product_i64", [a64, b64], [a64 * b64, quotient]),
    ]
