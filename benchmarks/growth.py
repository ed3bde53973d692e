"""Time of a gradient step against the number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from benchmarks.accuracy import ONE_BAG
from benchmarks.data import N_FEATURES, FloatArray, random_table
from benchmarks.measure import Plan, Row, described, row
from tpnn import TPNNRegressor

STEPS = 20
LARGE = 3  # the largest sizes, on which the rows outweigh what every step costs anyway
BLUE, GREY = "#2a6fbb", "#8a8f98"


def measure_growth(plan: Plan) -> list[Row]:
    """Measure the seconds of a gradient step for tables of growing length, and draw them."""
    X, y = random_table(max(plan.growing_rows))
    how = described(ONE_BAG)
    sizes, times = plan.growing_rows, [_step_seconds(X[:n], y[:n]) for n in plan.growing_rows]
    _draw(sizes, times, plan.folder / "growth.png")
    steps = [
        row("growth", f"step on {n:,} x {N_FEATURES}, {how}", 1e3 * time, "ms")
        for n, time in zip(sizes, times, strict=True)
    ]
    large = _exponent(sizes[-LARGE:], times[-LARGE:])
    return [
        *steps,
        row("growth", f"exponent from {sizes[-LARGE]:,} rows up, {how}", large, "", "<= 1.1"),
        row("growth", f"exponent over all sizes, {how}", _exponent(sizes, times), "", "<= 1.1"),
    ]


def _step_seconds(X: FloatArray, y: FloatArray) -> float:
    """Return the median time of a gradient step of main effects with one bag."""
    model = TPNNRegressor(order=1, **ONE_BAG, max_steps=STEPS, random_state=0).fit(X, y)
    return float(np.median(np.diff([record["seconds"] for record in model.history_])))


def _exponent(sizes: Sequence[int], times: Sequence[float]) -> float:
    """Return a of the least squares fit log time = a log size + b."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def _draw(sizes: Sequence[int], times: Sequence[float], path: Path) -> None:
    figure = Figure(figsize=(5.0, 3.4), layout="constrained")
    axes = figure.subplots()
    linear = [times[-1] * n / sizes[-1] for n in sizes]
    axes.loglog(sizes, linear, "--", color=GREY, linewidth=1.0, label="proportional to the rows")
    axes.loglog(sizes, times, "o-", color=BLUE, linewidth=1.6, markersize=5, label="measured")
    axes.set_xticks(sizes, [f"{n:,}" for n in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("rows")
    axes.set_ylabel("seconds per gradient step")
    axes.set_title(f"Main effects of {N_FEATURES} features, one bag", fontsize=10)
    axes.grid(which="major", color=GREY, alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=150)
