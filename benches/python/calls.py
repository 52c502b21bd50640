"""Times calls of models from Python: `incarnate`, its drop-in for `iree.runtime`, and `iree.runtime`, alternately in one process.

usage: calls.py [--seconds S] [--repetitions N] [--device local-sync]

Arrays of NumPy go in, and the results are read as arrays of NumPy. Prints the least time of a call over the repetitions, and for 1, 2
and 4 threads that call one model the most calls in a second.
"""

import argparse
import threading
import time
from pathlib import Path

import numpy as np

MODELS = Path(__file__).parents[2] / "tests" / "models"
# Model, function, shapes of the arguments.
CASES = [("simple_mul", "simple_mul", [(4,), (4,)]), ("mlp", "mlp", [(8, 32)]), ("digits", "classify", [(360, 64)])]


def with_incarnate(path, function, device):
    import incarnate

    return getattr(incarnate.load(path, device), function)


def with_runtime(rt):
    def create(path, function, device):
        context = rt.SystemContext(config=rt.Config(device))
        module = rt.VmModule.mmap(context.instance, str(path))
        context.add_vm_module(module)
        callee = getattr(context.modules[module.name], function)

        def call(*arguments):
            results = callee(*arguments)
            return [each.to_host() for each in results] if isinstance(results, (tuple, list)) else results.to_host()

        return call

    return create


def packages():
    yield "incarnate", with_incarnate
    import incarnate.iree.runtime

    yield "incarnate.iree.runtime", with_runtime(incarnate.iree.runtime)
    try:
        import iree.runtime
    except ImportError:
        print("iree.runtime is not installed: pip install iree-base-runtime")
        return
    yield "iree.runtime", with_runtime(iree.runtime)


def time_of(call, arguments, seconds):
    call(*arguments)
    count, end = 0, time.perf_counter() + seconds
    start = time.perf_counter()
    while time.perf_counter() < end:
        for _ in range(16):
            call(*arguments)
        count += 16
    return (time.perf_counter() - start) / count


def rate_of(call, arguments, callers, seconds):
    counts, begin = [0] * callers, threading.Barrier(callers + 1)

    def work(index):
        begin.wait()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for _ in range(16):
                call(*arguments)
            counts[index] += 16

    threads = [threading.Thread(target=work, args=(index,)) for index in range(callers)]
    for thread in threads:
        thread.start()
    begin.wait()
    start = time.perf_counter()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--device", default="local-sync")
    options = parser.parse_args()
    kinds = list(packages())
    for model, function, shapes in CASES:
        arguments = [np.ones(shape, np.float32) for shape in shapes]
        path = MODELS / model / "llvm-cpu.vmfb"
        calls = {name: create(path, function, options.device) for name, create in kinds}
        times = {name: [] for name in calls}
        rates = {(name, callers): [] for name in calls for callers in (1, 2, 4)}
        for _ in range(options.repetitions):
            for name, call in calls.items():
                times[name].append(time_of(call, arguments, options.seconds))
                for callers in (1, 2, 4):
                    rates[name, callers].append(rate_of(call, arguments, callers, options.seconds))
        print(f"\n{model} ({options.device}): microseconds of a call; thousands of calls in a second from 1, 2, 4 threads")
        for name in calls:
            row = "".join(f"{max(rates[name, callers]) / 1000:9.1f}" for callers in (1, 2, 4))
            print(f"{name:24} {min(times[name]) * 1e6:9.2f} {row}")


if __name__ == "__main__":
    main()
