"""Times: the targets of survival, times and events, as two arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray
from tpnn._utils.warn import warn
from tpnn.loss.offset import refuse_masked


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
