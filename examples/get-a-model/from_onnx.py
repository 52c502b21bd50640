#!/usr/bin/env python3
"""Builds an ONNX model, and a sample that checks it.

    pip install -r requirements-onnx.txt
    python from_onnx.py net.onnx

A model of yours is a file already: `incarnate run net.onnx --input=...` takes it as it is. What this script shows is the
sample: inputs and expected outputs as `.npy` files. The outputs here are those of the `onnx` package's reference evaluator;
`onnxruntime.InferenceSession` has the same method `run`.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import sample


def network(rng: np.random.Generator) -> onnx.ModelProto:
    """A classifier of images of 32 x 32 pixels: two convolutions, global average pooling, a product."""
    weights = {
        "conv1.weight": rng.normal(0, 0.2, (16, 3, 3, 3)),
        "conv1.bias": rng.normal(0, 0.1, 16),
        "conv2.weight": rng.normal(0, 0.1, (32, 16, 3, 3)),
        "conv2.bias": rng.normal(0, 0.1, 32),
        "classifier.weight": rng.normal(0, 0.2, (10, 32)),
        "classifier.bias": rng.normal(0, 0.1, 10),
    }
    half = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["image", "conv1.weight", "conv1.bias"], ["a"], **half),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "conv2.weight", "conv2.bias"], ["c"], **half),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("GlobalAveragePool", ["d"], ["e"]),
        helper.make_node("Flatten", ["e"], ["f"]),
        helper.make_node("Gemm", ["f", "classifier.weight", "classifier.bias"], ["scores"], transB=1),
        helper.make_node("Softmax", ["scores"], ["probabilities"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 32, 32])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 10]) for name in ("scores", "probabilities")],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()],
    )
    # IREE's importer knows operators up to the ones of opset 22.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.checker.check_model(model)
    return model


def main(path: Path) -> None:
    rng = np.random.default_rng(0)
    model = network(rng)
    onnx.save(model, path)
    image = rng.normal(size=(1, 3, 32, 32)).astype(np.float32)
    outputs = ReferenceEvaluator(model).run(None, {"image": image})
    sample.save(path, [image], outputs)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
