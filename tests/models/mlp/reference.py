"""The perceptron of model.py in double precision."""

import numpy as np

import fixture

VARIANTS = [fixture.LLVM_CPU, fixture.ASYNC_EXTERNAL, fixture.VMVX, fixture.VMVX_MICROKERNELS]
VARIANTS += fixture.for_arm_64(fixture.LLVM_CPU, fixture.ASYNC_EXTERNAL)


def weights():
    rng = np.random.default_rng(1)
    sizes = [32, 48, 24, 10]
    return [
        (rng.normal(0, n**-0.5, (n, m)).astype(np.float32), rng.normal(0, 0.1, m).astype(np.float32))
        for n, m in zip(sizes, sizes[1:])
    ]


def forward(x):
    (w0, b0), (w1, b1), (w2, b2) = [(w.astype(np.float64), b.astype(np.float64)) for w, b in weights()]
    h = np.maximum(x.astype(np.float64) @ w0 + b0, 0)
    return (np.tanh(h @ w1 + b1) @ w2 + b2).astype(np.float32)


def cases():
    x = np.random.default_rng(2).normal(size=(8, 32)).astype(np.float32)
    return [
        fixture.Case("batch").call("mlp", [x], [forward(x)], f32=1e-5),
        fixture.Case("zeros").call("mlp", ["8x32xf32=0"], [forward(np.zeros((8, 32)))], f32=1e-5),
    ]
