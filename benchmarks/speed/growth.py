"""Time and memory of a fit against its size: ``python -m benchmarks.speed.growth``.

Every cell is a fit of fixed length in a process of its own; what has a line is not measured again.
The lines are drawn as ``growth.png``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common.bars import child_output
from benchmarks.common.cells import PAGES, Line, complete
from benchmarks.common.environment import add_choice, machine, today
from benchmarks.common.markdown import markdown

FIGURE = PAGES / "growth.png"
SETTINGS: dict[str, dict[str, Any]] = {  # of equal length whatever the size
    "grow": {"solver": {"name": "grow", "max_rounds": 100, "patience": 100}, "n_bags": 2},
    "gradient": {
        "solver": {"name": "gradient", "max_steps": 20, "patience": 20},
        "device": "cpu",
        "n_bags": 2,
    },
}
LARGE = 3  # the largest sizes, on which what grows outweighs what every fit costs anyway
MOST_EXPONENT = 1.1


class Shape(NamedTuple):
    """Rows, features, and pairs beside all main effects."""

    n_rows: int
    n_features: int
    n_pairs: int


SIZES = {
    "rows": (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000),
    "features": (8, 30, 100, 300, 1_000),
    "components": (10, 30, 100, 300, 1_000, 3_000, 10_000),
}


def shape(axis: str, size: int) -> Shape:
    """Shape of the table whose ``axis`` has the given size, the others being what they always are.

    >>> shape("rows", 10_000), shape("features", 8)
    (Shape(n_rows=10000, n_features=8, n_pairs=28), Shape(n_rows=50000, n_features=8, n_pairs=0))
    """
    if axis == "rows":
        return Shape(size, 8, 28)
    if axis == "features":
        return Shape(50_000, size, 0)
    return Shape(20_000, 150, size)


def measure(axis: str, size: int, solver: str) -> Line:
    """Fit in a fresh process; return the line."""
    output = child_output("fit_shape", *shape(axis, size), json.dumps(SETTINGS[solver]))
    return {**json.loads(output), **machine(), "date": today()}


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return a of the least squares fit log value = a log size + b.

    >>> round(exponent([1, 2, 4], [3, 6, 12]), 6)
    1.0
    """
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def section(lines: Sequence[Line]) -> str:
    """Return the part of the page about growth, from lines in any order."""
    lines = sorted(lines, key=lambda line: line["size"])
    header = ("against", "solver", "sizes", "seconds", "exponent", "GB", "exponent", "linear")
    table: list[Sequence[str]] = [header]
    for axis in SIZES:
        for solver in SETTINGS:
            chosen = [line for line in lines if (line["axis"], line["solver"]) == (axis, solver)]
            if len(chosen) >= LARGE:
                table.append((axis, solver, *_summary(chosen)))
    return f"{INTRODUCTION}\n\n{markdown(table, padded=True)}\n\n![growth]({FIGURE.name})"


INTRODUCTION = f"""## Growth

`python -m benchmarks.speed.growth` measures. Fits of fixed length, two bags: 100 rounds of growth,
or 20 gradient steps. Rows: 8 features with all pairs. Features: 50,000 rows, main effects.
Components: 20,000 rows, 150 features, pairs beside the main effects. Memory is the peak of the
process beyond what it held before the fit. Exponents are least squares over the {LARGE} largest
sizes; linear means at most {MOST_EXPONENT}."""


def _summary(lines: Sequence[Line]) -> tuple[str, ...]:
    """Return the range of sizes, and the range and the exponent of time and of memory."""
    first, last, large = lines[0], lines[-1], lines[-LARGE:]
    sizes = [line["size"] for line in large]
    cells, exponents = [f"{first['size']:,} to {last['size']:,}"], []
    for quantity in ("seconds", "gigabytes"):
        exponents.append(exponent(sizes, [line[quantity] for line in large]))
        cells += [f"{first[quantity]:.3g} to {last[quantity]:.3g}", f"{exponents[-1]:.2f}"]
    return *cells, "yes" if max(exponents) <= MOST_EXPONENT else "no"


def draw(lines: Sequence[Line]) -> None:
    """Draw time and memory against each axis, with a line of slope one through the last points."""
    from matplotlib.figure import Figure

    lines = sorted(lines, key=lambda line: line["size"])
    figure = Figure(figsize=(10.0, 5.6), layout="constrained")
    panels = figure.subplots(2, len(SIZES), sharex="col", sharey="row")
    for column, axis in enumerate(SIZES):
        for panel, quantity in zip(panels[:, column], ("seconds", "gigabytes"), strict=True):
            for solver, colour in zip(SETTINGS, ("#2a6fbb", "#c46a2b"), strict=True):
                chosen = [
                    line for line in lines if (line["axis"], line["solver"]) == (axis, solver)
                ]
                _draw_curve(panel, chosen, quantity, solver, colour)
            panel.grid(which="major", color="#8a8f98", alpha=0.25, linewidth=0.6)
            panel.spines[["top", "right"]].set_visible(False)
        panels[1, column].set_xlabel(axis)
    panels[0, 0].set_ylabel("seconds")
    panels[1, 0].set_ylabel("gigabytes")
    panels[0, 0].legend(frameon=False, fontsize=9)
    figure.savefig(FIGURE, dpi=150)


def _draw_curve(panel: Any, lines: Sequence[Line], quantity: str, solver: str, colour: str) -> None:
    if not lines:
        return
    sizes, values = [line["size"] for line in lines], [line[quantity] for line in lines]
    slope = f", exponent {exponent(sizes[-LARGE:], values[-LARGE:]):.2f}" if len(sizes) > 1 else ""
    panel.loglog(sizes, values, "o-", color=colour, markersize=4, label=solver)
    panel.loglog(sizes, [values[-1] * n / sizes[-1] for n in sizes], ":", color=colour, alpha=0.6)
    panel.annotate(
        f"{solver}{slope}", (sizes[-1], values[-1]), ha="right", va="bottom", fontsize=7,
        color=colour,
    )  # fmt: skip


def main() -> None:
    """Measure, and draw all lines."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed.growth", description=__doc__)
    add_choice(parser, "--axes", tuple(SIZES))
    add_choice(parser, "--solvers", tuple(SETTINGS))
    parser.add_argument("--most", type=int, default=sys.maxsize, help="largest size to measure")
    given = parser.parse_args()
    cells = [
        (a, n, s) for a in given.axes for n in SIZES[a] if n <= given.most for s in given.solvers
    ]
    draw(complete("growth", ("axis", "size", "solver"), cells, measure))


if __name__ == "__main__":
    main()
