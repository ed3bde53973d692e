"""Curves: main effects, of one fit with its band or of several fits together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn._typing import FloatArray
from tpnn.explain.component_table import BAND_DEVIATIONS
from tpnn.explain.plots.checks import check_one_output
from tpnn.explain.plots.scales import (
    MAIN_RANKS,
    label_axis,
    missing_strip,
    node_places,
    shown_range,
)
from tpnn.explain.plots.style import (
    BLUE,
    COLOURS,
    GREY,
    LABEL_SIZE,
    PALE,
    SMOOTHING_KERNEL,
    TICK_SIZE,
    axes_or_new,
    paler,
    tidy,
)
from tpnn.explain.reading import Reading, Wanted
from tpnn.table.axis import Axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_DENSITY_BINS = 40


def main_effect(explanation: Reading, component: Wanted, ax: Axes | None = None) -> Axes:
    """Draw a main effect on the feature's own scale, with two standard deviations of the bags.

    Levels are points; missing values are a point to the right of the others. The grey hills or
    bars along the bottom are the density of the data.
    """
    check_one_output(explanation)
    table = explanation.component(component)
    (axis,) = table.axes
    axes, limits = axes_or_new(ax), shown_range(axis, MAIN_RANKS)
    places, n = node_places(axis), axis.n_regular
    lower, upper = table.band
    axes.axhline(0, color=GREY, linewidth=0.7, zorder=1)
    if axis.levels is not None:
        _draw_points(axes, places, table.effect[:n], table.spread[:n])
    else:
        axes.fill_between(places, lower[:n], upper[:n], color=BLUE, alpha=0.18, linewidth=0)
        axes.plot(places, table.effect[:n], color=BLUE, linewidth=1.6)
    right = limits[1]
    if axis.has_missing:
        left, right = missing_strip(limits)
        _draw_points(axes, np.array([(left + right) / 2]), table.effect[n:], table.spread[n:])
    inside = (places >= limits[0]) & (places <= limits[1])
    drawn = np.append(inside, [True] * axis.has_missing).astype(bool)
    low, high = float(lower[drawn].min()), float(upper[drawn].max())
    height = (high - low) or 1.0
    axes.set(xlim=(limits[0], right), ylim=(low - 0.22 * height, high + 0.05 * height))
    if table.density is not None:
        _density_hills(axes, axis, table.density, limits)
    label_axis(axis, table.names[0], axes.xaxis, limits)
    axes.set_xlim(limits[0], right)
    axes.set_ylabel("effect", fontsize=LABEL_SIZE)
    tidy(axes)
    return axes  # type: ignore[no-any-return]


def _draw_points(axes: Any, places: FloatArray, effect: FloatArray, spread: FloatArray) -> None:
    axes.errorbar(
        places, effect, BAND_DEVIATIONS * spread, fmt="o", color=BLUE, markersize=4.5, elinewidth=4,
        ecolor=paler(BLUE),
    )  # fmt: skip


def _density_hills(axes: Any, axis: Axis, density: FloatArray, limits: tuple[float, float]) -> None:
    hills = axes.inset_axes([0, 0, 1, 0.13], zorder=0)
    places, shares = node_places(axis), density[: axis.n_regular]
    if axis.levels is not None:
        hills.bar(places, shares, width=0.7, color=PALE)
        highest = shares.max()
    else:
        edges = np.linspace(*limits, N_DENSITY_BINS + 1)
        counts = np.convolve(
            np.histogram(places, edges, weights=shares)[0], SMOOTHING_KERNEL, mode="same"
        )
        hills.fill_between((edges[:-1] + edges[1:]) / 2, counts, color=PALE, linewidth=0)
        highest = counts.max()
    hills.set(xlim=axes.get_xlim(), ylim=(0, float(highest) * 1.02 or 1.0))
    hills.set_axis_off()


def comparison(
    explanations: Mapping[str, Reading] | Sequence[Reading],
    component: Wanted,
    ax: Axes | None = None,
) -> Axes:
    """Draw the same main effect of several fits, as the paper does to show their stability.

    Fits given by name each get a colour and an entry in the legend; unnamed ones are thin lines of
    one colour. Levels stand in the order of the first fit, followed by those it does not have.
    """
    named = isinstance(explanations, Mapping)
    fits = list(explanations.values() if isinstance(explanations, Mapping) else explanations)
    labels = list(explanations) if isinstance(explanations, Mapping) else [""] * len(fits)
    axes = axes_or_new(ax)
    axes.axhline(0, color=GREY, linewidth=0.7)
    for fit in fits:
        check_one_output(fit)
    tables = [fit.component(component) for fit in fits]
    axis = _with_all_levels([table.axes[0] for table in tables])
    for number, (table, label) in enumerate(zip(tables, labels, strict=True)):
        style = {"color": COLOURS[number % len(COLOURS)], "linewidth": 1.5, "label": label}
        plain = {"color": BLUE, "linewidth": 0.9, "alpha": 0.6}
        places = node_places(table.axes[0])
        if axis.levels is not None:
            places = np.array([axis.levels.index(level) for level in table.axes[0].levels or ()])
        order = np.argsort(places)
        axes.plot(places[order], table.effect[order], **(style if named else plain))
    limits = shown_range(axis, MAIN_RANKS)
    label_axis(replace(axis, has_missing=False), tables[0].names[0], axes.xaxis, limits)
    axes.set_xlim(*limits)
    axes.set_ylabel("effect", fontsize=LABEL_SIZE)
    if named:
        axes.legend(frameon=False, fontsize=TICK_SIZE)
    tidy(axes)
    return axes  # type: ignore[no-any-return]


def _with_all_levels(axes: Sequence[Axis]) -> Axis:
    """Return the first axis, with the levels of the others after its own."""
    first = axes[0]
    if first.levels is None:
        return first
    levels = tuple(dict.fromkeys(level for axis in axes for level in axis.levels or ()))
    return replace(first, values=np.arange(float(len(levels))), levels=levels, has_missing=False)
