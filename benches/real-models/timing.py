"""Times a call on both sides, in turn."""

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

from architectures.of_jax import FUNCTIONS
from check import inputs, program
from measure import alternate, google_benchmark, iree_tool, least

THREADS = (1, 2)
REPETITIONS = 2


def device(threads: int) -> list[str]:
    """Returns the flags for a number of threads, which both command lines take."""
    if threads == 1:
        return ["--device=local-sync"]
    return ["--device=local-task", f"--task_topology_group_count={threads}"]


def onnx_runtime(folder: Path, about: dict, threads: int):
    """Returns a measurement of ONNX Runtime: the nanoseconds of its shortest call in some seconds."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(folder / about["onnx"], options, providers=["CPUExecutionProvider"])
    arrays = [np.load(folder / f"in{number}.npy") for number in range(about["inputs"])]
    feed = {slot.name: array for slot, array in zip(session.get_inputs(), arrays)}

    def measure(seconds: float) -> float:
        shortest, end = float("inf"), time.perf_counter() + seconds
        while time.perf_counter() < end:
            start = time.perf_counter_ns()
            session.run(None, feed)
            shortest = min(shortest, time.perf_counter_ns() - start)
        return shortest

    return measure


def xla(name: str, threads: int, seconds: float) -> float:
    """Returns the nanoseconds of the shortest call by XLA, in a process with so many cores."""
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:threads]))
    command = ["taskset", "--cpu-list", cores, sys.executable, str(Path(__file__).with_name("xla.py")), name, str(seconds)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def times(incarnate: Path, folder: Path, about: dict, checked: dict, seconds: float) -> dict:
    """Returns the nanoseconds of a call in each column: `COLUMN THREADS`."""
    incarnate, sides, share = incarnate.resolve(), {}, seconds / REPETITIONS
    for threads in THREADS:
        for target, mode in (("native", "interpreted"), ("portable", "translated")):
            if not checked["runs"].get(f"{target} {mode} local-sync", {}).get("function"):
                continue
            executable, module = program(incarnate, folder, target, mode)
            command = [*executable, "bench", *module, *device(threads), *inputs(about)]
            sides[f"{target} {mode} {threads}"] = partial(google_benchmark, command, folder, share)
        if function := checked["runs"].get("IREE native", {}).get("function"):
            command = [iree_tool("iree-benchmark-module"), "--module=native.vmfb", f"--function={function}"]
            command += [*device(threads), *inputs(about)]
            sides[f"IREE {threads}"] = partial(google_benchmark, command, folder, share)
        if about["onnx"]:
            sides[f"ONNX Runtime {threads}"] = partial(onnx_runtime(folder, about, threads), share)
        if about["name"] in FUNCTIONS:
            sides[f"XLA {threads}"] = partial(xla, about["name"], threads, share)
    return {side: least(samples) for side, samples in alternate(sides, REPETITIONS).items()}
