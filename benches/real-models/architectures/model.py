"""What an architecture is, and how each framework's models are exported."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np


@dataclasses.dataclass
class Exported:
    """What an export leaves in its folder, besides the arrays."""

    path: Path
    operators: int
    parameters: int
    # The same model for ONNX Runtime, where the framework can write one.
    onnx: Path | None = None


@dataclasses.dataclass
class Model:
    """An architecture: `export` writes the model into a folder and returns it with inputs and the framework's outputs."""

    name: str
    title: str
    source: str
    size: str
    export: Callable[[Path], tuple[Exported, list[np.ndarray], list[np.ndarray]]]
    # A greater error, relative to the greatest element of an output, is a wrong result: kernels add f32 in other orders.
    tolerance: float = 1e-4


def onnx_counts(path: Path) -> tuple[int, int]:
    """Returns how many nodes and how many weights an ONNX model has."""
    import onnx

    graph = onnx.load(path).graph
    weights = sum(int(np.prod(tensor.dims)) for tensor in graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT)
    return len(graph.node), weights


def write_onnx(model, inputs: tuple, path: Path) -> None:
    """Writes a torch model as ONNX."""
    import torch

    names = [f"input{number}" for number in range(len(inputs))]
    with torch.no_grad():
        torch.onnx.export(model, inputs, path, input_names=names, dynamo=True, external_data=False, verbose=False)


def write_mlir(model, inputs: tuple, path: Path) -> int:
    """Writes a torch model as MLIR bytecode of the dialect torch; returns how many operators it has."""
    sys.path.append(str(Path(__file__).resolve().parents[3] / "examples" / "get-a-model"))
    from from_pytorch import export

    return sum(node.op == "call_function" for node in export(model, inputs, path).graph.nodes)


def from_torch(create: Callable, through: str):
    """Returns the export of `create()`, a torch module and its inputs, through "onnx" or through "mlir"."""

    def export(folder: Path):
        import torch

        torch.manual_seed(0)
        model, inputs = create()
        model.eval()
        parameters = sum(parameter.numel() for parameter in model.parameters())
        with torch.no_grad():
            outputs = model(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        as_onnx, as_mlir = folder / "model.onnx", folder / "model.mlirbc"
        write_onnx(model, inputs, as_onnx)
        if through == "onnx":
            exported = Exported(as_onnx, onnx_counts(as_onnx)[0], parameters, as_onnx)
        else:
            exported = Exported(as_mlir, write_mlir(model, inputs, as_mlir), parameters, as_onnx)
        return exported, [tensor.numpy() for tensor in inputs], [tensor.detach().numpy() for tensor in outputs]

    return export


def from_jax(create: Callable):
    """Returns the export of `create()`: a function of weights and inputs, the weights, the inputs."""

    def export(folder: Path):
        import jax
        import jax.export

        function, weights, inputs = create()
        closed = jax.jit(lambda *inputs: function(weights, *inputs))
        path = folder / "model.mlir"
        text = jax.export.export(closed)(*inputs).mlir_module()
        path.write_text(text)
        operators = len(re.findall(r"(?:stablehlo|chlo)\.\w+", text)) - text.count("stablehlo.constant")
        parameters = sum(leaf.size for leaf in jax.tree.leaves(weights))
        outputs = jax.tree.leaves(closed(*inputs))
        return Exported(path, operators, parameters), [np.asarray(x) for x in inputs], [np.asarray(x) for x in outputs]

    return export


def from_sklearn(create: Callable):
    """Returns the export of `create()`: a fitted estimator, its inputs, and its outputs in the order of the ONNX model."""

    def export(folder: Path):
        from skl2onnx import to_onnx

        estimator, features, outputs = create()
        path = folder / "model.onnx"
        # Without it, probabilities are a sequence of maps.
        options = {"zipmap": False} if hasattr(estimator, "predict_proba") else None
        converted = to_onnx(estimator, features, options=options, target_opset={"": 17, "ai.onnx.ml": 3})
        path.write_bytes(converted.SerializeToString())
        return Exported(path, *onnx_counts(path), path), [features], outputs

    return export
