"""Ticks: which numbers and dates an axis shows, so that their labels stay apart."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.explain.plots.labels import LETTER_WIDTH, LINE_HEIGHT, MISSING_LABEL
from tpnn.explain.plots.style import TICK_SIZE
from tpnn.loss.links import Link

MOST_TICKS = 6
WIDE_RATIO = 5.0  # of responses; above it an axis of factors is labelled at powers
PLAIN_RANGE = (1e-4, 1e7)  # numbers beyond are written as powers


def drawn_places(drawn: Any, places: FloatArray) -> FloatArray:
    """Places along a matplotlib axis as they are drawn: on a logarithmic one, logarithms."""
    found: FloatArray = drawn.get_transform().transform(np.asarray(places, np.float64))
    return found


def even_places(drawn: Any, limits: tuple[float, float], n: int) -> FloatArray:
    """Return n places that are drawn at equal distances."""
    low, high = drawn_places(drawn, np.array(limits))
    found: FloatArray = drawn.get_transform().inverted().transform(np.linspace(low, high, n))
    return found


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
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

    drawn.set_minor_locator(NullLocator())
    sizes = np.abs(even_places(drawn, limits, 3))
    smallest, largest = sizes[sizes > 0].min(), sizes.max()
    is_plain = PLAIN_RANGE[0] <= largest < PLAIN_RANGE[1]
    scale = drawn.get_scale()
    if scale == "linear":
        letters = max(len(f"{limit:.4g}") for limit in limits) + 2
        most = _n_labels(drawn, letters, points) - 1
        drawn.set_major_locator(MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]))
        drawn.set_major_formatter(_plain() if is_plain else FuncFormatter(lambda x, _: f"{x:.4g}"))
        return
    if is_plain and smallest >= PLAIN_RANGE[0]:
        write = FuncFormatter(lambda x, _: f"{x:,.10g}".replace("-", "\N{MINUS SIGN}"))
        drawn.set_major_formatter(write)
    most = _n_labels(drawn, len(f"{largest:,.0f}") if is_plain else 4, points)
    if scale == "log":
        places = round_places(limits, most)
    else:
        places = _around_zero(drawn.get_transform().linthresh, limits, most)
    drawn.set_major_locator(FixedLocator(places.tolist()))


def _plain() -> Any:
    """Write numbers in full."""
    from matplotlib.ticker import ScalarFormatter

    plain = ScalarFormatter(useOffset=False)
    plain.set_scientific(False)
    return plain


def round_places(limits: tuple[float, float], most: int) -> FloatArray:
    """Round numbers between two limits for a logarithmic axis: powers of ten, or 1, 2 and 5 times.

    >>> round_places((30.0, 2e6), 3), round_places((0.4, 30.0), 6)
    (array([1.e+02, 1.e+04, 1.e+06]), array([ 0.5, 1. , 2. , 5. , 10. , 20. ]))
    """
    low, high = limits
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    powers: FloatArray = np.array([10.0**power for power in range(first, last + 1)])
    inside = powers[(powers >= low) & (powers <= high)]
    if len(inside) < 3:
        steps = np.outer(powers, (1.0, 2.0, 5.0)).ravel()
        inside = steps[(steps >= low) & (steps <= high)]
    return inside[:: math.ceil(len(inside) / most)]


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
    inside: FloatArray = places[(places >= low) & (places <= high)]
    return inside


def label_through(drawn: Any, link: Link, limits: tuple[float, float], mark: str = "") -> None:
    """Label raw scores by the responses that they stand for, at round responses."""
    from matplotlib.ticker import MaxNLocator

    low, high = link.inverse(np.array(limits)).tolist()
    if link.name == "log" and high > WIDE_RATIO * low:
        shown = round_places((low, high), MOST_TICKS)
    else:
        locator = MaxNLocator(MOST_TICKS - 1, steps=[1, 2, 5, 10])  # a factor of 1 among them
        shown = np.array(locator.tick_values(low, high))
    shown = shown[(shown >= low) & (shown <= high)]
    drawn.set_ticks(link.forward(shown), [f"{mark}{value:.4g}" for value in shown])


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
