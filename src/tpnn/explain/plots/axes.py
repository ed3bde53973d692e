"""Axes of plots: where the values of a feature stand, and how they are labelled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.explain.plots.labels import (
    LETTER_WIDTH,
    LINE_HEIGHT,
    MISSING_LABEL,
    label_levels,
    name_axis,
    points_along,
)
from tpnn.explain.plots.style import TICK_SIZE
from tpnn.loss.links import Link
from tpnn.model.model import AnovaModel
from tpnn.table.axis import Axis
from tpnn.table.table import DATE, DURATION, NUMBER, ORDERED
from tpnn.table.words import node_words, shown_unit, written

MAIN_RANKS, PAIR_RANKS = (0.005, 0.995), (0.01, 0.99)  # shares of the data that a plot shows
HEAVY_TAIL_SHARE = 0.12  # of a range, if half of the nodes are in less, it has heavy tails
SMALL_RANK = 0.1  # of the values other than zero: below it a logarithmic axis with zero is linear


def node_places(axis: Axis) -> FloatArray:
    """Places of the nodes of non-missing values on a plot; levels stand one apart."""
    if axis.levels is not None:
        return np.arange(float(len(axis.values)))
    return axis.values / shown_unit(axis.kind)


def shown_range(axis: Axis, ranks: Sequence[float]) -> tuple[float, float]:
    """First and last place that a plot shows, between two ranks of the data."""
    places = node_places(axis)
    if axis.is_empty:
        return -0.5, 0.5  # nothing but missing values
    if axis.levels is not None:
        return -0.6, places[-1] + 0.6
    low, high = np.interp(ranks, axis.positions[axis.regular], places)
    return (low, high) if high > low else (places[0] - 0.5, places[-1] + 0.5)


def has_heavy_tails(axis: Axis) -> bool:
    """Whether half of a feature's nodes are crowded into a small part of the range shown.

    >>> has_heavy_tails(Axis(np.arange(1.0, 9.0), np.ones(8) / 8))
    False
    >>> has_heavy_tails(Axis(10.0 ** np.arange(8), np.ones(8) / 8))
    True
    """
    if axis.levels is not None or axis.kind == DATE or len(axis.values) < 4:
        return False
    low, high = shown_range(axis, MAIN_RANKS)
    quarters = np.quantile(node_places(axis).clip(low, high), (0.25, 0.75))
    return bool(np.diff(quarters)[0] < HEAVY_TAIL_SHARE * (high - low))


MOST_VALUES = 12  # of a number that is drawn as levels
MOST_BARS = 60  # of the density of a number with few values


def is_evenly_spaced(values: FloatArray) -> bool:
    """Whether values are few and whole multiples of one step apart, as whole numbers are.

    >>> is_evenly_spaced(np.array([0.0, 1.0, 3.0])), is_evenly_spaced(np.array([0.0, 1.0, 2.3]))
    (True, False)
    """
    gaps = np.diff(values)
    counts = gaps / gaps.min(initial=np.inf)
    return bool((np.abs(counts - np.round(counts)) < 1e-6).all() and counts.sum() < MOST_BARS)


def has_few_values(axis: Axis) -> bool:
    """Whether a number has few values, evenly spaced; two or three must be whole numbers.

    >>> has_few_values(Axis(np.array([0.0, 1.0]), np.ones(2) / 2))
    True
    >>> has_few_values(Axis(np.array([0.0, 0.7]), np.ones(2) / 2))
    False
    """
    values, n_values = axis.values, len(axis.values)
    if axis.kind != NUMBER or axis.levels is not None or not 2 <= n_values <= MOST_VALUES:
        return False
    return is_evenly_spaced(values) and (n_values > 3 or bool((values == np.rint(values)).all()))


def drawn_axes(model: AnovaModel, names: Sequence[str], axes: Sequence[Axis]) -> list[Axis]:
    """Axes of a component as they are drawn: numbers with few values as levels, as in the report.

    The nodes of main effects decide: coarser ones may be few where values are many.
    """
    mains = [model.encoder.axes[1][model.feature_names.index(name)] for name in names]
    return [
        replace(axis, kind=ORDERED, values=np.arange(float(len(axis.values))),
                levels=tuple(node_words(axis)[axis.regular]))
        if has_few_values(main) and len(axis.values) == len(main.values) else axis
        for axis, main in zip(axes, mains, strict=True)
    ]  # fmt: skip


def heavy_tails(model: AnovaModel, component: Sequence[str], log_axes: bool) -> list[bool]:
    """Whether each feature of a component gets a logarithmic axis.

    The nodes of main effects decide, so that a feature has the same axis in all plots.
    """
    features = [model.feature_names.index(name) for name in component]
    mains = [model.encoder.axes[1][j] for j in features]
    return [log_axes and has_heavy_tails(a) and not has_few_values(a) for a in mains]


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
        words = [*node_words(axis)[axis.regular], *[MISSING_LABEL] * len(missing)]
        label_levels(drawn, [*node_places(axis), *missing], words, points)
    elif axis.kind == DATE:
        unit = label_dates(drawn)
    elif not axis.is_empty:
        label_numbers(drawn, limits, points)
    if axis.levels is None:
        keep_apart(drawn, limits, missing, points)
    name_axis(drawn, name, others, unit, points)


MOST_TICKS = 6
WIDE_RATIO = 5.0  # of responses; above it an axis of factors is labelled at powers
PLAIN_RANGE = (1e-4, 1e7)  # numbers beyond are written as powers


def drawn_places(drawn: Any, places: FloatArray) -> FloatArray:
    """Places along a matplotlib axis as they are drawn: on a logarithmic one, logarithms."""
    return np.asarray(drawn.get_transform().transform(np.asarray(places, np.float64)))


def even_places(drawn: Any, limits: tuple[float, float], n: int) -> FloatArray:
    """Return n places that are drawn at equal distances."""
    low, high = drawn_places(drawn, np.array(limits))
    return np.asarray(drawn.get_transform().inverted().transform(np.linspace(low, high, n)))


def label_dates(drawn: Any) -> str:
    """Label dates and return what they have in common, such as their year, for the axis label."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=2, maxticks=MOST_TICKS)  # type: ignore[no-untyped-call]
    formatter: Any = ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
    drawn.set_major_locator(locator)
    drawn.set_major_formatter(formatter)
    formatter.format_ticks(drawn.get_ticklocs())
    common = formatter.get_offset()
    formatter.show_offset = False  # the axis label says it
    return f" ({common})" if common else ""


