"""Lifetimes: times until an event with entries and strata, read and checked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn._utils.rules import warn
from tpnn.loss.row_values import checked_numbers, refuse_masked
from tpnn.table.table import read_column

if TYPE_CHECKING:
    from tpnn.loss.objectives import Objective

MOST_KINDS_OF_EVENT = 10  # that are told from times
STRATUM = "stratum"  # name of the column of strata


class Lifetimes(NamedTuple):
    """Times until an event; (n_rows,) each."""

    times: FloatArray
    events: FloatArray  # 0, or the kind of the event
    entries: FloatArray | None = None  # times from which on rows are at risk
    strata: tuple[str, ...] | None = None  # name of the stratum of each row

    @property
    def stratum_names(self) -> tuple[str, ...]:
        """Names of the strata, sorted; none where there are no strata."""
        return tuple(sorted(set(self.strata or ())))

    def target(self, objective: Objective, names: Sequence[str] = ()) -> FloatArray:
        """Return what a loss takes, (n_rows, 2 or 4): times, events, entries and strata.

        Events of another kind than that of the loss are 0, or 2 where they compete with it. Strata
        are numbers of ``names``.
        """
        events = self.events
        if objective.cause is not None:
            others = 0.0 if objective.is_alone else 2.0
            events = np.select([events == objective.cause, events > 0], [1.0, others], 0.0)
        columns = [self.times, events]
        if self.entries is not None or self.strata is not None:
            entries = np.full(len(events), -np.inf) if self.entries is None else self.entries
            codes = stratum_codes(self.strata, names, len(events))
            columns += [entries, codes.astype(np.float64)]
        return np.column_stack(columns)


def joined(parts: Sequence[Lifetimes], objective: Objective) -> FloatArray:
    """Targets of the rows of y and then of those of y_val, with the strata of y."""
    if len({(part.entries is None, part.strata is None) for part in parts}) > 1:
        raise ValueError(
            "y_val: must have the columns of y, found entries or strata in one of the two alone. "
            "Pass the same columns."
        )
    names = parts[0].stratum_names
    return np.concatenate([part.target(objective, names) for part in parts])


def ranked(target: FloatArray, counted: NDArray[np.bool_]) -> FloatArray:
    """Replace times and entries by their ranks among the times of the rows that count.

    A Cox model knows the order of the times and nothing else of them.
    """
    times = np.unique(target[counted, 0])
    same = target.copy()
    same[:, 0] = np.searchsorted(times, target[:, 0])
    if target.shape[1] > 2:
        same[:, 2] = np.searchsorted(times, target[:, 2], side="right") - 1.0
    return same


def stratum_codes(strata: Sequence[Any] | None, names: Sequence[str], n_rows: int) -> IntArray:
    """Place of each row's stratum among the names, (n_rows,).

    >>> stratum_codes(["b", "a"], ["a", "b"], 2)
    array([1, 0])
    """
    if strata is None and not names:
        return np.zeros(n_rows, np.intp)
    given = [] if strata is None else [str(one) for one in np.asarray(strata).ravel()]
    number = {name: code for code, name in enumerate(names)}
    unknown = dict.fromkeys(name for name in given if name not in number)
    if len(given) != n_rows or unknown:
        found = f"{list(unknown)[:5]}" if unknown else f"{len(given)} for {n_rows} rows"
        raise ValueError(
            f"strata: the stratum of each row is needed, one of {list(names)[:10]}, found {found}. "
            "Each stratum has a baseline hazard of its own, so pass those of the fit."
        )
    return np.array([number[name] for name in given], np.intp)


def checked_survival(y: Any, objective: Objective) -> Lifetimes:
    """Read times and events, and entries and strata where there are some, as a loss wants them.

    Without a kind of event that the loss is about, events are 0 or 1.
    """
    if y is None:
        raise ValueError(
            "y: times are needed, found None. This estimator requires y to be passed, but the "
            "target y is None: pass np.column_stack([time, event])."
        )
    refuse_masked("y", y)
    fields_of: Any = getattr(getattr(y, "dtype", None), "names", None)
    names = list(fields_of or getattr(y, "columns", ()))
    strata = None
    if STRATUM in names and len(names) > 2:
        names.remove(STRATUM)
        strata = tuple(str(one) for one in np.asarray(y[STRATUM]).tolist())
    try:
        if len(names) in (2, 3):
            fields = [np.asarray(y[name]) for name in names]
            fields.sort(key=lambda field: field.dtype.kind == "b")  # the boolean is the event
            columns = np.column_stack([_real(field) for field in fields])
        else:
            columns = _real(np.asarray(y))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"y: times and events must be real numbers, found {error.__cause__ or error}. Pass the "
            "time first, then 1 for an event and 0 where none was observed."
        ) from error
    alone = columns.ndim == 1
    if alone:
        columns = np.column_stack([columns, np.ones(len(columns))])
    _check_lifetimes(columns, objective.cause)
    if alone:
        warn(
            f"y: times and events are needed, found times alone, shape {columns[:, 0].shape}, and "
            "took every one of them as an event. If some rows are censored, pass two columns: "
            "np.column_stack([time, event]); if none is, pass 1 for every event.",
        )
    entries = columns[:, 0] if columns.shape[1] == 3 else None
    if not objective.is_alone and (entries is not None or strata is not None):
        raise ValueError(
            f"y: entries and strata are not supported by {objective.name!r}, found "
            f"{'entries' if strata is None else 'strata'}. Pass times and events alone, or "
            f'objective={{"name": "cox", "cause": {objective.cause}}}.'
        )
    return Lifetimes(columns[:, -2], columns[:, -1], entries, strata)


def _check_lifetimes(columns: FloatArray, cause: int | None) -> None:
    """Refuse what is not a column of times and one of events, with entries before the times."""
    if columns.ndim != 2 or columns.shape[1] not in (2, 3):
        raise ValueError(
            "y: times, or two columns (time and event), or three (entry, time and event) are "
            f"needed, found shape {columns.shape}. Pass np.column_stack([time, event]); strata are "
            f"the column {STRATUM!r} of a frame."
        )
    times, kinds = columns[:, :-1], np.unique(columns[:, -1])
    highest = 1 if cause is None else MOST_KINDS_OF_EVENT
    known = np.isin(kinds, range(MOST_KINDS_OF_EVENT)).all()
    if not np.isfinite(times).all() or (times[:, -1] < 0).any() or not known:
        raise ValueError(
            "y: times must be finite and not negative, and events 0 or 1, found times from "
            f"{times.min()} to {times.max()} and events {kinds[:5].tolist()}. "
            "Pass the time first, then the event."
        )
    if kinds.max(initial=0) > highest:
        raise ValueError(
            f"y: events must be 0 or 1, found {kinds.astype(int).tolist()}. Of competing events, "
            'say which one the model is about: objective={"name": "cox", "cause": 1} for the hazard'
            ' of this kind while no other has happened, or {"name": "fine_gray", "cause": 1} for '
            "its share of all rows."
        )
    late = times[:, 0] >= times[:, -1]
    if times.shape[1] == 2 and late.any():
        row = int(np.argmax(late))
        raise ValueError(
            f"y: every entry must be before its time, found {late.sum()} rows where it is not, such"
            f" as {times[row].tolist()}. Pass the columns entry, time and event in this order, and "
            "drop rows that were never at risk."
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
