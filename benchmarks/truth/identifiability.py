"""How far the components are from averaging to zero, over fits of every kind."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from benchmarks.common.bars import Plan, Row, row
from benchmarks.common.data import california
from benchmarks.common.interface import Halves
from tpnn import Descent, TPNNClassifier, TPNNRegressor

TRAINING_ROWS = 3_000
TRIPLES = [(0, 1, 2), (0, 6, 7), (5, 6, 7)]
DESCENDED: dict[str, dict[str, Any]] = {
    "main effects": {"order": 1},
    "pairs": {"order": 2},
    "triples": {"order": 3, "interactions": [(0, 1), *TRIPLES]},
}
GROWN: dict[str, dict[str, Any]] = {"main effects": {"order": 1}, "pairs": {"order": 2}}
VARIANTS: list[dict[str, Any]] = [
    {"activation": "relu"},
    {"scale": "paper"},
    {"shared_bases": True},
]


def measure_identifiability(plan: Plan) -> list[Row]:
    """Measure the worst identifiability error of each order and solver over all kinds of fits."""
    data = california(0, min(TRAINING_ROWS, plan.training_rows))
    rows = []
    for what, components in DESCENDED.items():
        steps = plan.short_steps
        plain = {**components, "solver": Descent(max_steps=steps)}
        errors = _errors(plain, data) + _variant_errors(components, steps, data)
        rows.append(_worst(what, "gradient", errors))
    for what, components in GROWN.items():
        rows.append(_worst(what, "grow", _errors({**components, "solver": "grow"}, data)))
    return rows


def _errors(common: dict[str, Any], data: Halves) -> list[float]:
    """Return the error of fits with one and eight bags, of either task."""
    tasks = [
        (TPNNRegressor, data.fitted.y),
        (TPNNClassifier, data.fitted.y > np.median(data.fitted.y)),
    ]
    fits = [
        estimator(**common, n_bags=n_bags, random_state=0).fit(data.fitted.X, target)
        for (estimator, target), n_bags in product(tasks, (1, 8))
    ]
    return [fit.model_.identifiability_error() for fit in fits]


def _variant_errors(components: dict[str, Any], steps: int, data: Halves) -> list[float]:
    """Return the error of a fit with each kind of bases, which only gradient descent has."""
    solvers = [Descent(max_steps=steps, **kind) for kind in VARIANTS]
    models = [TPNNRegressor(**components, solver=s, n_bags=1, random_state=0) for s in solvers]
    return [
        model.fit(data.fitted.X, data.fitted.y).model_.identifiability_error() for model in models
    ]


def _worst(what: str, solver: str, errors: list[float]) -> Row:
    what = f"{what}, worst of {len(errors)} fits, solver={solver!r}"
    return row("identifiability", what, max(errors), "", "<= 1e-6")
