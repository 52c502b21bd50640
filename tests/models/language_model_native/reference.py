"""The model of `language_model`, imported for machine code."""

import dataclasses
from pathlib import Path

import fixture

PORTABLE = fixture.load(Path(__file__).resolve().parent.parent / "language_model", "reference")
VARIANTS = [dataclasses.replace(fixture.LLVM_CPU, flags=[*fixture.LLVM_CPU.flags, "--iree-input-type=none"])]


def cases():
    cases = PORTABLE.cases()
    # Machine code has no batches.
    cases = [case for case in cases if case.name != "batch"]
    for case in cases:
        case.parameters = ("model=../language_model/model.gguf",)
    return cases
