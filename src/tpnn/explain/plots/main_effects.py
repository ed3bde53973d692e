"""Plots of main effects: of one fit with its band, or of several fits together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.explain.plots.axes import (
    MAIN_RANKS,
    MOST_BARS,
    drawn_axes,
    drawn_places,
    even_places,
    heavy_tails,
    is_evenly_spaced,
    label_axis,
    missing_place,
    node_places,
    set_factors,
    set_logarithmic,
    shown_range,
)
from tpnn.explain.plots.labels import inches_for_levels, legend_words, name_band, name_reference
from tpnn.explain.plots.style import (
    BLUE,
    COLOURS,
    GREY,
    MOST_INCHES,
    PALE,
    SMOOTHING_KERNEL,
    axes_or_new,
    check_one_output,
    finished,
    paler,
)
from tpnn.explain.response import RAW
from tpnn.table.axis import Axis
from tpnn.table.words import node_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tpnn.explain.explanation import Explanation, Wanted

N_DENSITY_BINS = 40
N_CURVE_POINTS = 200  # between the nodes, on a logarithmic axis


def main_effect(
    explanation: Explanation,
    component: Wanted,
    ax: Axes | None = None,
    *,
    scale: str = RAW,
    reference: Any = None,
    log_axes: bool = True,
) -> Axes:
    """Draw a main effect on the feature's own scale, with its band of 95 %.

    The band covers the true effect over 95 % of the data, on average; models without bands show the
    effect alone. Levels, and numbers with few values, are points; missing values are a point to the
    right of the others. Relativities and ratios have a logarithmic axis. The grey hills or bars
    along the bottom are the density of the data.

    Parameters
    ----------
    explanation : Explanation
        What is drawn.
    component : str, int or tuple
        The feature, by name or position.
    ax : Axes, optional
        Where to draw; by default a new figure.
    scale, reference
        Raw effects, or relativities, odds ratios or differences to a reference, as in
        :meth:`~tpnn.explain.component_table.ComponentTable.to_frame`.
    log_axes : bool, default=True
        Whether a feature with heavy tails gets a logarithmic axis, linear around zero.
    """
    check_one_output(explanation)
    table = explanation.component(component)
    (axis,) = drawn_axes(explanation.model, table.names, table.axes)
    scaled = table.on_scale(scale, reference)
    axes, limits = new_axes(ax, axis), shown_range(axis, MAIN_RANKS)
    if heavy_tails(explanation.model, table.names, log_axes)[0]:
        set_logarithmic(axis, axes.xaxis)
    places = node_places(axis)
    values = scaled.values
    lower, upper = scaled.band() if scaled.has_band else (values, values)
    axes.axhline(scaled.neutral, color=GREY, linewidth=0.7, zorder=1)
    draw_effect(axes, axis, values, lower, upper)
    inside = (places >= limits[0]) & (places <= limits[1])
    drawn = axis.with_missing(inside, True)
    low, high = float(lower[drawn].min()), float(upper[drawn].max())
    if scaled.is_factor and low > 0:
        height = np.log(high / low) or 1.0
        set_factors(axes.yaxis, low * np.exp(-0.22 * height), high * np.exp(0.05 * height))
    else:
        height = (high - low) or 1.0
        axes.set_ylim(low - 0.22 * height, high + 0.05 * height)
    label_axis(axis, table.names[0], explanation.model.feature_names, axes.xaxis, limits)
    if table.density is not None:
        _density_hills(axes, axis, table.density, limits)
    name_reference(axes, scaled)
    name_band(axes, scaled)
    return finished(axes, y=scaled.label)  # type: ignore[no-any-return]


def new_axes(ax: Axes | None, axis: Axis) -> Any:
    """Return ``ax``, or new axes with room for the labels of all levels."""
    along, across = inches_for_levels(() if axis.levels is None else node_words(axis))
    return axes_or_new(ax, min(max(4.2, 0.8 + along), MOST_INCHES), max(3.0, 2.2 + across))


def draw_effect(
    axes: Any,
    axis: Axis,
    values: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    *,
    colour: str = BLUE,
    label: str = "",
    shift: float = 0.0,
) -> None:
    """Draw a main effect and its band: a curve, or points for levels and for missing values.

    ``shift`` is how far a point stands to the right of its level; levels are 1 apart.
    """
    places, lines = node_places(axis), np.stack([values, lower, upper])
    limits = shown_range(axis, MAIN_RANKS)
    if axis.levels is not None:
        _draw_points(axes, places + shift, lines[:, axis.regular], colour, label)
    elif not axis.is_empty:
        _draw_curve(axes, places, lines[:, axis.regular], colour, label, limits)
    if axis.has_missing:
        middle = missing_place(axes.xaxis, limits)
        name = label if axis.is_empty else ""
        _draw_points(axes, np.array([middle]), lines[:, axis.missing], colour, name)


def _draw_curve(
    axes: Any,
    places: FloatArray,
    lines: FloatArray,
    colour: str,
    label: str,
    limits: tuple[float, float],
) -> None:
    """Draw a function that is linear between its nodes, and its band: the rows of ``lines``.

    It ends at the limits, so that it never runs into the point of missing values.
    """
    low, high = max(limits[0], places[0]), min(limits[1], places[-1])
    x = np.union1d(places[(places > low) & (places < high)], [low, high])
    if axes.xaxis.get_scale() != "linear":  # where a straight line between nodes is drawn bent
        x = np.union1d(x, even_places(axes.xaxis, (low, high), N_CURVE_POINTS))
    values, lower, upper = (np.interp(x, places, line) for line in lines)
    if (upper > lower).any():
        axes.fill_between(x, lower, upper, color=colour, alpha=0.18, linewidth=0)
    axes.plot(x, values, color=colour, linewidth=1.6, label=label)


def _draw_points(axes: Any, places: FloatArray, lines: FloatArray, colour: str, label: str) -> None:
    values, lower, upper = lines
    reach = np.stack([values - lower, upper - values]).clip(0)
    axes.errorbar(
        places, values, reach if reach.any() else None, fmt="o", color=colour, markersize=4.5,
        elinewidth=4, ecolor=paler(colour), label=label,
    )  # fmt: skip


def _density_hills(axes: Any, axis: Axis, density: FloatArray, limits: tuple[float, float]) -> None:
    hills = axes.inset_axes([0, 0, 1, 0.13], zorder=0)
    places, shares = drawn_places(axes.xaxis, node_places(axis)), density[axis.regular]
    low, high = drawn_places(axes.xaxis, np.array(limits))
    if axis.levels is not None or is_evenly_spaced(axis.values):
        inside = (places >= low) & (places <= high)
        gaps = np.diff(places[inside])
        width = max(0.7 * gaps.min(initial=high - low), (high - low) / MOST_BARS / 8)
        hills.bar(places[inside], shares[inside], width=width, color=PALE)
        highest = shares[inside].max(initial=0.0)
    else:
        edges = np.linspace(low, high, N_DENSITY_BINS + 1)
        counts = np.convolve(
            np.histogram(places, edges, weights=shares)[0], SMOOTHING_KERNEL, mode="same"
        )
        hills.fill_between((edges[:-1] + edges[1:]) / 2, counts, color=PALE, linewidth=0)
        highest = counts.max()
    ends = drawn_places(axes.xaxis, np.array(axes.get_xlim()))
    hills.set(xlim=tuple(ends.tolist()), ylim=(0, float(highest) * 1.02 or 1.0))
    hills.set_axis_off()


def comparison(
    explanations: Mapping[str, Explanation] | Sequence[Explanation],
    component: Wanted,
    ax: Axes | None = None,
    *,
    scale: str = RAW,
    reference: Any = None,
    log_axes: bool = True,
) -> Axes:
    """Draw the same main effect of several fits, as the paper does to show their stability.

    Fits given by name each get a colour and an entry in the legend; unnamed ones are thin lines of
    one colour. Levels stand in the order of the first fit, followed by those it does not have. The
    other arguments are those of :func:`tpnn.plots.main_effect`.
    """
    named = isinstance(explanations, Mapping)
    fits = list(explanations.values() if isinstance(explanations, Mapping) else explanations)
    labels = legend_words(list(map(str, explanations))) if named else [""] * len(fits)
    for fit in fits:
        check_one_output(fit)
    tables = [fit.component(component) for fit in fits]
    drawn = [drawn_axes(f.model, t.names, t.axes)[0] for f, t in zip(fits, tables, strict=True)]
    if any(axis.levels is None for axis in drawn):
        drawn = [table.axes[0] for table in tables]
    axis = _with_all_levels(drawn)
    axes = new_axes(ax, axis)
    if heavy_tails(fits[0].model, tables[0].names, log_axes)[0]:
        set_logarithmic(axis, axes.xaxis)
    scaled = [table.on_scale(scale, reference) for table in tables]
    axes.axhline(scaled[0].neutral, color=GREY, linewidth=0.7)
    for number, (own, shown, label) in enumerate(zip(drawn, scaled, labels, strict=True)):
        style = {"color": COLOURS[number % len(COLOURS)], "linewidth": 1.5, "label": label}
        plain = {"color": BLUE, "linewidth": 0.9, "alpha": 0.6}
        places = node_places(own)
        if axis.levels is not None:
            places = np.array([axis.levels.index(level) for level in own.levels or ()])
        order = np.argsort(places)
        values = shown.values[own.regular]
        axes.plot(places[order], values[order], **(style if named else plain))
    if scaled[0].is_factor:
        set_factors(axes.yaxis, *axes.get_ylim())
    others, limits = fits[0].model.feature_names, shown_range(axis, MAIN_RANKS)
    label_axis(axis, tables[0].names[0], others, axes.xaxis, limits)
    name_reference(axes, scaled[0])
    return finished(axes, y=scaled[0].label, has_legend=named)  # type: ignore[no-any-return]


def _with_all_levels(axes: Sequence[Axis]) -> Axis:
    """Return the first axis, with the levels of the others after its own."""
    first = axes[0]
    if first.levels is None:
        return replace(first, weights=first.weights[first.regular], has_missing=False)
    levels = tuple(dict.fromkeys(level for axis in axes for level in axis.levels or ()))
    return replace(first, values=np.arange(float(len(levels))), levels=levels, has_missing=False)
