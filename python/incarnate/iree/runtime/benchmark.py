"""Benchmarks of functions, by the command `incarnate bench`."""

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections import namedtuple
from os import PathLike
from typing import Any, Optional, Sequence, Union

import numpy as np

from ._binding import VmModule
from .dtypes import DTYPE_TO_ABI_TYPE

__all__ = ["benchmark_exe", "benchmark_module"]

BenchmarkResult = namedtuple("BenchmarkResult", "benchmark_name time cpu_time iterations user_counters")

# What stands for a module that is no file.
_NO_FILE = "--module=-"

_COMMAND = "import sys; from incarnate._command_line import main; sys.exit(main())"


class BenchmarkToolError(Exception):
    """The benchmark failed. The message is what the command printed."""

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)


class BenchmarkTimeoutError(Exception):
    """The benchmark took longer than it may."""


def benchmark_exe() -> str:
    """Returns the path of the command `incarnate`, whose subcommand `bench` takes the flags of `iree-benchmark-module`."""
    return os.path.join(sysconfig.get_path("scripts"), "incarnate")


def _build_benchmark_args(
    module: Union[VmModule, str, PathLike[str]],
    entry_function: Optional[str] = None,
    inputs: Optional[Sequence[Union[str, np.ndarray[Any, Any]]]] = None,
    **kwargs: Any,
) -> tuple[list[str], Optional[memoryview]]:
    """Returns the words of a command, and the bytes of a module that is no file."""
    if isinstance(module, VmModule):
        functions = [name for name in module.function_names if not name.startswith("__") and "$" not in name]
        if entry_function is None and len(functions) == 1:
            entry_function = functions[0]
        if entry_function not in functions:
            raise ValueError(f"pass entry_function, one of {functions}")
        source = _NO_FILE
        blob = module.stashed_flatbuffer_blob
    else:
        if entry_function is None:
            raise ValueError("pass entry_function for a module that is a file")
        source, blob = f"--module={module}", None
    arguments = [benchmark_exe(), source, f"--function={entry_function}"]
    arguments += [f"--{name}={value}" for name, value in kwargs.items()]
    arguments += [f"--input={value if isinstance(value, str) else _input(value)}" for value in inputs or ()]
    return arguments, blob


# Elements of an array that a command's words have: words are limited to 128 KiB on Linux.
_MOST_ELEMENTS = 1024


def _input(array: np.ndarray[Any, Any], folder: Optional[str] = None) -> str:
    """Returns an array as the command takes it: type and elements, one element if all are equal, or a file of many in a folder."""
    kind = "x".join([*(str(extent) for extent in array.shape), DTYPE_TO_ABI_TYPE[array.dtype]])
    elements = array.ravel()
    if elements.size and (elements == elements[0]).all():
        elements = elements[:1]
    if folder is not None and elements.size > _MOST_ELEMENTS:
        descriptor, path = tempfile.mkstemp(suffix=".bin", dir=folder)
        with os.fdopen(descriptor, "wb") as file:
            file.write(array.tobytes())
        return f"{kind}=@{path}"
    return f"{kind}={','.join(str(element) for element in elements)}"


def benchmark_module(
    module: Union[VmModule, str, PathLike[str]],
    entry_function: Optional[str] = None,
    inputs: Optional[Sequence[Union[str, np.ndarray[Any, Any]]]] = None,
    timeout: Optional[float] = None,
    **kwargs: Any,
) -> list[BenchmarkResult]:
    """Runs the benchmark of a function in another process.

    Args:
      module: a module, or the path of a file.
      entry_function: the name of the function; it can be left out where a module has one.
      inputs: arrays, or texts as `incarnate bench --input=` takes them.
      timeout: seconds, after which BenchmarkTimeoutError is raised.
      kwargs: other flags, such as `device="local-task"`.
    """
    with tempfile.TemporaryDirectory() as folder:
        texts = [value if isinstance(value, str) else _input(value, folder) for value in inputs or ()]
        arguments, blob = _build_benchmark_args(module, entry_function, texts, **kwargs)
        if blob is not None:
            path = os.path.join(folder, "module.vmfb")
            with open(path, "wb") as file:
                file.write(blob)
            arguments[arguments.index(_NO_FILE)] = f"--module={path}"
        command = [sys.executable, "-c", _COMMAND, "bench", *arguments[1:], "--benchmark_format=json"]
        try:
            finished = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            raise BenchmarkTimeoutError(f"the benchmark did not end within {timeout} seconds") from None
    if finished.returncode != 0:
        raise BenchmarkToolError(f"stderr:\n{finished.stderr}\nstdout:\n{finished.stdout}")
    return [_result(row) for row in json.loads(finished.stdout)["benchmarks"]]


def _result(row: dict[str, Any]) -> BenchmarkResult:
    unit = row["time_unit"]
    counters = ["items_per_second"]
    return BenchmarkResult(
        benchmark_name=row["name"],
        time=f"{row['real_time']:g} {unit}",
        cpu_time=f"{row['cpu_time']:g} {unit}",
        iterations=str(row["iterations"]),
        user_counters=" ".join(f"{name}={row[name]:g}" for name in counters if row.get(name) is not None) or None,
    )
