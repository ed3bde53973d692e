"""Words: numbers of a model, written as the values that the user passed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray
from tpnn.table.axis import Axis
from tpnn.table.encoder import Feature
from tpnn.table.table import DATE, DURATION

MISSING_WORD, UNSEEN_WORD = "(missing)", "(unseen level)"
SECONDS_PER_DAY = 86_400.0


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
        times = present.astype("datetime64[us]" if kind == DATE else "timedelta64[us]")
        return np.where(np.isnan(numbers), np.array("NaT", times.dtype), times)
    return numbers


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
