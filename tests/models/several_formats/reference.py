"""Elementwise product, whose executable the module holds as bytecode and as machine code."""

import numpy as np

import fixture

FLAGS = ["--iree-vm-bytecode-module-strip-source-map=true", "--iree-llvmcpu-debug-symbols=false"]
VARIANTS = [fixture.Variant("vmvx-and-llvm-cpu", FLAGS)]


def cases():
    lhs = np.array([1, -2, 3.5, 1e30], np.float32)
    rhs = np.array([2, 4, -0.5, 0.5], np.float32)
    return [fixture.Case("arrays").call("simple_mul", [lhs, rhs], [lhs * rhs])]
