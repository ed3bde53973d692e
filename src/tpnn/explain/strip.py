"""Strip: the largest components as small charts, which a notebook shows for a model."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.explain.doubt import VEIL, colour_limit
from tpnn.table.axis import Axis

if TYPE_CHECKING:
    from tpnn.explain.component_table import ComponentTable
    from tpnn.explain.explanation import Explanation

N_CHARTS = 6
WIDTH, HEIGHT = 180, 90  # pixels
MOST_CELLS = 24  # of a heat map along each side
BLUE, RED, GREY = (42, 111, 187), (195, 66, 63), "#8a8f98"
FIGURE = "display: inline-block; margin: 4px 8px; vertical-align: top"


def strip(explanation: Explanation) -> str:
    """Write the largest components of one or two features as charts on one scale, and their shares.

    A model of several outputs is shown by its first.
    """
    names = explanation.model.output_names
    one = explanation.of(names[0]) if names else explanation
    shares = explanation.sobol()
    wanted = set(one.model.component_names)
    shown = [n for n in explanation.importance() if len(n) <= 2 and n in wanted][:N_CHARTS]
    tables = [one.component(names) for names in shown]
    mains = [table.effect for table in tables if len(table.axes) == 1]
    largest = max((float(np.abs(effect).max()) for effect in mains), default=0.0) or 1.0
    limits = {1: largest, 2: colour_limit(one.model)}
    output = f" for {escape(names[0])}" if names else ""
    model = escape(repr(explanation.model))
    head = f"<p>{model}{output}: the largest components, on one scale.</p>"
    figures = []
    for table in tables:
        draw, name = {1: _curve, 2: _map}[len(table.axes)], escape(" × ".join(table.names))
        figures.append(
            f'<figure style="{FIGURE}"><svg xmlns="http://www.w3.org/2000/svg" '
            f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
            f'aria-label="{name}">{draw(table, limits[len(table.axes)])}</svg><figcaption>{name} '
            f"<small>{100 * shares[table.names]:.1f} %</small></figcaption></figure>"
        )
    return head + "".join(figures)


def _curve(table: ComponentTable, limit: float) -> str:
    """Draw a main effect by rank, with its band; levels and missing values are points."""
    (axis,) = table.axes
    at = _across(axis)
    lower, upper = table.band if table.posterior is not None else (table.effect, table.effect)
    y, low, high = (
        np.clip(HEIGHT / 2 * (1 - 0.92 * values / limit), 0, HEIGHT)
        for values in (table.effect, lower, upper)
    )
    colour = f"rgb{BLUE}"
    line = f'<line x1="0" x2="{WIDTH}" y1="{HEIGHT / 2}" y2="{HEIGHT / 2}" stroke="{GREY}"/>'
    is_curve = axis.levels is None
    regular = axis.regular if is_curve else slice(0, 0)
    outline = np.r_[np.c_[at, low][regular], np.c_[at, high][regular][::-1]]
    band = f'<polygon points="{_points(outline)}" fill="{colour}" opacity="0.2"/>'
    curve = f'<polyline points="{_points(np.c_[at, y][regular])}" fill="none" stroke="{colour}"/>'
    first = len(axis.values) if is_curve else 0
    dots = "".join(
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{a:.1f}" y2="{b:.1f}" stroke="{colour}" '
        'stroke-width="4" opacity="0.3"/>'
        f'<circle cx="{x:.1f}" cy="{c:.1f}" r="2.5" fill="{colour}"/>'
        for x, a, b, c in zip(at[first:], low[first:], high[first:], y[first:], strict=True)
    )
    return line + (band + curve if is_curve else "") + dots


def _across(axis: Axis) -> FloatArray:
    """Pixel of each node: levels side by side, numbers by value between their outer hundredths."""
    end = WIDTH - 14 * axis.has_missing
    n = len(axis.values)
    if axis.levels is not None or n < 2:
        regular = (np.arange(n) + 0.5) / max(n, 1)
    else:
        low, high = np.interp((0.01, 0.99), axis.positions[axis.regular], axis.values)
        regular = ((axis.values - low) / ((high - low) or 1.0)).clip(0, 1)
    return np.asarray(axis.with_missing(end * regular, WIDTH - 6.0), np.float64)


def _points(places: FloatArray) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _map(table: ComponentTable, limit: float) -> str:
    """Draw cells of a pair, evenly spread over the nodes: red raises the score, blue lowers it.

    Colours fade where the band holds "no effect".
    """
    n, m = table.effect.shape
    rows, columns = (
        np.unique(np.linspace(0, size - 1, min(size, MOST_CELLS)).astype(int)) for size in (n, m)
    )
    nodes = np.ix_(rows, columns)
    cells, shade = table.effect[nodes], np.minimum(np.abs(table.effect[nodes]) / limit, 1)
    if table.posterior is not None:
        lower, upper = (ends[nodes] for ends in table.band)
        shade = np.where((lower <= 0) & (upper >= 0), (1 - VEIL) * shade, shade)
    wide, tall = WIDTH / len(rows), HEIGHT / len(columns)
    return "".join(
        f'<rect x="{i * wide:.1f}" y="{HEIGHT - (j + 1) * tall:.1f}" width="{wide:.1f}" '
        f'height="{tall:.1f}" shape-rendering="crispEdges" '
        f'fill="rgb{RED if cells[i, j] > 0 else BLUE}" '
        f'opacity="{shade[i, j]:.2f}"/>'
        for i, j in np.ndindex(*cells.shape)
    )
