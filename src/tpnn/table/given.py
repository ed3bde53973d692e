"""Given: single values and levels of a feature, as users pass them to edits and to bands."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np

from tpnn._utils.rules import is_finite, is_number
from tpnn.table.encoder import Feature, level_text
from tpnn.table.table import DATE, DURATION, NOMINAL, ORDERED

FARTHEST_DATE = 9e12  # seconds from 1970: in microseconds a number of 64 bits
SECONDS = {DATE: "datetime64[us]", DURATION: "timedelta64[us]"}


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
    numbers = [number_of.get(level, texts.get(_text(level, feature.are_text))) for level in wanted]
    if None in numbers:
        raise ValueError(
            f"{argument}: must be levels of {name!r}, found {wanted[numbers.index(None)]!r}. "
            f"It has {list(feature.levels[:10])!r}."
        )
    return tuple(sorted({number for number in numbers if number is not None}))


def _text(level: Any, are_text: bool) -> str:
    """Text that stands for a level, as an edit file of a page has it."""
    return level_text(level) if are_text and is_number(level) else str(level)
