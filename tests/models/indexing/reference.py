"""The functions of model.py by NumPy's own indexing."""

import numpy as np

import fixture

VARIANTS = [fixture.LLVM_CPU, fixture.VMVX]
VARIANTS += fixture.for_arm_64(fixture.LLVM_CPU)


def table():
    return np.random.default_rng(15).normal(size=(16, 6)).astype(np.float32)


def cases():
    values = table()
    ids = np.array([3, 15, 0, 3, 7, 7, 7, 1, 14, 2], np.int32)
    histogram = np.bincount(ids, minlength=16).astype(np.int32)
    rows = values[ids]
    results = [rows, histogram, np.sort(rows[:, 0]), np.cumsum(histogram).astype(np.int32)]
    # A slice that would begin past the end begins where it still fits.
    return [
        fixture.Case(f"start{start}").call(
            "indexing", [ids, np.int32(start)], [*results, values[min(start, 13) :][:3, 1:5]]
        )
        for start in (0, 5, 15)
    ]
