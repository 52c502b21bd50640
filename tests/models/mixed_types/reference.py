"""Conversions by NumPy and ml_dtypes. NumPy files know no bf16, so those values stand as text in the cases."""

import ml_dtypes
import numpy as np

import fixture

# Compiler 3.13.0 has no 16-bit floats for VMVX.
VARIANTS = [fixture.LLVM_CPU]
VARIANTS += fixture.for_arm_64(fixture.LLVM_CPU)


def cases():
    # f16: a subnormal, the greatest finite, infinity; the products fit a double exactly.
    a = np.array([0, 1, -1.5, 6e-8, 65504, np.inf, -0.1, 3], np.float16)
    b = np.array([1, 2, -3, 0.5, 1e30, 2, 256, 1e-30], ml_dtypes.bfloat16)
    b_text = "8xbf16=" + ",".join(repr(float(v)) for v in b)
    x = np.array([1, 1.00048828125, 2049, 70000, 1e-8, -0.333333333, 3e38, 0], np.float32)
    with np.errstate(over="ignore"):
        half = x.astype(np.float16)
    brain = "8xbf16=" + ",".join(repr(float(v)) for v in x.astype(ml_dtypes.bfloat16))
    rng = np.random.default_rng(11)
    p, q = rng.normal(size=(6, 10)).astype(np.float16), rng.normal(size=(10, 4)).astype(np.float16)
    product = (p.astype(np.float64) @ q.astype(np.float64)).astype(np.float32)
    z = np.array([1, -2, 1e-300, 1e300, 3.141592653589793])
    return [
        fixture.Case("widen").call("widen", [a, b_text], [a.astype(np.float64) * b.astype(np.float64)]),
        fixture.Case("narrow").call("narrow", [x], [half, brain]),
        fixture.Case("matmul_f16").call("matmul_f16", [p, q], [product], f32=1e-4),
        fixture.Case("f64").call("polynomial_f64", [z], [(z * -0.3333333333333333 + 1.0000000001) / z], f64=1e-14),
    ]
