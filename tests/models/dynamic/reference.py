"""Calls with several shapes, none and one row among them."""

import numpy as np

import fixture

VARIANTS = [fixture.LLVM_CPU, fixture.VMVX, fixture.VMVX_MICROKERNELS, fixture.INLINE_STATIC, fixture.INLINE_DYNAMIC]
VARIANTS += fixture.for_arm_64(fixture.LLVM_CPU)
for version in fixture.OLDER:
    VARIANTS += fixture.by(version, fixture.LLVM_CPU, fixture.VMVX)
VARIANTS += fixture.by("3.0.0", fixture.INLINE_DYNAMIC)


def cases():
    rng = np.random.default_rng(9)
    scale = np.array([1, -2, 0.5, 3], np.float32)
    result = []
    for rows in (0, 1, 7, 300):
        x = rng.uniform(0.5, 2, (rows, 4)).astype(np.float32)
        result.append(fixture.Case(f"scale{rows}").call("scale_rows", [x, scale], [x * scale]))
        if rows:
            normal = x / x.max(axis=1, keepdims=True)
            result.append(fixture.Case(f"normalise{rows}").call("normalise", [x], [normal, f"{rows}"], f32=1e-6))
    for m, k, n in ((1, 1, 1), (5, 9, 3), (33, 64, 17)):
        a, b = rng.normal(size=(m, k)).astype(np.float32), rng.normal(size=(k, n)).astype(np.float32)
        product = (a.astype(np.float64) @ b).astype(np.float32)
        result.append(fixture.Case(f"matmul{m}x{k}x{n}").call("matmul", [a, b], [product], f32=1e-4))
    result.append(fixture.Case("wrong_width").fails("scale_rows", ["2x5xf32=1", scale], "INVALID_ARGUMENT"))
    # A function with varying shapes must not keep anything from one call to the next.
    shapes = fixture.Case("shapes_in_turn")
    for rows in (3, 17, 2):
        x = rng.normal(size=(rows, 4)).astype(np.float32)
        shapes.call("scale_rows", [x, scale], [x * scale])
    return [*result, shapes]
