"""Compiles a model, and compares what it computes in each mode and on each device with the framework's outputs."""

import itertools
import subprocess
import time
from pathlib import Path

import numpy as np

from measure import iree_tool, translated_program

TARGETS = ("native", "portable")
MODES = ("interpreted", "translated")
DEVICES = ("local-sync", "local-task")


def inputs(about: dict) -> list[str]:
    return [f"--input=@in{number}.npy" for number in range(about["inputs"])]


def program(incarnate: Path, folder: Path, target: str, mode: str) -> list:
    """Returns the program of a mode, without its command, and the flags that name the module."""
    module = folder / f"{target}.vmfb"
    if mode == "translated":
        return [translated_program([module], incarnate)], []
    return [incarnate], [f"--module={module.name}"]


def last_line(done: subprocess.CompletedProcess) -> str:
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    # The compiler's errors may hold all weights of a model.
    return lines[-1][:400] if lines else f"exit status {done.returncode}"


def errors(folder: Path, about: dict) -> dict:
    """Returns the greatest absolute error of all outputs, and the greatest one relative to an output's greatest element."""
    absolute = relative = 0.0
    for number in range(about["outputs"]):
        expected, actual = np.load(folder / f"out{number}.npy"), np.load(folder / f"actual{number}.npy")
        if expected.shape != actual.shape or expected.dtype != actual.dtype:
            return {"reason": f"output {number} is {actual.dtype}{actual.shape}, not {expected.dtype}{expected.shape}"}
        expected, actual = expected.astype(np.float64), actual.astype(np.float64)
        error = float(np.abs(expected - actual).max(initial=0))
        if not np.isfinite(error):
            return {"reason": f"output {number} is not finite"}
        absolute = max(absolute, error)
        relative = max(relative, error / (float(np.abs(expected).max(initial=0)) or 1.0))
    return {"absolute": absolute, "relative": relative, "right": relative <= about["tolerance"]}


def run(command: list, folder: Path, about: dict) -> dict:
    """Runs a program that writes the outputs, and returns their errors, or the reason why there are none."""
    outputs = [f"--output=@actual{number}.npy" for number in range(about["outputs"])]
    for number in range(about["outputs"]):
        (folder / f"actual{number}.npy").unlink(missing_ok=True)
    done = subprocess.run([*command, *inputs(about), *outputs], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        return {"reason": last_line(done)}
    # iree-run-module has to be told the function, of which both programs print the name.
    function = next((line for line in done.stdout.splitlines() if line.startswith("EXEC @")), "")
    return {"function": function.removeprefix("EXEC @")} | errors(folder, about)


def compile_model(incarnate: Path, folder: Path, about: dict, target: str) -> dict:
    start = time.monotonic()
    command = [incarnate, "compile", about["model"], "-o", f"{target}.vmfb", f"--target={target}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        return {"reason": last_line(done)}
    return {"seconds": round(time.monotonic() - start, 1), "bytes": (folder / f"{target}.vmfb").stat().st_size}


def check(incarnate: Path, folder: Path, about: dict) -> dict:
    incarnate = incarnate.resolve()
    compiled = {target: compile_model(incarnate, folder, about, target) for target in TARGETS}
    runs = {}
    for target, mode in itertools.product(TARGETS, MODES):
        if "reason" in compiled[target]:
            continue
        try:
            executable, module = program(incarnate, folder, target, mode)
        except RuntimeError as error:
            runs |= {f"{target} {mode} {device}": {"reason": str(error).splitlines()[-1]} for device in DEVICES}
            continue
        for device in DEVICES:
            command = [*executable, "run", *module, f"--device={device}"]
            runs[f"{target} {mode} {device}"] = run(command, folder, about)
    # A wrong result of the IREE runtime, too, is the compiler's.
    if function := runs.get("native interpreted local-sync", {}).get("function"):
        command = [iree_tool("iree-run-module"), "--module=native.vmfb", "--device=local-sync", f"--function={function}"]
        runs["IREE native"] = run(command, folder, about)
    return {"compiled": compiled, "runs": runs}
