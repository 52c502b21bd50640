#!/usr/bin/env python3
"""Exports a PyTorch model as MLIR, and a sample that checks it.

    pip install -r requirements-pytorch.txt
    python from_pytorch.py net.mlirbc

`torch.export` records the model as a graph, which `FxImporter` of the package `iree-base-compiler` turns into MLIR of the
dialect `torch`. A model that `torch.export` does not take may still go through ONNX:
`torch.onnx.export(model, (image,), "net.onnx", dynamo=False)`.
"""

import sys
from pathlib import Path

import torch
import torchvision
from iree.compiler import ir
from iree.compiler.extras.fx_importer import FxImporter

import sample


def export(model: torch.nn.Module, inputs: tuple, path: Path) -> None:
    """Writes a model as MLIR bytecode, which contains its weights. Its function is called `main`."""
    program = torch.export.export(model, inputs).run_decompositions()
    with ir.Context() as context:
        importer = FxImporter(context=context)
        importer.import_frozen_program(program, func_name="main")
        with open(path, "wb") as file:
            importer.module.operation.write_bytecode(file)


def main(path: Path) -> None:
    torch.manual_seed(0)
    # `weights="DEFAULT"` is the trained network, which torchvision downloads.
    model = torchvision.models.squeezenet1_1(weights=None).eval()
    image = torch.randn(1, 3, 64, 64)
    export(model, (image,), path)
    with torch.no_grad():
        scores = model(image)
    sample.save(path, [image], [scores])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
