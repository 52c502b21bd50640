"""The convolutions of model.py as sums over windows, in double precision."""

import numpy as np

import fixture

VARIANTS = [fixture.LLVM_CPU, fixture.VMVX]
VARIANTS += fixture.for_arm_64(fixture.LLVM_CPU)


def weights():
    rng = np.random.default_rng(3)
    return tuple(
        rng.normal(0, 0.3, shape).astype(np.float32) for shape in [(3, 3, 3, 8), (8,), (3, 3, 1, 8), (3, 3, 8, 12)]
    )


def conv(x, w, stride, depthwise=False):
    """3x3 convolution with one row and column of zeros on each side."""
    x = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))[:, ::stride, ::stride]
    if depthwise:
        return np.einsum("nhwcij,ijc->nhwc", windows, w[:, :, 0])
    return np.einsum("nhwcij,ijco->nhwo", windows, w)


def forward(x):
    w0, b0, w1, w2 = (w.astype(np.float64) for w in weights())
    x = np.maximum(conv(x.astype(np.float64), w0, 1) + b0, 0)
    n, h, w, c = x.shape
    x = x.reshape(n, h // 2, 2, w // 2, 2, c).max(axis=(2, 4))
    x = np.maximum(conv(conv(x, w1, 1, depthwise=True), w2, 2), 0)
    return x.mean(axis=(1, 2)).astype(np.float32)


def cases():
    x = np.random.default_rng(4).normal(size=(2, 16, 16, 3)).astype(np.float32)
    return [fixture.Case("images").call("convolution", [x], [forward(x)], f32=1e-4)]
