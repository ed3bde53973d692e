"""Wrong arguments: one of a case's arguments is spoilt, and fit must refuse it in plain words."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tests.fuzz.cases import Case, random_case
from tests.fuzz.columns import TEXT
from tests.fuzz.settings import deep_settings

SHARE = 0.04  # of the cases that are spoilt
Fault = tuple[str, Callable[[Case], Case]]
CLEAR = re.compile(  # "argument: the rule and what breaks it. What to do."
    r"(?P<argument>[A-Za-z_]\w*)(\['\w+'\])?: .+(\bfound\b.+|\. [A-Z].+)", re.DOTALL
)
KNOWN_ERRORS = (ValueError, TypeError)
ODD_SETTINGS: tuple[tuple[str, Any], ...] = (
    ("order", 0), ("order", 1.5), ("order", None), ("interactions", "most"), ("n_bags", 0),
    ("interactions", [("nobody", "age")]), ("interactions", {"forbidden": [("age",)]}),
    ("max_components", 0), ("selection", "best"), ("shapes", {"nobody": "increasing"}),
    ("shapes", {0: "up"}), ("categorical", "all"), ("categorical", ["nobody"]),
    ("categorical", {"min_rows": 0}), ("solver", "newton"), ("solver", 3), ("max_nodes", 1),
    ("max_nodes", {1: 70_000}), ("validation_fraction", 1.0), ("device", "tpu"), ("n_jobs", 0),
    ("time_limit", -1.0), ("random_state", -1), ("verbose", "loud"),
    ("interactions", {"heredity": "yes"}),
)  # fmt: skip


def argument_of(error: Exception) -> str | None:
    """Name of the argument that a clear error is about, None where the error is not clear."""
    found = CLEAR.fullmatch(str(error)) if type(error) in KNOWN_ERRORS else None
    return found["argument"] if found else None


def case_of(seed: int, is_deep: bool = False) -> Case:
    """Make the case of a seed, spoilt now and then; one in which deep trees grow, if asked for."""
    rng, case = np.random.default_rng([seed, 2]), random_case(seed)
    if is_deep:
        deep = deep_settings(case.settings, np.random.default_rng([seed, 7]))
        case = replace(case, settings=deep)
    return inject(case, rng) if rng.random() < SHARE else case


def inject(case: Case, rng: np.random.Generator) -> Case:
    """Spoil one argument of a case; whatever was wrong with its columns may be refused first."""
    argument, spoil = _FAULTS[rng.integers(len(_FAULTS))]
    if argument == "settings":
        argument, value = ODD_SETTINGS[rng.integers(len(ODD_SETTINGS))]
        spoilt = replace(case, settings=case.settings | {argument: value})
    else:
        spoilt = spoil(case)
    return replace(spoilt, faults=frozenset({argument, "X"}))


def _with_target(case: Case, value: float) -> Case:
    target = case.target.astype(object if case.target.dtype.kind in "OU" else float)
    target[0] = None if target.dtype.kind == "O" else value
    return replace(case, target=target)


def _short_target(case: Case) -> Case:
    return replace(case, target=case.target[:-1], weights=None, offset=None)


def _with_weight(case: Case, value: float) -> Case:
    return replace(case, weights=np.full(case.n_rows, value))


def _with_offset(case: Case, value: float) -> Case:
    return replace(case, offset=np.full(case.n_rows, value))


def _one_row(case: Case) -> Case:
    settings = {key: value for key, value in case.settings.items() if key != "objective"}
    return replace(case.take([0]), task="regression", target=np.ones(1), settings=settings)


def _same_names(case: Case) -> Case:
    twice = (*case.columns, case.columns[0])
    return replace(case, columns=twice, container="pandas")


def _shape_of_labels(case: Case) -> Case:
    words = (["a", "b"] * case.n_rows)[: case.n_rows]
    labels = replace(case.columns[0], kind=TEXT, values=words, levels=())
    settings = case.settings | {"shapes": {0: "increasing"}}
    container = "numpy" if case.container == "masked" else case.container  # which holds no words
    columns = (labels, *case.columns[1:])
    return replace(case, columns=columns, settings=settings, container=container)


_FAULTS: tuple[Fault, ...] = (
    *[("settings", lambda case: case)] * 4,
    ("y", lambda case: _with_target(case, np.nan)),
    ("y", _short_target),
    ("sample_weight", lambda case: _with_weight(case, -1.0)),
    ("sample_weight", lambda case: _with_weight(case, np.nan)),
    ("sample_weight", lambda case: _with_weight(case, 0.0)),
    ("sample_weight", lambda case: replace(case, weights=np.ones(case.n_rows + 1))),
    ("offset", lambda case: _with_offset(case, np.inf)),
    ("X", _one_row),
    ("X", _same_names),
    ("shapes", _shape_of_labels),
)
