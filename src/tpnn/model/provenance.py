"""Provenance: where a model comes from.

Estimators write it into their models, and :func:`tpnn.load` reads from it what ``predict`` returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Where a model comes from; no prediction depends on it.

    Parameters
    ----------
    task : {"regressor", "classifier", "survival"}
        Which estimator fitted the model, and so what ``predict`` of ``tpnn.load`` returns.
    version : str
        Version of the library that fitted the model.
    date : str
        When, in UTC: ``2026-01-31T12:00:00Z``. The environment variable SOURCE_DATE_EPOCH fixes it.
    targets : tuple of str
        Names of the targets, where they have names; of survival the time and the event.
    settings : dict from str to a JSON value
        Parameters of the estimator, read-only. Functions and other objects are there by their name.
    fingerprint : str
        What ``tpnn.fingerprint`` of the training table and its targets returns.
    n_rows, n_columns : int
        Size of the training table.
    scores : dict from str to float
        How good the fit is on held-out rows, by name of the score; read-only.
    """

    task: str
    version: str
    date: str
    targets: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: str
    n_rows: int
    n_columns: int
    scores: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.__setstate__(vars(self))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "settings": dict(self.settings), "scores": dict(self.scores)}

    def __setstate__(self, state: dict[str, Any]) -> None:  # read-only dicts cannot be pickled
        frozen = {name: MappingProxyType(state[name].copy()) for name in ("settings", "scores")}
        vars(self).update(state, **frozen)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a dict that JSON can hold."""
        return deepcopy(self.__getstate__()) | {"targets": list(self.targets)}