def label_numbers(drawn: Any, limits: tuple[float, float], points: float) -> None:
    """Label round numbers, without a common factor apart from them."""
    from matplotlib import ticker

    drawn.set_minor_locator(ticker.NullLocator())
    sizes = np.abs(even_places(drawn, limits, 3))
    smallest, largest = sizes[sizes > 0].min(), sizes.max()
    is_plain = PLAIN_RANGE[0] <= largest < PLAIN_RANGE[1]
    scale = drawn.get_scale()
    if scale == "linear":
        letters = max(len(f"{limit:.4g}") for limit in limits) + 2
        most = _n_labels(drawn, letters, points) - 1
        drawn.set_major_locator(ticker.MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]))
        in_full = ticker.ScalarFormatter(useOffset=False)
        in_full.set_scientific(False)
        drawn.set_major_formatter(in_full if is_plain else lambda x, _: f"{x:.4g}")
        return
    if is_plain and smallest >= PLAIN_RANGE[0]:
        drawn.set_major_formatter(lambda x, _: f"{x:,.10g}".replace("-", "\N{MINUS SIGN}"))
    most = _n_labels(drawn, len(f"{largest:,.0f}") if is_plain else 4, points)
    if scale == "log":
        places = round_places(limits, most)
    else:
        places = _around_zero(drawn.get_transform().linthresh, limits, most)
    drawn.set_major_locator(ticker.FixedLocator(places.tolist()))


def round_places(limits: tuple[float, float], most: int) -> FloatArray:
    """Round numbers between two limits for a logarithmic axis: powers of ten, or 1, 2 and 5 times.

    Limits that are too close for two of these have round numbers at equal distances between them.

    >>> round_places((30.0, 2e6), 3), round_places((0.4, 30.0), 6)
    (array([1.e+02, 1.e+04, 1.e+06]), array([ 0.5, 1. , 2. , 5. , 10. , 20. ]))
    """
    from matplotlib.ticker import MaxNLocator

    low, high = limits
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    powers: FloatArray = np.array([10.0**power for power in range(first, last + 1)])
    inside = powers[(powers >= low) & (powers <= high)]
    if len(inside) < 3:
        steps = np.outer(powers, (1.0, 2.0, 5.0)).ravel()
        inside = steps[(steps >= low) & (steps <= high)]
    if len(inside) < 2:
        steps = np.asarray(MaxNLocator(max(most, 2)).tick_values(low, high))
        inside = steps[(steps >= low) & (steps <= high)]
    return inside[:: max(math.ceil(len(inside) / most), 1)]


