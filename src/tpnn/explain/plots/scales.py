"""Scales: where the values of a feature stand on a plot, and how the axis is labelled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.explain.plots.labels import MISSING_LABEL, label_levels, name_axis, points_along
from tpnn.explain.plots.style import TICK_SIZE
from tpnn.explain.plots.ticks import (
    drawn_places,
    even_places,
    keep_apart,
    label_dates,
    label_numbers,
)
from tpnn.model.model import AnovaModel
from tpnn.table.axis import Axis
from tpnn.table.frame import DATE, DURATION
from tpnn.table.words import SECONDS_PER_DAY, node_words

MAIN_RANKS, PAIR_RANKS = (0.005, 0.995), (0.01, 0.99)  # shares of the data that a plot shows
HEAVY_TAIL_SHARE = 0.12  # of a range, if half of the nodes are in less, it has heavy tails
SMALL_RANK = 0.1  # of the values other than zero: below it a logarithmic axis with zero is linear


def unit_of(axis: Axis) -> float:
    """Seconds per unit of the plot: dates and durations are drawn in days."""
    return SECONDS_PER_DAY if axis.kind in (DATE, DURATION) else 1.0


def node_places(axis: Axis) -> FloatArray:
    """Places of the nodes of non-missing values on a plot; levels stand one apart."""
    if axis.levels is not None:
        return np.arange(float(axis.n_regular))
    return axis.values[: axis.n_regular] / unit_of(axis)


def shown_range(axis: Axis, ranks: Sequence[float]) -> tuple[float, float]:
    """First and last place that a plot shows, between two ranks of the data."""
    places = node_places(axis)
    if axis.n_regular == 0:
        return -0.5, 0.5  # nothing but missing values
    if axis.levels is not None:
        return -0.6, places[-1] + 0.6
    low, high = np.interp(ranks, axis.positions[: axis.n_regular], places)
    return (low, high) if high > low else (places[0] - 0.5, places[-1] + 0.5)


def has_heavy_tails(axis: Axis) -> bool:
    """Whether half of a feature's nodes are crowded into a small part of the range shown.

    >>> has_heavy_tails(Axis(np.arange(1.0, 9.0), np.ones(8) / 8))
    False
    >>> has_heavy_tails(Axis(10.0 ** np.arange(8), np.ones(8) / 8))
    True
    """
    if axis.levels is not None or axis.kind == DATE or axis.n_regular < 4:
        return False
    low, high = shown_range(axis, MAIN_RANKS)
    quarters = np.quantile(node_places(axis).clip(low, high), (0.25, 0.75))
    return bool(np.diff(quarters)[0] < HEAVY_TAIL_SHARE * (high - low))


def heavy_tails(model: AnovaModel, component: Sequence[str], log_axes: bool) -> list[bool]:
    """Whether each feature of a component gets a logarithmic axis.

    The nodes of main effects decide, so that a feature has the same axis in all plots.
    """
    features = [model.feature_names.index(name) for name in component]
    return [log_axes and has_heavy_tails(model.encoder.axes[1][j]) for j in features]


def set_logarithmic(axis: Axis, drawn: Any) -> None:
    """Make a matplotlib axis logarithmic, and linear around zero if it contains zero."""
    places, set_scale = node_places(axis), drawn.axes.set_xscale
    if drawn.axis_name == "y":
        set_scale = drawn.axes.set_yscale
    if places[0] > 0:
        set_scale("log")
    else:
        small = np.quantile(np.abs(places[places != 0]), SMALL_RANK)
        set_scale("symlog", linthresh=10.0 ** math.floor(math.log10(small)))


def missing_strip(drawn: Any, limits: tuple[float, float]) -> tuple[float, float]:
    """Left and right edge of the strip of missing values, to the right of the others."""
    low, high = drawn_places(drawn, np.array(limits))
    ends = high + (high - low) * np.array([0.04, 0.1])
    left, right = drawn.get_transform().inverted().transform(ends)
    return float(left), float(right)


def missing_place(drawn: Any, limits: tuple[float, float]) -> float:
    """Middle of the strip of missing values."""
    return float(even_places(drawn, missing_strip(drawn, limits), 3)[1])


def label_axis(
    axis: Axis,
    name: str,
    others: Sequence[str],
    drawn: Any,
    limits: tuple[float, float],
    room: float = 1.0,
) -> None:
    """Limit a matplotlib axis such as ``axes.xaxis`` and label its values, missing ones last.

    Its name differs from the ``others``, the names of all features. ``room`` is the
    share of the axis that will be left when the figure is laid out.
    """
    last = missing_strip(drawn, limits)[1] if axis.has_missing else limits[1]
    set_limits = drawn.axes.set_xlim if drawn.axis_name == "x" else drawn.axes.set_ylim
    set_limits(limits[0], last)
    drawn.set_tick_params(labelsize=TICK_SIZE)
    points = room * points_along(drawn)
    missing = [missing_place(drawn, limits)] * axis.has_missing
    unit = " (days)" if axis.kind == DURATION else ""
    if axis.levels is not None:
        words = [*node_words(axis)[: axis.n_regular], *[MISSING_LABEL] * axis.has_missing]
        label_levels(drawn, [*node_places(axis), *missing], words, points)
    elif axis.kind == DATE:
        unit = label_dates(drawn)
    elif axis.n_regular:
        label_numbers(drawn, limits, points)
    if axis.levels is None:
        keep_apart(drawn, limits, missing, points)
    name_axis(drawn, name, others, unit, points)
