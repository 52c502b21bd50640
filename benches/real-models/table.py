"""The table of docs/models.md."""

import re
from pathlib import Path

from check import DEVICES, MODES, TARGETS

COLUMNS = {
    "native": "native interpreted",
    "portable": "portable translated",
    "ONNX Runtime": "ONNX Runtime",
    "XLA": "XLA",
    "IREE": "IREE",
}
START = "<!-- Written by benches/real-models/run. -->\n"
END = "<!-- End of what it writes. -->\n"


def number(value: int) -> str:
    for unit, size in (("M", 1_000_000), ("k", 1000)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return str(value)


def milliseconds(times: dict, column: str) -> str:
    cells = [f"{times[key] / 1e6:.3g}" if (key := f"{column} {threads}") in times else "-" for threads in (1, 2)]
    return " / ".join(cells)


def error(runs: dict, target: str) -> str:
    """Returns the greatest error of a target's runs, or which of them are wrong."""
    names = [f"{target} {mode} {device}" for mode in MODES for device in DEVICES]
    found = {name: runs[name] for name in names if name in runs}
    if not found:
        return "-"
    wrong = [name for name, run in found.items() if not run.get("right")]
    if wrong:
        reason = found[wrong[0]].get("reason") or f"error {found[wrong[0]]['relative']:.0e}"
        return f"**{len(wrong)} of {len(found)}**: {reason}"
    greatest = [max(run[kind] for run in found.values()) for kind in ("absolute", "relative")]
    missing = [mode for mode in MODES if not any(f" {mode} " in name for name in found)]
    return f"{greatest[0]:.0e}, {greatest[1]:.0e}{''.join(f' (not {mode})' for mode in missing)}"


def short(reason: str) -> str:
    """Returns the compiler's reason without the command in front of it and the operation's attributes after it, but its name."""
    name = re.search(r'name = "([^"]*)"', reason)
    text = reason.partition("; ")[2].partition(" that was")[0].partition(": %")[0] or reason
    return f"{text} ({name[1]})" if name else text


def compiled(found: dict) -> str:
    """Returns what the model compiles for, or why it does not."""
    states = found.get("compiled", {})
    reasons = [states[target]["reason"] for target in TARGETS if "reason" in states.get(target, {})]
    if not reasons:
        return "both"
    return f"{'no' if len(reasons) == len(TARGETS) else 'not portable'}: {short(reasons[0])}"


def summary(about: dict, found: dict) -> str:
    lines = [f"{about['name']}: compiles: {compiled(found)}"]
    for name, run in found["runs"].items():
        error = run.get("reason") or f"{run['absolute']:.1e}, relative {run['relative']:.1e}"
        lines.append(f"    {name:32}{'right' if run.get('right') else 'WRONG'}  {error}")
    return "\n".join(lines)


def tables(rows: list) -> str:
    lines = ["| model | source | input | operators | parameters | compiles | native | portable |", "|---|" * 1 + "---|" * 7]
    for about, found in rows:
        runs = found.get("runs", {})
        cells = [about["title"], about["source"], about["size"], str(about["operators"]), number(about["parameters"])]
        lines.append(f"| {' | '.join([*cells, compiled(found), error(runs, 'native'), error(runs, 'portable')])} |")
    # Times of which nothing says where they come from are left out.
    timed = [(about, found) for about, found in rows if found.get("times") and found.get("origin")]
    if not timed:
        return "\n".join(lines) + "\n"
    lines += ["", *sorted({found["origin"] for _, found in timed})]
    lines += ["", f"| milliseconds, 1 / 2 threads | {' | '.join(COLUMNS)} |", "|---|" + "---|" * len(COLUMNS)]
    for about, found in timed:
        cells = [milliseconds(found["times"], column) for column in COLUMNS.values()]
        lines.append(f"| {' | '.join([about['title'], *cells])} |")
    return "\n".join(lines) + "\n"


def write(path: Path, folders: list[Path], results) -> None:
    """Replaces the tables in a page, between its two marks."""
    import json

    rows = [(json.loads((folder / "about.json").read_text()), results(folder)) for folder in folders]
    rows = [(about, found) for about, found in rows if found]
    before, _, rest = path.read_text().partition(START)
    after = rest.partition(END)[2]
    path.write_text(f"{before}{START}\n{tables(rows)}\n{END}{after}")
