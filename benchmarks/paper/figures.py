"""Figures: main effects of several fits, drawn from their lines."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.common.cells import Line
from benchmarks.paper.results import Lines
from benchmarks.paper.special_tables import save
from benchmarks.paper.specs import Spec
from benchmarks.paper.tables import title_of

MOST_SPLITS = 5


def draw(spec: Spec, lines: Lines) -> str:
    """Draw one row of main effects per model and return the Markdown that shows it."""
    from matplotlib.figure import Figure

    (name,) = spec.data
    features = spec.options.get("features") or lines.table(name)["features"]
    drawn = [model for model in spec.models if _curves(lines, name, model)]
    if not drawn:
        return "Not drawn yet: no finished cell has its curves."
    size = (2.2 * len(features), 1.7 * len(drawn))
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(drawn), len(features), sharex="col", sharey="col", squeeze=False)
    for row, model in zip(grid, drawn, strict=True):
        for axes, feature in zip(row, features, strict=True):
            _draw_effect(axes, lines.table(name), feature, _curves(lines, name, model))
        row[0].set_ylabel(title_of(model), fontsize=8)
    for axes, feature in zip(grid[0], features, strict=True):
        axes.set_title(feature, fontsize=8)
    return save(figure, spec)


def _curves(lines: Lines, name: str, model: str) -> list[list[list[float]]]:
    """Return the main effects of each split that has them."""
    return [line["curves"] for line in lines.of(name, model) if "curves" in line][:MOST_SPLITS]


def _draw_effect(axes: Any, table: Line, feature: str, curves: list[list[list[float]]]) -> None:
    index = table["features"].index(feature)
    for split in curves:
        axes.plot(table["nodes"][index], np.array(split[index]), linewidth=0.9)
    axes.axhline(0, color="0.8", linewidth=0.6, zorder=0)
    axes.locator_params(nbins=4)
    axes.tick_params(labelsize=6)
