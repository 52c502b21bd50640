"""The runtimes that are compared: each replaces the call of the model in the same pipeline."""

import json
import tempfile
import time
from pathlib import Path

import numpy as np

import incarnate
from incarnate._batches import BatchedFunction


def _incarnate(folder: Path, model: str):
    return incarnate.load(folder / f"{model}.vmfb", device="local-sync")


def _portable(folder: Path, model: str):
    return incarnate.load(folder / f"{model}.portable.vmfb", device="local-sync")


def _iree(folder: Path, model: str):
    import iree.runtime as rt

    config = rt.Config("local-sync")
    module = rt.VmModule.mmap(config.vm_instance, str(folder / f"{model}.vmfb"))
    context = rt.SystemContext(config=config)
    context.add_vm_module(module)
    function = context.modules[module.name][model]

    def call(x):
        result = function(x)
        # The array of to_host is over memory that it does not keep: without a copy its numbers change later.
        return result.to_host().copy()

    return call


def _onnxruntime(folder: Path, model: str):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    path = folder / f"{model}.onnx"
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})[0]


def _nothing(folder: Path, model: str):
    shape = _incarnate(folder, model).signature.outputs[0].shape
    return lambda x: np.zeros(shape, np.float32)


RUNTIMES = {
    "incarnate": _incarnate,
    "portable": _portable,
    "iree": _iree,
    "onnxruntime": _onnxruntime,
    "nothing": _nothing,
}


class Timed:
    """The function of a model by one of the runtimes, with one thread. It keeps the nanoseconds of its calls: by the clock, and
    of the processor."""

    def __init__(self, runtime: str, folder: Path, model: str):
        self.signature = _incarnate(folder, model).signature
        self.call = RUNTIMES[runtime](folder, model)
        self.wall = self.cpu = 0

    def __call__(self, *arrays):
        wall, cpu = time.perf_counter_ns(), time.process_time_ns()
        result = self.call(*arrays)
        self.cpu += time.process_time_ns() - cpu
        self.wall += time.perf_counter_ns() - wall
        return result


class Log:
    """Writes a line for each batch: the nanoseconds of the batch, those of the model, and those since the batch before, which
    are the engine's."""

    def __init__(self, folder: Path, timed: Timed):
        self.file = open(tempfile.mkstemp(suffix=".jsonl", dir=folder)[0], "a", buffering=1)
        self.timed = timed
        self.ended: tuple[int, int] | None = None

    def run(self, function, rows: int):
        wall, cpu, model_wall, model_cpu = time.perf_counter_ns(), time.process_time_ns(), self.timed.wall, self.timed.cpu
        result = function()
        entry = {
            "rows": rows,
            "wall": time.perf_counter_ns() - wall,
            "cpu": time.process_time_ns() - cpu,
            "model_wall": self.timed.wall - model_wall,
            "model_cpu": self.timed.cpu - model_cpu,
        }
        if self.ended is not None:
            entry |= {"engine_wall": wall - self.ended[0], "engine_cpu": cpu - self.ended[1]}
        self.file.write(json.dumps(entry) + "\n")
        self.ended = time.perf_counter_ns(), time.process_time_ns()
        return result


def batched(timed: Timed) -> BatchedFunction:
    """Returns the function for batches, as the engines' modules use it."""
    return BatchedFunction(timed)
