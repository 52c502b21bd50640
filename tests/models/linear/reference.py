"""The layers of model.py, in double precision."""

import numpy as np

import fixture

VARIANTS = [fixture.VMVX]


def weights():
    rng = np.random.default_rng(20)
    return tuple(rng.normal(0, 0.2, shape).astype(np.float32) for shape in [(160, 96), (32, 16, 3, 3)])


def forward(x, maps):
    matrix, filters = (w.astype(np.float64) for w in weights())
    windows = np.lib.stride_tricks.sliding_window_view(maps.astype(np.float64), (3, 3), axis=(2, 3))
    convolved = np.einsum("nchwij,ocij->nohw", windows, filters)
    return [array.astype(np.float32) for array in (x.astype(np.float64) @ matrix.T, convolved.sum(axis=(2, 3)))]


def cases():
    rng = np.random.default_rng(21)
    case = fixture.Case("repeated")
    # Constants are copied to another layout when they are read for the second time.
    for _ in range(3):
        x, maps = (rng.normal(size=shape).astype(np.float32) for shape in [(1, 96), (1, 16, 9, 9)])
        case.call("linear", [x, maps], forward(x, maps), f32=2e-4)
    return [case]
