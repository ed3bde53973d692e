"""How far the components are from averaging to zero, over fits of every kind."""

from __future__ import annotations

from itertools import product
from typing import Any

from benchmarks.data import Split, california
from benchmarks.measure import Plan, Row, row
from tpnn import TPNNClassifier, TPNNRegressor

TRAINING_ROWS = 3_000
TRIPLES = [(0, 1, 2), (0, 6, 7), (5, 6, 7)]
ORDERS: dict[str, dict[str, Any]] = {
    "main effects": {"order": 1},
    "pairs": {"order": 2},
    "triples": {"order": 3, "interactions": [(0, 1), *TRIPLES]},
}
VARIANTS: list[dict[str, Any]] = [
    {"activation": "relu"},
    {"scale": "paper"},
    {"shared_bases": True},
]


def measure_identifiability(plan: Plan) -> list[Row]:
    """Measure the worst identifiability error of each order over bags, tasks and bases."""
    data = california(0, min(TRAINING_ROWS, plan.training_rows))
    rows = []
    for what, components in ORDERS.items():
        common = {**components, "max_steps": plan.short_steps, "random_state": 0}
        errors = _errors(common, data)
        what = f"{what}, worst of {len(errors)} fits"
        rows.append(row("identifiability", what, max(errors), "", "<= 1e-6"))
    return rows


def _errors(common: dict[str, Any], data: Split) -> list[float]:
    """Return the error of fits with one and eight bags, of either task, and of each variant."""
    tasks = [(TPNNRegressor, data.y), (TPNNClassifier, data.y > data.y.median())]
    fits = [
        estimator(**common, n_bags=n_bags).fit(data.X, target)
        for (estimator, target), n_bags in product(tasks, (1, 8))
    ]
    fits += [TPNNRegressor(**common, n_bags=1, **kind).fit(data.X, data.y) for kind in VARIANTS]
    return [fit.model_.identifiability_error() for fit in fits]
