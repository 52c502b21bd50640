"""The measured programs of both sides, and the parsing of their times."""

import functools
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "tests" / "models"
INCARNATE = ROOT / "target" / "dist" / "incarnate"
# Benchmarks are built for the host's CPU, like the programs of `incarnate build`, and as IREE's programs should be.
TARGET = ROOT / "target" / "peer"
NATIVE = ["--config", 'build.rustflags=["-Ctarget-cpu=native"]', "--target-dir", TARGET]
# Length of the runs whose shortest time counts: short enough that some are not interrupted on a shared machine.
RUN_SECONDS = 0.005
# A longer call is measured once: repeating it takes minutes, and interruptions hardly change its time.
LONG_CALL = 2.0
NANOSECONDS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


def iree_tool(name: str) -> str:
    """Returns the path of IREE's native program, from $PEER_BIN or PATH; pip's entry points only start it (slowly)."""
    folder = os.environ.get("PEER_BIN")
    found = shutil.which(name, path=folder) if folder else shutil.which(name)
    if not found:
        sys.exit(f"{name} is neither in $PEER_BIN nor on PATH; see {Path(__file__).parent / 'README.md'}")
    with open(found, "rb") as file:
        is_script = file.read(2) == b"#!"
    if is_script:
        environment = Path(found).parent.parent
        for native in environment.glob(f"lib/python*/site-packages/iree/_runtime_libs/{name}"):
            return str(native)
    return found


def output_of(command: list, folder: Path = ROOT) -> str:
    """Returns the standard output of a command that must succeed."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stderr.strip()[-2000:]}")
    return done.stdout


def alternate(sides: dict, repetitions: int) -> dict:
    """Measures all sides alternately, each order forwards and backwards; returns the samples of each side in nanoseconds."""
    samples = {side: [] for side in sides}
    order = list(sides.items())
    for repetition in range(repetitions):
        for side, measure in order if repetition % 2 else reversed(order):
            samples[side].append(measure())
        if repetition % 2:
            order = order[1:] + order[:1]
    return samples


def google_benchmark(command: list, folder: Path, seconds: float) -> float:
    """Returns a call's nanoseconds, the least of short runs, from Google Benchmark's JSON, which iree-benchmark-module and
    `incarnate bench` print."""
    first = first_call(tuple(map(str, command)), folder)
    if first >= LONG_CALL * 1e9:
        return first
    repetitions = max(3, round(seconds / RUN_SECONDS))
    return least_of_runs(command, folder, f"{RUN_SECONDS}s", repetitions)


@functools.cache
def first_call(command: tuple, folder: Path) -> float:
    """Returns the nanoseconds of a single call, with the program and its files in memory."""
    for file in [command[0], *(part.rpartition("=@")[2] for part in command[1:])]:
        path = folder / file.removeprefix("--module=")
        if path.is_file():
            path.read_bytes()
    return least_of_runs(command, folder, "1x", 1)


def least_of_runs(command: list, folder: Path, length: str, repetitions: int) -> float:
    flags = [f"--benchmark_min_time={length}", f"--benchmark_repetitions={repetitions}"]
    rows = json.loads(output_of([*command, "--benchmark_format=json", *flags], folder))["benchmarks"]
    runs = [row for row in rows if row.get("run_type", "iteration") == "iteration"]
    return min(row["real_time"] * NANOSECONDS[row["time_unit"]] for row in runs)


def whole_process(command: list, folder: Path) -> float:
    """Returns the nanoseconds from the start of a program to its end."""
    devnull = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    arguments = [str(part) for part in command]
    here = os.getcwd()
    os.chdir(folder)
    # posix_spawn, because the millisecond that subprocess takes would hide the difference.
    start = time.perf_counter_ns()
    child = os.posix_spawn(arguments[0], arguments, os.environ, file_actions=devnull)
    status = os.waitpid(child, 0)[1]
    elapsed = time.perf_counter_ns() - start
    os.chdir(here)
    if status != 0:
        raise RuntimeError(f"{' '.join(arguments)}: status {os.waitstatus_to_exitcode(status)}")
    return elapsed


def criterion(executable: str, identifier: str, seconds: float) -> float:
    """Runs one criterion benchmark and returns the least time of its samples in nanoseconds."""
    home = TARGET / "criterion"
    samples = max(10, round(seconds * 200))
    flags = ["--bench", "--noplot", "--warm-up-time", "0.05", "--measurement-time", seconds, "--sample-size", samples]
    environment = {**os.environ, "CRITERION_HOME": str(home)}
    command = [executable, *map(str, flags), "--exact", identifier]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    sample = json.loads((home / identifier / "new" / "sample.json").read_text())
    return min(time / iterations for time, iterations in zip(sample["times"], sample["iters"]))


@functools.cache
def bench_executable(name: str) -> str:
    """Builds a benchmark for the host's CPU and returns its path."""
    packages = ["-p", "incarnate-model-benches" if name == "models" else "incarnate-benches"]
    text = output_of(
        ["cargo", "bench", "--quiet", *NATIVE, *packages, "--bench", name, "--no-run", "--message-format=json"]
    )
    for line in text.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == name:
            return message["executable"]
    raise RuntimeError(f"cargo built no benchmark {name}")


def translated_program(modules: list[Path], incarnate: Path = INCARNATE, flags: tuple = ()) -> Path:
    """Returns the program that `incarnate build` makes of some modules with some flags; rebuilds it if it is out of date."""
    main = modules[-1]
    program = TARGET / "programs" / incarnate.parent.name / "".join([f"{main.parent.name}-{main.stem}", *flags])
    newest = max(path.stat().st_mtime for path in [*modules, incarnate])
    if not program.exists() or program.stat().st_mtime < newest:
        program.parent.mkdir(parents=True, exist_ok=True)
        output_of([incarnate, "build", *modules, "-o", program, *flags])
    return program


def small_program(name: str) -> Path:
    """Returns a program of the folder `program`, for one model, optimised for size."""
    target = ROOT / "target" / "peer"
    output_of(
        ["cargo", "build", "--quiet", "-p", "incarnate-small-programs", "--profile=small", "--target-dir", target]
    )
    return target / "small" / name


def split_modules(folder: Path, module: Path, flags: list[str]) -> tuple[list[str], list[Path], list[str]]:
    """Splits the flags of a case: the flags of imported modules, the files of these and of the module itself, the rest."""
    imports = [flag for flag in flags if flag.startswith("--module=")]
    files = [folder / flag.removeprefix("--module=") for flag in imports]
    return imports, [*files, module], [flag for flag in flags if flag not in imports]


def iree_vm(variable: str, *arguments) -> float:
    """Returns the time of a call that a program of IREE's VM reports; an environment variable names the program."""
    return json.loads(output_of([os.environ[variable], *map(str, arguments)]))["ns"]


def least(samples: list) -> float:
    """Returns the least of several measurements, because other load on the machine only adds time."""
    return min(samples)


def geometric_mean(values: list) -> float:
    return statistics.geometric_mean(values)
