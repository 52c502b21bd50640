"""The LSTM of model.py in double precision."""

import numpy as np

import fixture

VARIANTS = [fixture.LLVM_CPU, fixture.VMVX]
VARIANTS += fixture.for_arm_64(fixture.LLVM_CPU)
STEPS, FEATURES, HIDDEN = 10, 12, 20


def weights():
    rng = np.random.default_rng(7)
    return tuple(
        rng.normal(0, 0.4, shape).astype(np.float32)
        for shape in [(FEATURES, 4 * HIDDEN), (HIDDEN, 4 * HIDDEN), (4 * HIDDEN,)]
    )


def forward(x, length):
    w, u, b = (m.astype(np.float64) for m in weights())
    h, c = np.zeros(HIDDEN), np.zeros(HIDDEN)
    sigmoid = lambda z: 1 / (1 + np.exp(-z))
    for row in x[:length].astype(np.float64):
        i, f, g, o = np.split(row @ w + h @ u + b, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    return [h.astype(np.float32), c.astype(np.float32)]


def cases():
    x = np.random.default_rng(8).normal(size=(STEPS, FEATURES)).astype(np.float32)
    return [
        fixture.Case(f"steps{n}").call("lstm", [x, np.int32(n)], forward(x, n), f32=1e-5) for n in (0, 1, STEPS)
    ]
