"""Totals: predictions over the training rows add up to what was observed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import QUICK
from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival
from tpnn.solvers.problem.row_scores import logit_shift, softmax_shift

N_ROWS = 300
CLOSE = 1e-9
REGRESSORS = ["squared_error", "poisson", "gamma", "tweedie"]
VARIANTS: dict[str, dict[str, Any]] = {
    "bags": {"n_bags": 3},
    "listed": {"components": [("z",), ("z", "b")]},
    "selected": {"max_components": 2},
    "shapes": {"shapes": {"z": "increasing"}},
    "remainder": {"remainder": True, "max_components": 3},
}


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    """Columns whose canonical order, by name, is not the order of the table; ties and a level."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"z": rng.normal(size=N_ROWS), "b": rng.normal(size=N_ROWS).round(1)})
    return X.assign(level=rng.choice(["p", "q", "r"], N_ROWS), a=rng.random(N_ROWS))


def target(rows: pd.DataFrame, objective: str) -> Any:
    rng = np.random.default_rng(1)
    f = np.sin(2 * rows["z"]) + rows["z"] * rows["b"] + (rows["level"] == "q")
    if objective == "squared_error":
        return 5 + f + rng.normal(size=N_ROWS)
    return rng.gamma(1.0, np.exp(f)) if objective == "gamma" else rng.poisson(np.exp(f))


@pytest.mark.parametrize("objective", REGRESSORS)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("has_offset", [False, True])
def test_the_total_of_predictions_is_that_of_the_targets(
    rows: Any, objective: str, variant: str, has_offset: bool
) -> None:
    y, rng = target(rows, objective), np.random.default_rng(2)
    weights, offset = np.ones(N_ROWS), None
    if has_offset:
        weights, offset = rng.random(N_ROWS), rng.normal(size=N_ROWS)
    settings = {**QUICK, **VARIANTS[variant], "objective": objective}
    model = TPNNRegressor(**settings).fit(rows, y, sample_weight=weights, offset=offset)
    predicted = model.predict(rows, offset=offset)
    assert weights @ predicted == pytest.approx(weights @ y, rel=CLOSE)


def test_the_total_holds_with_a_column_of_exposures_and_along_a_path(rows: Any) -> None:
    y, X = target(rows, "poisson"), rows.assign(years=np.linspace(0.1, 3, N_ROWS))
    model = TPNNRegressor(**QUICK, objective="poisson", exposure="years").fit(X, y)
    assert model.predict(X).sum() == pytest.approx(y.sum(), rel=CLOSE)
    path = model.path()
    for step in path.steps[:2]:
        smaller = path.model(step.n_components)
        assert smaller.predict(X).sum() == pytest.approx(y.sum(), rel=CLOSE)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_total_of_each_class_is_its_weight(rows: Any, n_classes: int) -> None:
    labels = pd.qcut(target(rows, "squared_error"), n_classes, labels=False)
    weights = np.random.default_rng(0).random(N_ROWS)
    model = TPNNClassifier(**QUICK).fit(rows, labels, sample_weight=weights)
    observed = np.bincount(labels, weights)
    assert weights @ model.predict_proba(rows) == pytest.approx(observed, rel=CLOSE)


def test_several_targets_balance_one_by_one(rows: Any) -> None:
    y = np.column_stack([target(rows, "squared_error"), rows["z"] + 100])
    model = TPNNRegressor(**QUICK).fit(rows, y)
    assert model.predict(rows).sum(0) == pytest.approx(y.sum(0), rel=CLOSE)


@pytest.mark.parametrize("objective", ["absolute_error", "quantile", "huber"])
def test_what_is_no_mean_stays(rows: Any, objective: str) -> None:
    """Skewed targets have a mean far from the median; no intercept is moved there."""
    y = np.exp(3 * np.random.default_rng(0).normal(size=N_ROWS))
    model = TPNNRegressor(**QUICK, objective=objective).fit(rows, y)
    assert model.predict(rows).mean() < 0.5 * y.mean()


def test_relative_risks_stay(rows: Any) -> None:
    """Times and events are no means: the intercept is that of centring."""
    times = np.column_stack([1000 + target(rows, "poisson"), np.ones(N_ROWS)])
    assert abs(TPNNSurvival(**QUICK).fit(rows, times).intercept_) < 2


def test_columns_and_copies_of_rows_change_no_bit_of_the_intercept(rows: Any) -> None:
    y = target(rows, "poisson")
    settings = {**QUICK, "objective": "poisson"}
    one = TPNNRegressor(**settings).fit(rows, y)
    moved = TPNNRegressor(**settings).fit(rows[["level", "a", "b", "z"]], y)
    order = np.random.default_rng(0).permutation(np.tile(np.arange(N_ROWS), 2))
    twice = TPNNRegressor(**settings).fit(rows.iloc[order], y[order])
    assert one.intercept_ == moved.intercept_ == twice.intercept_


def test_shifts_are_found_from_far_away() -> None:
    """Scores that are off by tens of units, where a plain Newton step overshoots."""
    rng = np.random.default_rng(0)
    raw, weights = 6 * rng.normal(size=(500, 4)) + [0, 30, -20, 5], rng.dirichlet(np.ones(500))
    y = np.eye(4)[rng.integers(0, 4, 500)]
    moved = raw + softmax_shift(raw, y, weights)
    shares = np.exp(moved - moved.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    assert weights @ shares == pytest.approx(weights @ y, rel=CLOSE)
    one = raw[:, 1:2] + logit_shift(raw[:, 1:2], y[:, 1:2], weights)
    assert weights @ (1 / (1 + np.exp(-one))) == pytest.approx(weights @ y[:, 1:2], rel=CLOSE)


def test_classes_whose_probabilities_are_zero_are_balanced_too() -> None:
    """Raw scores so far away that exponentials underflow leave nothing to divide by."""
    raw = np.array([[0.0, -3000.0, 900.0], [-800.0, -2000.0, 0.0]])
    y, weights = np.array([[0.1, 0.2, 0.7], [0.3, 0.2, 0.5]]), np.array([0.5, 0.5])
    moved = raw + softmax_shift(raw, y, weights)
    odds = np.exp(moved - moved.max(1, keepdims=True))
    shares = odds / odds.sum(1, keepdims=True)
    assert weights @ shares == pytest.approx(weights @ y, rel=1e-6)
