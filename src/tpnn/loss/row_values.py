"""Values of rows besides the features: offsets, and times with events, read and checked."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray
from tpnn._utils.rules import warn
from tpnn.table.table import NUMBER, OffsetColumn, Table, read_column

MOST_KINDS_OF_EVENT = 10  # that are told from times
BY_INTERVALS = (
    "Or pass one row for each interval of time in which a subject was at risk, with the interval "
    "as a feature, and fit what happened in it with TPNNClassifier."
)


def refuse_masked(name: str, values: Any) -> None:
    """Refuse values under a mask: NumPy would use the hidden values."""
    if not np.ma.isMaskedArray(values):
        return
    n_masked = int(np.ma.flatten_mask(np.ma.getmaskarray(values)).sum())
    if n_masked:
        raise ValueError(
            f"{name}: every row needs a value, found {n_masked} masked ones. Drop those rows."
        )


def checked_numbers(name: str, values: Any) -> FloatArray:
    """Values of an argument as an array of floats."""
    refuse_masked(name, values)
    try:
        array = np.asarray(values)
        if array.dtype.kind in "mM":
            raise TypeError(f"dates or durations ({array.dtype})")
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: must be numbers, found {error}. Pass numbers.") from error


def checked_offset(offset: Any, n_rows: int) -> FloatArray:
    """Offsets as an array of shape (n_rows,), zeros where there are none."""
    if offset is None:
        return np.zeros(n_rows)
    values = checked_numbers("offset", offset)
    if values.shape != (n_rows,) or not np.isfinite(values).all():
        bad = int((~np.isfinite(values)).sum())
        fault = f"NaN or inf in {bad} rows" if bad else f"shape {values.shape} for {n_rows} rows"
        raise ValueError(
            f"offset: one finite number per row is needed, found {fault}. Pass the known part of "
            "the raw score of each row."
        )
    return values


def column_offset(table: Table, wanted: OffsetColumn) -> FloatArray:
    """Offsets (n_rows,) from the offset column of a table: its logarithm if it is an exposure.

    ``wanted`` is the column that the model was fitted with.
    """
    argument = "exposure" if wanted.is_exposure else "offset"
    if table.offset_column is None:
        raise ValueError(
            f"X: {wanted.words} is needed, because it is the {argument} of each row, found "
            f"{table.column_names[:10]}. Pass a table that has it."
        )
    kind, values, _ = table.read_offset_column()
    rule = "positive and finite" if wanted.is_exposure else "finite"
    if kind != NUMBER:
        raise ValueError(
            f"{argument}: {wanted.words} must hold numbers, found {kind} values. Convert it."
        )
    valid = np.isfinite(values) & (values > 0 if wanted.is_exposure else True)
    if not valid.all():
        raise ValueError(
            f"{argument}: every number of {wanted.words} must be {rule}, found "
            f"{int((~valid).sum())} of {len(values)} that are not, such as {values[~valid][0]}. "
            "Correct those rows, or drop them."
        )
    return np.log(values) if wanted.is_exposure else values


def checked_survival(y: Any) -> tuple[FloatArray, FloatArray]:
    """Read times and events, each (n_rows,), from two columns or named fields."""
    if y is None:
        raise ValueError(
            "y: times are needed, found None. This estimator requires y to be passed, but the "
            "target y is None: pass np.column_stack([time, event])."
        )
    refuse_masked("y", y)
    names = getattr(getattr(y, "dtype", None), "names", None) or getattr(y, "columns", None)
    try:
        if names is not None and len(names) == 2:
            fields = [np.asarray(y[name]) for name in names]
            fields.sort(key=lambda field: field.dtype.kind == "b")  # the boolean is the event
            columns = np.column_stack([_real(field) for field in fields])
        else:
            columns = _real(np.asarray(y))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"y: times and events must be real numbers, found {error}. Pass the time first, then 1 "
            "for an event and 0 where none was observed."
        ) from error
    alone = columns.ndim == 1
    if alone:
        columns = np.column_stack([columns, np.ones(len(columns))])
    _check_lifetimes(columns)
    if alone:
        warn(
            f"y: times and events are needed, found times alone, shape {columns[:, 0].shape}, and "
            "took every one of them as an event. If some rows are censored, pass two columns: "
            "np.column_stack([time, event]); if none is, pass 1 for every event.",
        )
    return columns[:, 0], columns[:, 1]


def _check_lifetimes(columns: FloatArray) -> None:
    """Refuse what is not a column of times and one of events, 0 or 1."""
    if columns.ndim != 2 or columns.shape[1] != 2:
        is_interval = columns.ndim == 2 and columns.shape[1] == 3
        remedy = f"Intervals (start, stop, event) are not supported. {BY_INTERVALS}"
        raise ValueError(
            f"y: times, or two columns (time and event), are needed, found shape {columns.shape}. "
            f"{remedy if is_interval else 'Pass np.column_stack([time, event]).'}"
        )
    times, kinds = columns[:, 0], np.unique(columns[:, 1])
    if np.isfinite(times).all() and (times >= 0).all() and np.isin(kinds, (0, 1)).all():
        return
    if len(kinds) > 2 and np.isin(kinds, range(MOST_KINDS_OF_EVENT)).all():
        raise ValueError(
            f"y: events must be 0 or 1, found {kinds.astype(int).tolist()}. Competing events are "
            "not supported: fit a model for each kind, with 1 for this kind and 0 for all others, "
            f"which gives its own hazard. {BY_INTERVALS}"
        )
    raise ValueError(
        "y: times must be finite and not negative, and events 0 or 1, found times from "
        f"{times.min()} to {times.max()} and events {kinds[:5].tolist()}. "
        "Pass the time first, then the event."
    )


def checked_times(values: Any) -> FloatArray:
    """Read times as floats, durations in seconds, as those of features are.

    >>> checked_times(np.array([1, 2], "timedelta64[D]")), checked_times([1, 2])
    (array([ 86400., 172800.]), array([1., 2.]))
    """
    array = np.asarray(values)
    is_object = array.dtype.kind == "O" and array.size > 0
    if is_object and all(isinstance(value, timedelta) for value in array.ravel()):
        array = array.astype("timedelta64[us]")
    if array.dtype.kind != "m":
        return checked_numbers("times", values)
    return read_column(array.ravel(), "times").values.reshape(array.shape)


def _real(values: NDArray[Any]) -> FloatArray:
    if np.iscomplexobj(values):
        raise TypeError("complex numbers. Complex data not supported")
    if values.dtype.kind == "M":
        raise TypeError("dates. Subtract the date at which each row begins")
    return checked_times(values)
