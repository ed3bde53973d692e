"""Values: whether one is missing, times without zones, labels that a file can hold."""

from __future__ import annotations

from datetime import UTC, date, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray


def without_zone(time: Any) -> Any:
    """Date or time in UTC, as NumPy reads it; one without a zone, or a duration, as it is."""
    if getattr(time, "tzinfo", None) is None:
        return time
    return time.astimezone(UTC).replace(tzinfo=None)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or pandas' NA."""
    if value is None or type(value).__name__ == "NAType":
        return True
    return isinstance(value, Real | Decimal | date | timedelta) and bool(value != value)


def array_of(values: Any) -> NDArray[Any]:
    """Array of targets or names; text in lists and of polars is kept as objects.

    An array of strings would give every one of them the room of the longest.

    >>> array_of(["a", "bcd"])
    array(['a', 'bcd'], dtype=object)
    """
    if isinstance(values, list | tuple) and any(isinstance(value, str) for value in values):
        return np.array(values, dtype=object)
    if type(values).__module__.startswith("polars."):
        return np.asarray(values.to_numpy())
    return np.asarray(values)


def plain_label(level: Any, name: str) -> Any:
    """Label as str, int, float or bool, which a saved model can hold."""
    value = level.item() if isinstance(level, np.generic) else level
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, date | timedelta):
        return str(value)
    raise TypeError(
        f"X: levels must be strings, numbers or dates, found {value!r} of type "
        f"{type(value).__name__} in {name!r}. Turn them into strings."
    )
