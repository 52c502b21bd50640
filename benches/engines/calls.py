#!/usr/bin/env python3
"""Measures the calls alone: milliseconds of the processor for a batch, by each runtime with one thread, without an engine.

    ./calls.py FOLDER [MODEL...]

The shortest of five rounds of calls (eight of the MLP, one of the convolution net), which alternate between the runtimes; and the greatest difference from ONNX
Runtime's results.
"""

import sys
from pathlib import Path

import numpy as np

sys.dont_write_bytecode = True

from models import ROWS, SHAPES
from runtimes import Timed, batched

CALLS = {"mlp": 8, "convolution": 1}
RUNTIMES = ("onnxruntime", "incarnate", "portable", "iree")


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    print("| model | rows | runtime | milliseconds | difference |\n|---|---|---|---|---|")
    for model in sys.argv[2:] or CALLS:
        values = np.random.default_rng(22).standard_normal((ROWS[model], *SHAPES[model]), dtype=np.float32)
        sides = {runtime: Timed(runtime, Path(sys.argv[1]), model) for runtime in RUNTIMES}
        shortest, results = dict.fromkeys(RUNTIMES, float("inf")), {}
        for _ in range(5):
            for runtime, timed in sides.items():
                timed.cpu = 0
                for _ in range(CALLS[model]):
                    results[runtime] = batched(timed)([values], collect=False)[0][0]
                shortest[runtime] = min(shortest[runtime], timed.cpu / CALLS[model] / 1e6)
        for runtime in RUNTIMES:
            difference = np.abs(results[runtime] - results["onnxruntime"]).max()
            print(f"| {model} | {ROWS[model]} | {runtime} | {shortest[runtime]:.2f} | {difference:.1e} |", flush=True)


if __name__ == "__main__":
    main()
