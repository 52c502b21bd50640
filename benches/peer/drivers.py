"""The drivers of both sides on the same modules: local-sync, and local-task with a number of workers."""

from functools import partial
from pathlib import Path

from measure import INCARNATE, geometric_mean, google_benchmark, iree_tool, split_modules, translated_program

SYNC, TASK = "local-sync", "local-task"
COLUMNS = [f"{side} {driver}" for side in ("IREE", "ours") for driver in (SYNC, TASK)]
IREE_SYNC, IREE_TASK, OUR_SYNC, OUR_TASK = COLUMNS
VERDICTS = ["vs better IREE", "vs own sync", "vs IREE task", "efficiency"]


def driver_sides(options, folder: Path, module: Path, flags: list[str]) -> dict:
    """Returns the command of each column: warm calls, ours interpreted or translated."""
    imports, files, rest = split_modules(folder, module, flags)
    modules = [*imports, f"--module={module.name}"]
    if options.without_interpretation:
        ours = [translated_program(files), "bench"]
    else:
        ours = [INCARNATE, "bench", *modules]
    commands = {"IREE": [iree_tool("iree-benchmark-module"), *modules], "ours": ours}
    sides = {}
    for column in COLUMNS:
        side, driver = column.split()
        device = [f"--device={driver}"]
        if driver == TASK:
            device.append(f"--task_topology_group_count={options.workers}")
        command = [*commands[side], *device, *rest]
        sides[column] = partial(google_benchmark, command, folder, options.min_time)
    return sides


def verdicts(workers: int, times: dict) -> list[float]:
    """Returns the ratios of our local-task to the better of IREE's drivers, to our local-sync and to IREE's local-task, and the
    parallel efficiency."""
    task, sync = times[OUR_TASK], times[OUR_SYNC]
    better = min(times[IREE_SYNC], times[IREE_TASK])
    return [task / better, task / sync, task / times[IREE_TASK], sync / task / workers]


def header() -> str:
    return f"{'us':24}" + "".join(f"{name:>18}" for name in [*COLUMNS, *VERDICTS])


def line(workers: int, name: str, times: dict) -> str:
    cells = [f"{times[column] / 1e3:18.1f}" for column in COLUMNS]
    return f"{name:24}" + "".join(cells) + "".join(f"{value:18.3f}" for value in verdicts(workers, times))


def means(workers: int, rows: dict) -> str:
    """Returns the geometric mean and the greatest value of each ratio."""
    columns = list(zip(*(verdicts(workers, times) for times in rows.values())))
    empty = f"{'':{18 * len(COLUMNS)}}"
    mean = "".join(f"{geometric_mean(list(values)):18.3f}" for values in columns)
    greatest = "".join(f"{max(values):18.3f}" for values in columns)
    return f"{'geometric mean':24}{empty}{mean}\n{'greatest':24}{empty}{greatest}"
