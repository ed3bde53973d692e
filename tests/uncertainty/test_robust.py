"""Robust covariances: uneven noise and groups of rows do not make p-values too small."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.uncertainty.problems import solved
from tests.uncertainty.test_better import linear_models
from tpnn import TPNNClassifier, TPNNRegressor
from tpnn.solvers.grow.solver import Grow
from tpnn.uncertainty import linear_model
from tpnn.uncertainty.equations import ByFunctions, Coefficients
from tpnn.uncertainty.linear_model import RowScores, p_value

FAST: Any = {"n_bags": 4, "random_state": 0, "solver": Grow(growth="none"), "order": 1}
N = 500


def posterior(precision: float) -> tuple[np.ndarray, np.ndarray, Coefficients]:
    """Rows, targets, and the posterior of their coefficients."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    X -= X.mean(0)
    z = X @ np.array([0.3, 0.1, 0, 0, 0]) + rng.normal(size=60)
    return X, z, ByFunctions(X.T @ X, X.T @ z).solved(np.full(5, precision))


def test_where_precisions_are_right_the_p_value_is_the_same() -> None:
    _, _, found = posterior(2.0)
    robust = Coefficients(found.mean, found.covariance, found.precision, found.covariance.matrix)
    assert p_value(robust) == pytest.approx(p_value(found), rel=1e-6)
    assert robust.root() == pytest.approx(found.root())


def test_noise_that_is_twice_as_large_as_claimed_is_noticed() -> None:
    """All rows with four times the variance: the test of four times the dispersion."""
    X, z, found = posterior(1e-9)
    wide = ByFunctions(X.T @ X / 4, X.T @ z / 4).solved(np.full(5, 1e-9))
    robust = Coefficients(
        found.mean, found.covariance, found.precision, 4 * found.covariance.matrix
    )
    assert p_value(robust) == pytest.approx(p_value(wide), rel=1e-4)
    assert p_value(robust) > 2 * p_value(found)


@pytest.mark.parametrize("kind", ["rows", "groups", "classes"])
def test_covariances_are_those_of_the_dense_sandwich(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all functions at once; copies of a row are independent, rows of a group are not."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"a": rng.integers(0, 5, 300), "b": rng.normal(size=300).round(1)})
    groups = rng.integers(0, 60, 300)
    y = X["a"] / 3 + rng.normal(size=300)
    estimator: Any = TPNNRegressor(**FAST)
    if kind == "classes":
        estimator, y = TPNNClassifier(**FAST), y > 0.5
        X["b"] = X["b"].round()
    monkeypatch.setattr(linear_model, "ROWS_PER_BLOCK", 50)  # groups go on in the next block
    with pytest.MonkeyPatch.context() as patch:
        kept: list[RowScores] = []
        patch.setattr(linear_model.LinearModel, "add_robust", lambda _, scores: kept.append(scores))
        extra = {"groups": groups} if kind == "groups" else {}
        found = solved(_with(estimator, extra), X, y)
        design, (model,) = linear_models(found)
    (scores,), (group,) = kept, model.groups
    assert (scores.groups is not None) == (kind == "groups")
    assert kind != "classes" or scores.masses.max() > 1
    rows = design.of(group.numbers).block(0, len(scores.slopes)).astype(np.float64)
    rows -= model.precision @ rows / model.precision.sum()
    parts = rows * (scores.slopes / np.sqrt(scores.masses))[:, None]
    square = parts.T @ parts
    if kind == "groups":
        sums = pd.DataFrame(rows * scores.slopes[:, None]).groupby(scores.groups).sum().to_numpy()
        square = sums.T @ sums * len(sums) / (len(sums) - 1)
    covariance = group.covariance.matrix
    expected = covariance @ (square + np.diag(group.diagonal)) @ covariance
    model.add_robust(scores)
    for number, place in zip(group.numbers, group.design.places, strict=True):
        robust = model.posteriors[number].robust
        assert robust == pytest.approx(expected[np.ix_(place, place)], rel=2e-3, abs=1e-6)


class _with:  # noqa: N801
    """An estimator whose fit has further arguments."""

    def __init__(self, estimator: Any, named: dict[str, Any]) -> None:
        self.estimator, self.named = estimator, named

    def fit(self, X: Any, y: Any) -> Any:
        return self.estimator.fit(X, y, **self.named)


def rejected(kind: str, n_tables: int = 40) -> tuple[float, float]:
    """Share of p-values below 0.05 of a feature that is nothing, and share that its band holds."""
    p_values, held = [], []
    for seed in range(n_tables):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame(rng.normal(size=(N, 3)), columns=list("abc"))
        noise, named = rng.normal(size=N), {}
        if kind == "uneven noise":
            noise *= np.exp(0.8 * X["b"])
        if kind == "groups":
            groups = np.repeat(np.arange(N // 10), 10)
            X["b"], named = rng.normal(size=N // 10)[groups], {"groups": groups}
            noise += rng.normal(size=N // 10)[groups]
        model = TPNNRegressor(**FAST).fit(X, np.sin(X["a"]) + noise, **named)
        line = next(line for line in model.summary().lines if line.component == "b")
        p_values.append(line.p_value)
        table = model.explain().component("b")
        lower, upper = table.band
        held.append(float(table.axes[0].weights @ ((lower <= 0) & (upper >= 0))))
    return float(np.mean(np.array(p_values) < 0.05)), float(np.mean(held))


@pytest.mark.parametrize("kind", ["even noise", "uneven noise", "groups"])
def test_what_is_nothing_is_rarely_rejected(kind: str) -> None:
    """With precisions alone a third (uneven noise) and three quarters (groups) were rejected."""
    share, held = rejected(kind)
    assert share <= 0.15
    assert held > 0.9
