#!/usr/bin/env python3
"""Exports the architectures, with inputs and the framework's outputs.

    pip install -r requirements.txt
    ./make.py FOLDER [NAME...]

FOLDER/NAME/ then has the model, `in*.npy`, `out*.npy` and `about.json`. Nothing is downloaded.
"""

import dataclasses
import json
import os
import sys
import traceback
from pathlib import Path

sys.dont_write_bytecode = True
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np

from architectures import MODELS


def make(model, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    exported, inputs, outputs = model.export(folder)
    for kind, arrays in (("in", inputs), ("out", outputs)):
        for number, array in enumerate(arrays):
            # ascontiguousarray turns rank 0 into rank 1; asarray keeps it.
            np.save(folder / f"{kind}{number}.npy", np.asarray(array, order="C"))
    about = {field.name: getattr(model, field.name) for field in dataclasses.fields(model) if field.name != "export"}
    about |= {"model": exported.path.name, "operators": exported.operators, "parameters": exported.parameters}
    about |= {"onnx": exported.onnx.name if exported.onnx else None, "inputs": len(inputs), "outputs": len(outputs)}
    (folder / "about.json").write_text(json.dumps(about, indent=2) + "\n")


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    root, names, failed = Path(sys.argv[1]), sys.argv[2:] or list(MODELS), []
    for name in names:
        try:
            make(MODELS[name], root / name)
            print(name, flush=True)
        except Exception:
            failed.append(name)
            traceback.print_exc()
    if failed:
        sys.exit(f"not exported: {' '.join(failed)}")


if __name__ == "__main__":
    main()
