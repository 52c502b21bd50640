"""Measurements as text, as JSON, and as a plot."""

import json
import math
from html import escape
from pathlib import Path

from measure import geometric_mean

# A side has the same colour in all panels; the first column is always IREE.
COLOURS = {
    "C output": "#c9a227",
    "IREE, VMVX": "#c9a227",
    "interpreted": "#3b6fb6",
    "translated": "#c8452d",
    "plain Rust": "#2f8f5b",
    "ours, llvm-cpu": "#2f8f5b",
}
IREE_COLOUR = "#777777"
# The least ratio on the plot's axes.
LEAST_RATIO = 1e-3


def readable(nanoseconds: float) -> str:
    for unit, size in [("s ", 1e9), ("ms", 1e6), ("us", 1e3)]:
        if nanoseconds >= size:
            return f"{nanoseconds / size:.2f} {unit}"
    return f"{nanoseconds:.2f} ns"


def header(columns: list[str]) -> str:
    return f"{'':40}" + "".join(f"{column:>24}" for column in columns)


def line(name: str, columns: list[str], times: dict) -> str:
    """Formats the times of a row, each with its ratio to the first column's."""
    cells = []
    for column in columns:
        if column not in times:
            cells.append(f"{'-':>24}")
            continue
        against = f"{times[column] / times[columns[0]]:.3g}" if columns[0] in times else ""
        cells.append(f"{readable(times[column]):>15} {against:>8}")
    return f"{name:40}" + "".join(cells)


def means(columns: list[str], rows: dict) -> str:
    """Formats the geometric mean of each column's ratio to the first."""
    cells = []
    for column in columns:
        ratios = [row[column] / row[columns[0]] for row in rows.values() if column in row and columns[0] in row]
        cells.append(f"{geometric_mean(ratios):24.3g}" if ratios else f"{'-':>24}")
    return f"{'geometric mean':40}" + "".join(cells)


def write_json(path: Path, machine: dict, sections: dict) -> None:
    path.write_text(json.dumps({**machine, "sections": sections}, indent=1) + "\n")


def write_plot(path: Path, title: str, sections: list) -> None:
    """A panel for each section of (heading, columns, {row: {column: nanoseconds}}): a dot for each column at its time
    divided by the first column's, on a logarithmic axis. Dots further left are faster."""
    parts, top = [], 54
    for heading, columns, rows in sections:
        panel, height = plot_panel(heading, columns, rows, top)
        parts.append(panel)
        top += height
    width = 860
    style = "font-family:system-ui,'DejaVu Sans',sans-serif;font-size:13px"
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" width="{width}" height="{top}" '
        f'style="{style}" role="img" aria-label="{escape(title)}">\n'
        f'<rect width="{width}" height="{top}" fill="#ffffff"/>\n'
        f'<text x="20" y="30" font-size="16" font-weight="600">{escape(title)}</text>\n' + "".join(parts) + "</svg>\n"
    )


def colour_of(column: str, columns: list[str]) -> str:
    if column == columns[0]:
        return IREE_COLOUR
    return next((colour for part, colour in COLOURS.items() if part in column), COLOURS["interpreted"])


def round_ratio(ratio: float, rounding) -> float:
    """Returns the next of 1, 2, 5, 10, 20, ... below (math.floor) or above (math.ceil)."""
    decade = 10.0 ** math.floor(math.log10(ratio))
    steps = [step * decade for step in (1, 2, 5, 10)]
    if rounding is math.floor:
        return max(step for step in steps if step <= ratio * 1.0001)
    return min(step for step in steps if step >= ratio * 0.9999)


def plot_panel(heading: str, columns: list[str], rows: dict, top: int) -> tuple[str, int]:
    """Returns one panel and its height."""
    left, right, row_height = 250, 830, 22
    ratios = {
        name: {column: times[column] / times[columns[0]] for column in columns if column in times}
        for name, times in rows.items()
        if columns[0] in times
    }
    values = [max(ratio, LEAST_RATIO) for row in ratios.values() for ratio in row.values()]
    low, high = round_ratio(min(values) * 0.95, math.floor), round_ratio(max(values) * 1.05, math.ceil)
    # Loops that an optimiser removed would compress the others: they are clamped to the left edge.
    place = lambda ratio: left + math.log(max(ratio, low) / low) / math.log(high / low) * (right - left)
    axis = top + 68
    bottom = axis + row_height * len(ratios) + 2

    out = [f'<text x="20" y="{top + 14}" font-weight="600">{escape(heading)}</text>\n']
    x = 26
    for column in (column for column in columns if any(column in row for row in rows.values())):
        out.append(f'<circle cx="{x}" cy="{top + 30}" r="5" fill="{colour_of(column, columns)}"/>')
        out.append(f'<text x="{x + 9}" y="{top + 34}">{escape(column)}</text>\n')
        x += 34 + 7 * len(column)
    out.append(grid(low, high, place, axis, bottom))
    for index, (name, row) in enumerate(ratios.items()):
        y = axis + row_height * index + 12
        span = [place(ratio) for ratio in row.values()]
        out.append(f'<text x="{left - 14}" y="{y + 4}" text-anchor="end">{escape(name)}</text>')
        out.append(f'<line x1="{min(span):.1f}" x2="{max(span):.1f}" y1="{y}" y2="{y}" stroke="#b0b0b0"/>')
        for column in columns:
            if column in row:
                title = escape(f"{name}, {column}: {row[column]:.3g}, {readable(rows[name][column])}")
                out.append(
                    f'<circle cx="{place(row[column]):.1f}" cy="{y}" r="5" fill="{colour_of(column, columns)}" '
                    f'fill-opacity="0.9"><title>{title}</title></circle>\n'
                )
    return "".join(out), bottom - top + 34


def grid(low: float, high: float, place, top: int, bottom: int) -> str:
    """Lines at 1, 2, 5, 10, ... with their ratios above."""
    out, ratio = [], low
    wide = math.log10(high / low) > 2
    while ratio <= high * 1.0001:
        x = place(ratio)
        is_power = round_ratio(ratio, math.floor) == 10.0 ** round(math.log10(ratio))
        stroke = "#888888" if abs(ratio - 1) < 1e-6 else "#cccccc" if is_power else "#ededed"
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 6}" y2="{bottom}" stroke="{stroke}"/>')
        if is_power or not wide:
            out.append(f'<text x="{x:.1f}" y="{top - 11}" text-anchor="middle" fill="#555555">{ratio:g}</text>\n')
        ratio = round_ratio(ratio * 1.5, math.ceil)
    return "".join(out)
