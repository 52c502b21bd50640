"""The attention block of model.py in double precision, one head after the other."""

import numpy as np

import fixture

VARIANTS = [fixture.LLVM_CPU, fixture.VMVX]
VARIANTS += fixture.for_arm_64(fixture.LLVM_CPU)
TOKENS, CHANNELS, HEADS = 12, 32, 2


def weights():
    rng = np.random.default_rng(5)
    return (
        rng.normal(0, 0.4, (CHANNELS, 3 * CHANNELS)).astype(np.float32),
        rng.normal(0, 0.2, (CHANNELS, CHANNELS)).astype(np.float32),
        rng.normal(1, 0.1, CHANNELS).astype(np.float32),
        rng.normal(0, 0.1, CHANNELS).astype(np.float32),
    )


def forward(x):
    qkv, out, gain, bias = (w.astype(np.float64) for w in weights())
    x = x.astype(np.float64)
    width = CHANNELS // HEADS
    heads = []
    for head in range(HEADS):
        block = (x @ qkv)[:, head * 3 * width : (head + 1) * 3 * width]
        q, k, v = block[:, :width], block[:, width : 2 * width], block[:, 2 * width :]
        rows = []
        for t in range(TOKENS):
            weight = np.exp(k[: t + 1] @ q[t] / np.sqrt(width))
            rows.append(weight / weight.sum() @ v[: t + 1])
        heads.append(np.stack(rows))
    y = x + np.concatenate(heads, axis=1) @ out
    y = (y - y.mean(1, keepdims=True)) / np.sqrt(y.var(1, keepdims=True) + 1e-5)
    return (y * gain + bias).astype(np.float32)


def cases():
    x = np.random.default_rng(6).normal(size=(TOKENS, CHANNELS)).astype(np.float32)
    return [fixture.Case("sequence").call("attention", [x], [forward(x)], f32=1e-4)]