def _around_zero(linear: float, limits: tuple[float, float], most: int) -> FloatArray:
    """Zero, and powers of ten on both sides from ``linear`` on, the same on either side.

    >>> _around_zero(10.0, (-5e3, 2e5), 5)
    array([ -100., 0., 100., 100000.])
    """
    low, high = limits
    first, last = round(math.log10(linear)), math.floor(math.log10(max(-low, high, 10 * linear)))
    n_sides = (low < 0) + (high > 0)
    step = math.ceil(n_sides * (last - first + 1) / max(most - 1, 1))
    powers = np.array([10.0**power for power in range(last, first - 1, -step)])
    places = np.concatenate([-powers, [0.0], powers[::-1]])
    return np.asarray(places[(places >= low) & (places <= high)])


def label_through(drawn: Any, link: Link, limits: tuple[float, float], mark: str = "") -> None:
    """Label raw scores by the responses that they stand for, at round responses."""
    from matplotlib.ticker import MaxNLocator

    low, high = link.inverse(np.array(limits)).tolist()
    if link.kind == "rates" and high > WIDE_RATIO * low:
        shown = round_places((low, high), MOST_TICKS)
    else:
        locator = MaxNLocator(MOST_TICKS - 1, steps=[1, 2, 5, 10])  # a factor of 1 among them
        shown = np.array(locator.tick_values(low, high))
    shown = shown[(shown >= low) & (shown <= high)]
    drawn.set_ticks(link.forward(shown), [f"{mark}{value:.4g}" for value in shown])


def set_factors(drawn: Any, low: float, high: float) -> None:
    """Make an axis of factors logarithmic, so that twice and half are equally far from 1."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    drawn.axes.set_yscale("log")
    drawn.axes.set_ylim(low, high)
    drawn.set_major_locator(FixedLocator(round_places((low, high), MOST_TICKS).tolist()))
    drawn.set_major_formatter(FuncFormatter(lambda factor, _: written(factor)))
    drawn.set_minor_locator(NullLocator())


def keep_apart(
    drawn: Any, limits: tuple[float, float], missing: list[float], points: float
) -> None:
    """Drop labels that run into the next one; ``missing`` has the place of missing values, if any.

    Widths are estimated: an axis has its final length only when the figure is laid out.
    """
    ticks = [tick for tick in drawn.get_ticklocs() if limits[0] <= tick <= limits[1]]
    words = [*drawn.get_major_formatter().format_ticks(ticks), *[MISSING_LABEL] * len(missing)]
    places = np.array([*ticks, *missing])
    ends = np.sort(drawn_places(drawn, np.array(drawn.get_view_interval())))
    at = drawn_places(drawn, places) * points / (ends[1] - ends[0])
    kept: list[int] = []
    for k in reversed(range(len(places))):
        needed = LINE_HEIGHT * TICK_SIZE
        if drawn.axis_name == "x" and kept:
            needed = LETTER_WIDTH * TICK_SIZE * (_letters(words[k]) + _letters(words[kept[-1]]) + 2)
            needed /= 2
        if not kept or at[kept[-1]] - at[k] >= needed:
            kept.append(k)
    if missing or len(kept) < len(places):
        kept.reverse()
        drawn.set_ticks(places[kept], [words[k] for k in kept])


def _letters(word: str) -> int:
    """Letters of a label that are seen; a power is written with dollar signs and braces.

    >>> _letters("1,000"), _letters("$10^{3}$")
    (5, 3)
    """
    return len(word) if "$" not in word else 3


def _n_labels(drawn: Any, letters: int, points: float) -> int:
    """Count the labels that fit along an axis, at least 2."""
    each = 2.5 * TICK_SIZE
    if drawn.axis_name == "x":
        each = LETTER_WIDTH * TICK_SIZE * (letters + 1)
    return int(np.clip(points / each, 2, MOST_TICKS))
