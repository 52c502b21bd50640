"""Integer products in 64 bits; every result is exact."""

import numpy as np

import fixture

VARIANTS = [fixture.LLVM_CPU, fixture.SYSTEM_LIBRARY, fixture.VMVX]
VARIANTS += fixture.for_arm_64(fixture.LLVM_CPU, fixture.SYSTEM_LIBRARY)
VARIANTS += [fixture.for_windows(fixture.SYSTEM_LIBRARY)]


def cases():
    rng = np.random.default_rng(10)
    a = rng.integers(-128, 128, (16, 32)).astype(np.int8)
    b = rng.integers(-128, 128, (32, 24)).astype(np.int8)
    a[0], b[:, 0] = -128, -128
    sum_ = a.astype(np.int64) @ b.astype(np.int64)
    shifted = (a.astype(np.int64) - 3) @ (b.astype(np.int64) + 7)
    scale = (rng.uniform(0.5, 1.5, 24) / 400).astype(np.float32)
    narrow = np.clip(np.rint(sum_.astype(np.float32) * scale), -128, 127).astype(np.int8)
    return [
        fixture.Case("plain").call("matmul", [a, b], [sum_.astype(np.int32)]),
        fixture.Case("zero_points").call("quantized_matmul", [a, b, "3", "-7"], [shifted.astype(np.int32)]),
        fixture.Case("requantized").call("requantized_matmul", [a, b, scale], [narrow]),
    ]
