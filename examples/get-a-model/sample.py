"""Writes what the scripts of this folder leave behind: the model, its inputs, the framework's outputs."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np


def save(model: Path, inputs: list, outputs: list) -> None:
    """Writes inputs and outputs beside the model, and prints the command that compiles, runs and checks it."""
    command = ["incarnate", "run", str(model)]
    for kind, flag, arrays in (("in", "input", inputs), ("out", "expected_output", outputs)):
        for number, array in enumerate(arrays):
            path = model.with_name(f"{model.stem}.{kind}{number}.npy")
            np.save(path, np.asarray(array))
            command.append(f"--{flag}=@{path}")
    # Other kernels add in another order than the framework.
    command += ["--expected_f32_threshold=1e-4"]
    print(shlex.join(command))
