#!/usr/bin/env python3
"""Exports a PyTorch model as MLIR, and a sample that checks it.

    pip install -r requirements-pytorch.txt
    python from_pytorch.py net.mlirbc

`torch.export` records the model as a graph, which `FxImporter` of the package `iree-base-compiler` turns into MLIR of the
dialect `torch`. A model that `torch.export` does not take may still go through ONNX:
`torch.onnx.export(model, (image,), "net.onnx", dynamo=False)`.
"""

import re
import sys
from pathlib import Path

import torch
import torchvision
from iree.compiler import ir
from iree.compiler.extras.fx_importer import FxImporter
from torch._decomp import get_decompositions

import sample


def batch_norm(x, weight, bias, mean, variance, momentum, epsilon):
    """Batch normalisation in evaluation, and two results that only training uses."""
    shape = [1, -1] + [1] * (x.dim() - 2)
    scale = weight * torch.rsqrt(variance + epsilon)
    return x * scale.view(shape) + (bias - mean * scale).view(shape), x.new_zeros(0), x.new_zeros(0)


def decompositions() -> dict:
    """Returns how operators are expressed by others: PyTorch's, and those of operators that the compiler 3.13 does not know."""
    aten = torch.ops.aten
    table = torch.export.default_decompositions()
    table.update(get_decompositions([aten.squeeze.dims]))
    table[aten._native_batch_norm_legit_no_training.default] = batch_norm
    return table


def declare(function: ir.Operation, inputs: list[str]) -> None:
    """Names the inputs of an imported function. The importer drops their names; the compiler keeps a declaration."""

    def listed(types: list[ir.Type], names: list[str]) -> str:
        parts = [re.fullmatch(r"!torch\.vtensor<\[(.*)\],s?(\w+)>", str(ty)).groups() for ty in types]
        shapes = ["".join(f"{extent}x" for extent in extents.split(",") if extent) for extents, _ in parts]
        return ", ".join(f"%{name}: tensor<{shape}{part[1]}>" for name, shape, part in zip(names, shapes, parts, strict=True))

    ty = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    outputs = [f"output{index}" for index in range(len(ty.results))]
    text = f"sync func @main({listed(ty.inputs, inputs)}) -> ({listed(ty.results, outputs)})"
    function.attributes["iree.reflection"] = ir.DictAttr.get({"iree.abi.declaration": ir.StringAttr.get(text)})


def export(model: torch.nn.Module, inputs: tuple, path: Path) -> torch.export.ExportedProgram:
    """Writes a model as MLIR bytecode, which contains its weights. Its function `main` has the inputs of `forward`."""
    # Buffers that are not saved with the weights belong to the model, too; the importer looks for them among the weights.
    for module in model.modules():
        module._non_persistent_buffers_set.clear()
    with torch.no_grad():
        program = torch.export.export(model, inputs).run_decompositions(decompositions())
    with ir.Context() as context, ir.Location.unknown():
        importer = FxImporter(context=context)
        declare(importer.import_frozen_program(program, func_name="main"), program.graph_signature.user_inputs)
        with open(path, "wb") as file:
            importer.module.operation.write_bytecode(file)
    return program


def main(path: Path) -> None:
    torch.manual_seed(0)
    # `weights="DEFAULT"` is the trained network, which torchvision downloads.
    model = torchvision.models.shufflenet_v2_x0_5(weights=None).eval()
    image = torch.randn(1, 3, 64, 64)
    export(model, (image,), path)
    with torch.no_grad():
        scores = model(image)
    sample.save(path, [image], [scores])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
