"""provenance_of: what a fit tells the model about itself."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from tpnn import __version__
from tpnn.model.provenance import Provenance
from tpnn.solvers.problem.solution import Event
from tpnn.table.frame import Table

SOLVER_STAGES = ("grow", "descent", "refit")  # whose events have losses of the model itself
LONGEST_SETTING = 1000  # names or characters; a longer one is told by its size


def provenance_of(
    task: str,
    table: Table,
    fingerprint: str,
    parameters: Mapping[str, Any],
    events: Iterable[Event],
    loss: str,
) -> Provenance:
    """Provenance of a model that was fitted now, its targets without names.

    Parameters
    ----------
    task : str
        Which estimator fits.
    table : Table
        Training rows.
    fingerprint : str
        That of the rows and their targets as the user gave them.
    parameters : dict
        Parameters of the estimator.
    events : iterable of Event
        History of the fit.
    loss : str
        Name of the loss in it.
    """
    return Provenance(
        task=task,
        version=__version__,
        date=date_now(),
        settings={name: json_value(value) for name, value in parameters.items()},
        fingerprint=fingerprint,
        n_rows=table.n_rows,
        n_columns=table.n_columns,
        scores=held_out_scores(events, loss),
    )


def date_now() -> str:
    """Return date and time in UTC; the environment variable SOURCE_DATE_EPOCH fixes them."""
    fixed = os.environ.get("SOURCE_DATE_EPOCH")
    now = datetime.now(UTC) if fixed is None else datetime.fromtimestamp(int(fixed), UTC)
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def held_out_scores(events: Iterable[Event], loss: str) -> dict[str, float]:
    """Smallest held-out loss of each bag, averaged over the bags, under the name of the loss."""
    best: dict[int | None, float] = {}
    for event in events:
        found = event.validation_loss
        if event.stage in SOLVER_STAGES and found is not None and math.isfinite(found):
            best[event.bag] = min(found, best.get(event.bag, found))
    mean = {f"{loss}, training scale": float(np.mean(list(best.values())))} if best else {}
    return mean


def target_names(y: Any) -> tuple[str, ...]:
    """Names of the columns or fields of y, or of the column that it is; none without names."""
    names = getattr(getattr(y, "dtype", None), "names", None)
    if names is None:
        names = getattr(y, "columns", None)
    if names is None:
        name = getattr(y, "name", None)
        names = [] if name is None or callable(name) else [name]
    texts = tuple(map(str, names))
    return texts if all(len(text) <= LONGEST_SETTING for text in texts) else ()


def json_value(value: Any) -> Any:
    """Return a setting as JSON can hold it; a function or another object by its name.

    >>> json_value({1: (np.int64(2), None)}), json_value(max), json_value(float("inf"))
    ({'1': [2, None]}, 'max', 'inf')
    """
    if isinstance(value, np.generic | np.ndarray):
        return json_value(value.tolist())
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str | list | tuple | Mapping) and len(value) > LONGEST_SETTING:
        return f"{type(value).__name__} of length {len(value)}"
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return {json_value(str(key)): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    parameters = value.get_params() if hasattr(value, "get_params") else None
    if parameters is not None and not isinstance(value, type):
        return {"name": type(value).__name__} | json_value(parameters)
    return str(getattr(value, "__name__", type(value).__name__))
