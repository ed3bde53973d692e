"""Scales: where the values of a feature stand on a plot, and how the axis is labelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tpnn._typing import FloatArray
from tpnn.explain.plots.style import LABEL_SIZE
from tpnn.table.axis import Axis
from tpnn.table.frame import DATE, DURATION
from tpnn.table.words import SECONDS_PER_DAY, node_words

MAIN_RANKS, PAIR_RANKS = (0.005, 0.995), (0.01, 0.99)  # shares of the data that a plot shows
MAX_TICK_LABELS = 12  # of levels along an axis
MAX_LABEL_LETTERS = 14  # of one label; longer ones are cut
MAX_LETTERS_IN_A_ROW = 24  # of all labels; more of them are turned


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


def missing_strip(limits: tuple[float, float]) -> tuple[float, float]:
    """Left and right edge of the strip of missing values, to the right of the others."""
    width = limits[1] - limits[0]
    return limits[1] + 0.04 * width, limits[1] + 0.1 * width


def label_axis(axis: Axis, name: str, drawn: Any, limits: tuple[float, float]) -> None:
    """Label a matplotlib axis with levels, dates and missing values; ``drawn`` is axes.xaxis."""
    drawn.set_label_text(name + (" (days)" if axis.kind == DURATION else ""), fontsize=LABEL_SIZE)
    if axis.kind == DATE:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(maxticks=6)  # type: ignore[no-untyped-call]
        drawn.set_major_locator(locator)
        drawn.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    if axis.levels is not None:
        words = node_words(axis)[: axis.n_regular]
        step = -(-len(words) // MAX_TICK_LABELS)
        drawn.set_ticks(node_places(axis)[::step], [shortened(word) for word in words[::step]])
        if drawn.axis_name == "x" and sum(map(len, words[::step])) > MAX_LETTERS_IN_A_ROW:
            drawn.set_tick_params(labelrotation=40)
    if axis.has_missing:
        middle = sum(missing_strip(limits)) / 2
        ticks = [tick for tick in drawn.get_ticklocs() if limits[0] <= tick <= limits[1]]
        format_ticks = drawn.get_major_formatter().format_ticks
        drawn.set_ticks([*ticks, middle], [*format_ticks(ticks), "missing"])


def shortened(word: str) -> str:
    """Return a word that is no longer than a tick label may be.

    >>> shortened("Constantinople"), shortened("Constantinople's")
    ('Constantinople', 'Constantinopl…')
    """
    return word if len(word) <= MAX_LABEL_LETTERS else word[: MAX_LABEL_LETTERS - 1] + "…"
