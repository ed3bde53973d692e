"""Values of rows besides the features: offsets, and times with events, read and checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray
from tpnn._utils.rules import warn
from tpnn.table.table import NUMBER, OffsetColumn, Table


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
        return np.asarray(values, np.float64)
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
    if columns.ndim != 2 or columns.shape[1] != 2:
        raise ValueError(
            f"y: times, or two columns (time and event), are needed, found shape {columns.shape}. "
            "Pass np.column_stack([time, event])."
        )
    times, events = columns.T
    if not np.isfinite(times).all() or (times < 0).any() or not np.isin(events, (0, 1)).all():
        raise ValueError(
            "y: times must be finite and not negative, and events 0 or 1, found times from "
            f"{times.min()} to {times.max()} and events {np.unique(events)[:5].tolist()}. "
            "Pass the time first, then the event."
        )
    if alone:
        warn(
            f"y: times and events are needed, found times alone, shape {times.shape}, and took "
            "every one of them as an event. If some rows are censored, pass two columns: "
            "np.column_stack([time, event]); if none is, pass 1 for every event.",
        )
    return times, events


def _real(values: NDArray[Any]) -> FloatArray:
    if np.iscomplexobj(values):
        raise TypeError("complex numbers. Complex data not supported")
    return values.astype(np.float64)
