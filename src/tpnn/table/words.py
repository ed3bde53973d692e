"""Words: numbers of a model as values of users, and back; numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray
from tpnn._utils.rules import is_finite, is_number
from tpnn.table.axis import UNSEEN_WORD, Axis
from tpnn.table.encoder import Feature, level_text
from tpnn.table.table import DATE, DURATION, NOMINAL, ORDERED

UNITS = ((1e9, " bn"), (1e6, " M"), (1e3, " k"))  # of columns whose largest number is 1e5 or more
PLAIN = 1e-4, 1e13  # sizes of the largest number of a column that needs no power of ten
SIGNIFICANT, MOST_DECIMALS = 3, 8
MINUS, THIN_SPACE, NO_NUMBER = "\N{MINUS SIGN}", "\N{NARROW NO-BREAK SPACE}", "\N{EN DASH}"
MISSING_WORD = "(missing)"
SECONDS_PER_DAY = 86_400.0
FARTHEST_DATE = 9e12  # seconds from 1970: in microseconds a number of 64 bits
SECONDS = {DATE: "datetime64[us]", DURATION: "timedelta64[us]"}


def shown_unit(kind: str) -> float:
    """Seconds per unit in which people read a column: dates and durations in days."""
    return SECONDS_PER_DAY if kind in SECONDS else 1.0


def node_words(axis: Axis) -> list[str]:
    """Write every node of an axis: as a label, a date, a number, or "(missing)".

    >>> node_words(Axis(np.array([0.0, 1.0]), np.full(3, 1 / 3), "nominal", ("a", "b"),
    ...                 np.array([0, 1]), has_missing=True))
    ['a', 'b', '(missing)']
    """
    labels = axis.levels
    if labels is None:
        labels = tuple(_word(axis.kind, value) for value in axis.values)
    return [str(word) for word in axis.with_missing(np.array(labels, object), MISSING_WORD)]


def value_word(feature: Feature, number: float) -> str:
    """Write one value of a column, or one level by its number."""
    if np.isnan(number):
        return MISSING_WORD
    if np.isinf(number):
        return UNSEEN_WORD
    return str(feature.levels[int(number)]) if feature.levels else _word(feature.kind, number)


def range_words(feature: Feature, edges: FloatArray, alone: str) -> list[str]:
    """Bins of a feature up to each edge, and beyond the last, in words; one without edges.

    >>> range_words(Feature("number"), np.array([1.0, 2.5]), "all")
    ['up to 1', '1 to 2.5', 'above 2.5']
    """
    ends = [value_word(feature, edge) for edge in edges.tolist()]
    between = [f"{low} to {high}" for low, high in pairwise(ends)]
    return [f"up to {ends[0]}", *between, f"above {ends[-1]}"] if ends else [alone]


def originals(kind: str, numbers: FloatArray, levels: Sequence[Any] | None = None) -> NDArray[Any]:
    """Values that numbers stand for, (n,): dates, durations, labels, or the numbers themselves.

    ``levels`` has the label of every level; missing and unseen ones become None.
    """
    if levels:
        seen = np.isfinite(numbers)
        values = np.full(len(numbers), None, dtype=object)
        values[seen] = np.array(levels, dtype=object)[numbers[seen].astype(np.intp)]
        return values
    if kind in (DATE, DURATION):
        present = np.rint(np.nan_to_num(numbers * 1e6)).astype(np.int64)
        times = present.astype(SECONDS[kind])
        return np.where(np.isnan(numbers), np.array("NaT", times.dtype), times)
    return numbers


def read_number(name: str, feature: Feature, value: Any, argument: str) -> float:
    """Value of a feature as the number that the model works on: dates and durations in seconds."""
    if feature.kind == DATE and isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    is_time = isinstance(value, date | timedelta | np.datetime64 | np.timedelta64)
    if feature.kind in SECONDS and (is_time or (feature.kind == DATE and isinstance(value, str))):
        try:
            moment = np.array(value, SECONDS[feature.kind])
            if not np.isnat(moment):
                return float(moment.astype(np.int64)) / 1e6
        except (TypeError, ValueError):
            pass  # said below
    is_date = feature.kind == DATE  # which logs of edits write in whole microseconds
    if not is_finite(value) or (is_date and abs(value) > FARTHEST_DATE):
        raise ValueError(
            f"{argument}: values of {name!r} must be {feature.kind}s, found {value!r}. "
            "Pass values like those of the table."
        )
    return round(1e6 * float(value)) / 1e6 if is_date else float(value)


def read_range(name: str, feature: Feature, ends: Any, argument: str) -> tuple[float, float]:
    """Smallest and largest number of a range of values; None is no end.

    >>> read_range("age", Feature("number"), (None, 21), "between")
    (-inf, 21.0)
    """
    if not isinstance(ends, Sequence) or isinstance(ends, str) or len(ends) != 2:
        raise ValueError(
            f"{argument}: must be a pair, the smallest and the largest value of {name!r}, found "
            f"{ends!r}. Pass (18, 21), for example; None is no limit."
        )
    low, high = (
        far
        if end is None or (isinstance(end, float) and end == far)
        else read_number(name, feature, end, argument)
        for end, far in zip(ends, (-math.inf, math.inf), strict=True)
    )
    if low > high:
        raise ValueError(
            f"{argument}: the first number must not exceed the second, found {tuple(ends)!r}, "
            f"that of {name!r}. Swap them."
        )
    return low, high


def read_levels(
    name: str, feature: Feature, levels: Any, argument: str = "levels"
) -> tuple[int, ...]:
    """Levels of a feature as their numbers, sorted; one level may stand alone."""
    if feature.kind not in (NOMINAL, ORDERED):
        raise ValueError(
            f"{argument}: {name!r} has {feature.kind}s and no levels. Pass between=(low, high)."
        )
    wanted = [levels] if isinstance(levels, str) or not isinstance(levels, Sequence) else levels
    if not wanted:
        raise ValueError(f"{argument}: the list is empty. Name at least one level.")
    if not all(isinstance(level, str | int | float | np.generic) for level in wanted):
        raise ValueError(
            f"{argument}: must be text or numbers, found {levels!r:.200}. Pass "
            f"{list(feature.levels[:2])!r}, for example."
        )
    number_of = {level: number for number, level in enumerate(feature.levels)}
    texts = {str(level): number for level, number in number_of.items()}
    numbers = [
        number_of.get(level, texts.get(_level_word(level, feature.are_text))) for level in wanted
    ]
    if None in numbers:
        raise ValueError(
            f"{argument}: must be levels of {name!r}, found {wanted[numbers.index(None)]!r}. "
            f"It has {list(feature.levels[:10])!r}."
        )
    return tuple(sorted({number for number in numbers if number is not None}))


def _level_word(level: Any, are_text: bool) -> str:
    """Text that stands for a level, as an edit file of a page has it."""
    return level_text(level) if are_text and is_number(level) else str(level)


def _word(kind: str, number: float) -> str:
    """Write a number, a date (by its day unless it has a time), or a duration in days.

    >>> _word("date", 86400.0), _word("date", 3600.0), _word("number", 0.5)
    ('1970-01-02', '1970-01-01T01:00:00', '0.5')
    """
    if kind == DATE:
        unit = "D" if number % SECONDS_PER_DAY == 0 else "s"
        return str(np.datetime64(round(number), "s").astype(f"datetime64[{unit}]"))
    if kind == DURATION:
        return f"{number / SECONDS_PER_DAY:.6g} days"
    return f"{number:.6g}"


def column(numbers: Sequence[float | None], resolution: float = 0.0) -> list[str]:
    """Write numbers that stand below each other, as the report does: with the same decimals.

    The largest has three significant digits; a ``resolution``, such as a standard error, says how
    many decimals are worth showing instead.

    >>> column([0.25, -0.1, math.nan]), column([4128, 12.25]), column([2.5e6, 1e4])
    (['0.25', '−0.10', '–'], ['4 128', '12'], ['2.50 M', '0.01 M'])
    >>> column([208.73], 6.2)
    ['209']
    """
    known = [math.nan if x is None else float(x) for x in numbers]
    finite = [x for x in known if math.isfinite(x)]
    largest = max(map(abs, finite), default=0.0)
    is_plain = largest == 0 or PLAIN[0] <= largest < PLAIN[1]
    write = _plain_writer(finite, largest, float(resolution)) if is_plain else _powered
    return [write(x) if math.isfinite(x) else NO_NUMBER for x in known]


def column_of(numbers: Sequence[float], digits: int) -> list[str]:
    """Write a column of which the largest number has so many significant digits.

    >>> column_of([0.25041, 0.188], 5), column_of([58.0, 0.712], 4)
    (['0.25041', '0.18800'], ['58.00', '0.71'])
    """
    largest = max((abs(x) for x in numbers if math.isfinite(x)), default=0.0)
    return column(numbers, 2 * 10.0 ** (_power(largest) - digits + 1) if largest else 0.0)


def written(number: float | None, resolution: float = 0.0) -> str:
    """Write one number; of several that belong together, a ``column``."""
    return column([number], resolution)[0]


def _plain_writer(
    finite: Sequence[float], largest: float, resolution: float
) -> Callable[[float], str]:
    unit, suffix = next(((u, s) for u, s in UNITS if largest >= max(u, 1e5)), (1.0, ""))
    decimals = SIGNIFICANT - 1 - _power(largest / unit) if largest else 0
    decimals = min(max(decimals, 0), MOST_DECIMALS)
    if unit == 1 and all(x.is_integer() for x in finite):
        decimals = 0
    if resolution > 0:
        decimals = min(max(-_power(resolution / unit / 2), 0), MOST_DECIMALS)
    else:
        while decimals and all(_ends_in_zero(x / unit, decimals) for x in finite):
            decimals -= 1

    def write(x: float) -> str:
        text = _fixed(x / unit, decimals)
        if float(text) == 0:
            return text
        whole, point, rest = text.partition(".")
        sign = MINUS if x < 0 else ""
        return f"{sign}{int(whole):,}".replace(",", THIN_SPACE) + point + rest + suffix

    return write


def _ends_in_zero(x: float, decimals: int) -> bool:
    """Whether a number with so many decimals is exact, and does not need the last of them."""
    text = _fixed(x, decimals)
    return text.endswith("0") and float(text) == abs(x)


def _power(x: float) -> int:
    """Power of ten of a positive number.

    >>> _power(0.001), _power(999.9)
    (-3, 2)
    """
    return Decimal(repr(x)).adjusted()


def _fixed(x: float, decimals: int) -> str:
    """Size of a number with so many decimals, a half rounded up.

    >>> _fixed(-2.5, 0), _fixed(0.125, 2)
    ('3', '0.13')
    """
    step = Decimal(1).scaleb(-decimals)
    return f"{Decimal(abs(x)).quantize(step, ROUND_HALF_UP):f}"


def _powered(x: float) -> str:
    """Write a number with its power of ten.

    >>> _powered(-1.5e-7)
    '−1.5e−7'
    """
    if x == 0:
        return "0"
    exact = Decimal(abs(x))
    step = Decimal(1).scaleb(exact.adjusted() - SIGNIFICANT + 2)
    mantissa, power = f"{exact.quantize(step, ROUND_HALF_UP):.{SIGNIFICANT - 2}e}".split("e")
    return f"{MINUS if x < 0 else ''}{mantissa}e{int(power)}".replace("-", MINUS)


def signed_column(numbers: Sequence[float], resolution: float = 0.0) -> list[str]:
    """Write differences, each with its sign.

    >>> signed_column([0.5, 0.0, -1.25])
    ['+0.50', '0.00', '−1.25']
    """
    texts = zip(numbers, column(numbers, resolution), strict=True)
    return [f"+{text}" if x > 0 and text.strip("0. ") else text for x, text in texts]


def chance(share: float) -> str:
    """Write a probability, which is never said to be 0 or 1.

    >>> chance(0.9087), chance(0.0), chance(0.0001), chance(0.99999)
    ('90.9 %', '0.0 %', '< 0.1 %', '> 99.9 %')
    """
    shown = _fixed(100 * share, 1)
    if share > 0 and shown == "0.0":
        return "< 0.1 %"
    return "> 99.9 %" if share < 1 and shown == "100.0" else f"{shown} %"
