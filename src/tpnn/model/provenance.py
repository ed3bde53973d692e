"""Provenance: where a model comes from."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

TASKS = ("regressor", "classifier", "survival")
DATE = r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z"
FINGERPRINT = r"[0-9a-f]{64}"
LONGEST_TEXT = 10_000  # characters of a name
MOST_ITEMS = 100_000  # of a list or an object among the settings
DEEPEST_SETTING = 8  # lists and objects within one another
MOST_ROWS = 2**53


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

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Provenance:
        """Make it from what ``as_dict`` returned; fields that are not known are left out."""
        known = {name: stored[name] for name in cls.__dataclass_fields__}
        return cls(**known | {"targets": tuple(known["targets"])})

    def first_broken_rule(self) -> str | None:
        """Return the rule that a field breaks, or None if it makes sense."""
        texts = (self.version, self.date, self.fingerprint, *self.targets)
        if self.task not in TASKS or not all(map(_is_name, texts)):
            return "task, version, date and targets must be text, and the task known"
        if not re.fullmatch(DATE, self.date) or not re.fullmatch(FINGERPRINT, self.fingerprint):
            return "date and fingerprint must have their form"
        sizes = (self.n_rows, self.n_columns)
        if not all(type(size) is int and 0 < size <= MOST_ROWS for size in sizes):
            return "numbers of rows and columns must be whole"
        if not _is_setting(dict(self.settings), DEEPEST_SETTING):
            return "settings must be JSON values of moderate size"
        are_scores = _is_setting(dict(self.scores), 1)
        if not are_scores or not all(type(score) is float for score in self.scores.values()):
            return "scores must be finite numbers"
        return None


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_TEXT


def _is_setting(value: Any, depth: int) -> bool:
    """Whether a value is one of JSON, of at most ``depth`` levels, and not too long."""
    if isinstance(value, dict):
        names, items = list(value), list(value.values())
    elif isinstance(value, list):
        names, items = [], value
    else:
        is_number = type(value) is int or (type(value) is float and math.isfinite(value))
        return value is None or isinstance(value, bool) or is_number or _is_name(value)
    inside = depth > 0 and len(items) <= MOST_ITEMS and all(map(_is_name, names))
    return inside and all(_is_setting(item, depth - 1) for item in items)
