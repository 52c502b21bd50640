#!/usr/bin/env python3
"""Measures the memory of actors that have loaded a model with 128 MiB of weights.

    ./memory.py FOLDER [ACTORS...]

For each runtime and number of actors (1, 2 and 4 if not given): the sum over the actors of the proportional set size
(Pss of /proc/PID/smaps_rollup), less that of as many actors that have loaded no model, and for Incarnate the part that
is the mapping of the module's file (/proc/PID/smaps). MiB.
"""

import os
import sys
from pathlib import Path

import numpy as np

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
# Workers at the priority of this process, which Ray lowers otherwise.
os.environ["RAY_worker_niceness"] = "0"

import ray

from models import ROWS, SHAPES
from runtimes import RUNTIMES

MODEL = "embedding"


class Actor:
    """An actor with a model, which it has called."""

    def __init__(self, runtime: str | None, folder: str):
        self.path = str(Path(folder) / f"{MODEL}.vmfb")
        if runtime is not None:
            self.function = RUNTIMES[runtime](Path(folder), MODEL)
            self.function(np.ones((ROWS[MODEL], *SHAPES[MODEL]), np.float32))

    def is_ready(self) -> bool:
        return True

    def memory(self) -> tuple[float, float]:
        """Returns the MiB of the process, and those of the module's mapping."""
        rollup = Path("/proc/self/smaps_rollup").read_text().split("\n")
        total = sum(int(line.split()[1]) for line in rollup if line.startswith("Pss:"))
        mapped, is_model = 0, False
        for line in Path("/proc/self/smaps").read_text().split("\n"):
            if line[:1] in "0123456789abcdef" and "-" in line.split(" ")[0]:
                is_model = line.endswith(self.path)
            elif is_model and line.startswith("Pss:"):
                mapped += int(line.split()[1])
        return total / 1024, mapped / 1024


def measure(runtime: str | None, folder: Path, count: int) -> tuple[float, float]:
    kind = ray.remote(num_cpus=0.2)(Actor)
    actors = [kind.remote(runtime, str(folder)) for _ in range(count)]
    ray.get([actor.is_ready.remote() for actor in actors])
    sizes = ray.get([actor.memory.remote() for actor in actors])
    for actor in actors:
        ray.kill(actor)
    return sum(total for total, _ in sizes), sum(mapped for _, mapped in sizes)


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder, counts = Path(sys.argv[1]).resolve(), list(map(int, sys.argv[2:])) or [1, 2, 4]
    ray.init("local", num_cpus=2, object_store_memory=200 << 20, include_dashboard=False, _node_ip_address="127.0.0.2")
    print("| actors | no model | incarnate | of it the file | iree | onnxruntime |\n|---|---|---|---|---|---|", flush=True)
    for count in counts:
        none = measure(None, folder, count)[0]
        cells = [f"{none:.0f}"]
        for runtime in ("incarnate", "iree", "onnxruntime"):
            total, mapped = measure(runtime, folder, count)
            cells.append(f"{total - none:.0f}")
            if runtime == "incarnate":
                cells.append(f"{mapped:.0f}")
        print(f"| {count} | {' | '.join(cells)} |", flush=True)
    ray.shutdown()


if __name__ == "__main__":
    main()
