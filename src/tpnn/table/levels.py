"""Levels of a new table as numbers of the levels of the training table."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.table.axis import UNSEEN_LEVEL
from tpnn.table.columns import LARGEST_EXACT_INTEGER
from tpnn.table.table import Column


def as_levels(column: Column, levels: Sequence[Any], are_text: bool, name: str) -> FloatArray:
    """Return the number of each row's level among the ``levels`` of fit, (n_rows,).

    Equal numbers are equal levels, and no number equals a string. ``are_text`` says that levels are
    compared as text; ``name`` is the column in messages.
    """
    rank = {level: float(number) for number, level in enumerate(levels)}
    labels = tuple(map(level_text, column.levels)) if are_text else column.levels
    if level_types(labels).isdisjoint(level_types(levels)):
        raise TypeError(
            f"X: column {name!r} must hold levels like those of fit, {_sample(levels)}, "
            f"found {described(column)}. Convert it to such levels."
        )
    if any(map(_is_rounded_float, labels)) and any(map(_is_large_integer, levels)):
        raise TypeError(
            f"X: column {name!r} must hold integers as in fit, found floats beyond 2**53, which "
            "are rounded. Pass integers, of the type Int64 where some are missing."
        )
    return _by_level(column, [rank.get(label, UNSEEN_LEVEL) for label in labels])


def level_text(level: Any) -> str:
    """Write a level.

    >>> [level_text(level) for level in ("1", 1, 1.0, True, 0.5, 1e17)]
    ['1', '1', '1', '1', '0.5', '1e+17']
    """
    if isinstance(level, str):
        return level
    return repr(level).removesuffix(".0") if isinstance(level, float) else str(int(level))


def level_types(levels: Iterable[Any]) -> set[type]:
    """Types of levels: str, or float for numbers of all types."""
    return {str if isinstance(level, str) else float for level in levels}


def _is_large_integer(level: Any) -> bool:
    return isinstance(level, int) and abs(level) > LARGEST_EXACT_INTEGER


def _is_rounded_float(level: Any) -> bool:
    return isinstance(level, float) and abs(level) >= LARGEST_EXACT_INTEGER


def level_numbers(column: Column) -> FloatArray:
    """Column whose levels are numbers, as these numbers."""
    return _by_level(column, column.levels)


def _by_level(column: Column, numbers: Sequence[float]) -> FloatArray:
    """Return the number of each row's level, (n_rows,), given those of all levels."""
    present = ~np.isnan(column.values)
    answer = np.full(len(column.values), np.nan)
    answer[present] = np.array(numbers, np.float64)[column.values[present].astype(np.intp)]
    return answer


def _sample(levels: Sequence[Any]) -> str:
    """Write the first levels, long ones with their middle left out."""
    return reprlib.repr(list(levels[:3]))


def described(column: Column) -> str:
    """Say what a column holds."""
    if column.levels:
        word = "levels" if str in level_types(column.levels) else "numbers"
        return f"{word} such as {_sample(column.levels)}"
    return f"{column.kind}s"


LARGEST_WHOLE_WEIGHT = 2**52  # beyond it not every whole number is a double


def whole_counts(weights: FloatArray) -> FloatArray | None:
    """Integer weights in units of their greatest common divisor; None where some are not integer.

    >>> whole_counts(np.array([2.0, 6.0])), whole_counts(np.array([0.5, 2.0]))
    (array([1., 3.]), None)
    """
    whole = np.floor(weights)
    if (whole != weights).any() or weights.max() > LARGEST_WHOLE_WEIGHT:
        return None
    return np.asarray(weights / np.gcd.reduce(whole.astype(np.int64)))
