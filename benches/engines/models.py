#!/usr/bin/env python3
"""Writes the models of the measurements, as ONNX and compiled, with weights of a fixed seed.

    ./models.py FOLDER

FOLDER/NAME.onnx is what ONNX Runtime runs, FOLDER/NAME.vmfb what Incarnate and the IREE runtime run: machine code for this
processor. FOLDER/NAME.portable.vmfb is the same in bytecode.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import incarnate

# The rows of a call. A compiled extent lets the compiler tile, which a dynamic one does not; ONNX Runtime is given the same.
ROWS = {"mlp": 1024, "convolution": 64, "embedding": 64}
# Numbers of a row, as the data set has them.
SHAPES = {"mlp": (64,), "convolution": (3, 32, 32), "embedding": (8,)}


class Graph:
    """A model under construction: every method adds an operator and returns the name of its result."""

    def __init__(self, seed: int):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights = [], []

    def weight(self, *shape: int) -> str:
        """Adds weights that keep the variance of what they multiply."""
        name = f"weight{len(self.weights)}"
        values = self.random.standard_normal(shape, dtype=np.float32) / np.sqrt(np.float32(np.prod(shape[1:])))
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def add(self, operator: str, *inputs: str, **attributes) -> str:
        name = f"{operator.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        return self.add("Gemm", x, self.weight(outputs, inputs), self.weight(outputs), transB=1)

    def convolution(self, x: str, inputs: int, outputs: int, stride: int) -> str:
        weights = (self.weight(outputs, inputs, 3, 3), self.weight(outputs))
        return self.add("Relu", self.add("Conv", x, *weights, pads=[1, 1, 1, 1], strides=[stride, stride]))


def mlp(graph: Graph) -> str:
    """Three layers: some 0.17 million floating-point operations a row."""
    x = graph.add("Relu", graph.dense("x", 64, 256))
    x = graph.add("Relu", graph.dense(x, 256, 256))
    return graph.dense(x, 256, 10)


def convolution(graph: Graph) -> str:
    """Three convolutions of 3 x 3: some 20 million floating-point operations a row."""
    x = graph.convolution("x", 3, 32, 1)
    x = graph.convolution(x, 32, 64, 2)
    x = graph.convolution(x, 64, 128, 2)
    x = graph.add("Flatten", graph.add("GlobalAveragePool", x))
    return graph.dense(x, 128, 10)


def embedding(graph: Graph) -> str:
    """One wide layer of 128 MiB of weights, for the measurement of memory."""
    x = graph.add("Relu", graph.dense("x", 8, 4096))
    return graph.dense(x, 4096, 8192)


MODELS = {"mlp": mlp, "convolution": convolution, "embedding": embedding}


def build(name: str, folder: Path) -> None:
    graph = Graph(seed=22)
    result = MODELS[name](graph)
    rows, width = ROWS[name], {"mlp": 10, "convolution": 10, "embedding": 8192}[name]
    graph.nodes.append(helper.make_node("Identity", [result], ["y"]))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (rows, *SHAPES[name]))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (rows, width))
    model = helper.make_model(
        helper.make_graph(graph.nodes, name, [x], [y], graph.weights),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.checker.check_model(model)
    onnx.save(model, folder / f"{name}.onnx")
    tools = Path(sys.executable).parent
    mlir = folder / f"{name}.mlir"
    subprocess.run([tools / "iree-import-onnx", folder / f"{name}.onnx", "-o", mlir], check=True)
    target = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"]
    command = [tools / "iree-compile", mlir, *target, "--iree-llvmcpu-target-cpu=host", "-o", folder / f"{name}.vmfb"]
    subprocess.run(command, check=True)
    mlir.unlink()
    compiler = {"iree_compile": tools / "iree-compile"}
    incarnate.compile(folder / f"{name}.onnx", folder / f"{name}.portable.vmfb", target="portable", **compiler)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        build(name, folder)
        print(name, flush=True)


if __name__ == "__main__":
    main()
