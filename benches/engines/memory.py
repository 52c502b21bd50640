#!/usr/bin/env python3
"""Measures the memory of processes that have loaded and called a model with 128 MiB of weights, as the actors of Ray and the
workers of Spark on one machine do.

    ./memory.py FOLDER [PROCESSES...]

For each runtime and number of processes (1, 2, 4 and 8 if not given): the sum over the processes of the proportional set size
(Pss of /proc/PID/smaps_rollup), less that of as many processes without a model; and of Incarnate's the part that is the
mapping of the module's file (/proc/PID/smaps). MiB.
"""

import multiprocessing
import sys
from pathlib import Path

import numpy as np

sys.dont_write_bytecode = True

from models import ROWS, SHAPES
from runtimes import RUNTIMES

MODEL = "embedding"


def memory(module: Path) -> tuple[float, float]:
    """Returns the MiB of this process, and those of the module's mapping."""
    rollup = Path("/proc/self/smaps_rollup").read_text().split("\n")
    total = sum(int(line.split()[1]) for line in rollup if line.startswith("Pss:"))
    mapped, is_module = 0, False
    for line in Path("/proc/self/smaps").read_text().split("\n"):
        if line[:1] in "0123456789abcdef" and "-" in line.split(" ")[0]:
            is_module = line.endswith(str(module))
        elif is_module and line.startswith("Pss:"):
            mapped += int(line.split()[1])
    return total / 1024, mapped / 1024


def work(runtime: str | None, folder: Path, loaded, results) -> None:
    """Loads and calls the model, and measures when all processes have."""
    if runtime is not None:
        function = RUNTIMES[runtime](folder, MODEL)
        function(np.ones((ROWS[MODEL], *SHAPES[MODEL]), np.float32))
    loaded.wait()
    results.put(memory(folder / f"{MODEL}.vmfb"))
    # No process ends before all have measured.
    loaded.wait()


def measure(runtime: str | None, folder: Path, count: int) -> tuple[float, float]:
    context = multiprocessing.get_context("spawn")
    loaded, results = context.Barrier(count, timeout=600), context.Queue()
    processes = [context.Process(target=work, args=(runtime, folder, loaded, results)) for _ in range(count)]
    for process in processes:
        process.start()
    sizes = [results.get(timeout=600) for _ in processes]
    for process in processes:
        process.join()
    return sum(total for total, _ in sizes), sum(mapped for _, mapped in sizes)


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder, counts = Path(sys.argv[1]).resolve(), list(map(int, sys.argv[2:])) or [1, 2, 4, 8]
    columns = ("processes", "no model", "incarnate", "of it the file", "iree", "onnxruntime")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)
    for count in counts:
        none = measure(None, folder, count)[0]
        cells = [f"{none:.0f}"]
        for runtime in ("incarnate", "iree", "onnxruntime"):
            total, mapped = measure(runtime, folder, count)
            cells.append(f"{total - none:.0f}")
            if runtime == "incarnate":
                cells.append(f"{mapped:.0f}")
        print(f"| {count} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
