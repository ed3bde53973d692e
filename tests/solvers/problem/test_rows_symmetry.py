"""The order of rows and columns changes nothing, whatever ties there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.conftest import QUICK
from tpnn import TPNNClassifier, TPNNRegressor


def alike_columns(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Five columns that are permutations of one another, so that their marginals are the same."""
    rng = np.random.default_rng(seed)
    column = rng.normal(size=150)
    X = np.column_stack([rng.permutation(column) for _ in range(5)])
    return X, X[:, 0] + np.sin(X[:, 1] * X[:, 2]) + 0.1 * rng.normal(size=150)


@pytest.mark.parametrize("seed", range(4))
def test_unnamed_columns_of_equal_marginals(seed: int) -> None:
    X, y = alike_columns(seed)
    order = np.random.default_rng(seed + 100).permutation(5)
    first = TPNNRegressor(**QUICK).fit(X, y)
    second = TPNNRegressor(**QUICK).fit(X[:, order], y)
    np.testing.assert_allclose(
        first.predict(X), second.predict(X[:, order]), rtol=1e-12, atol=1e-12
    )


def test_copies_of_rows_do_not_reorder_columns_of_equal_marginals() -> None:
    X, y = alike_columns(9)
    weights = np.random.default_rng(9).integers(1, 4, len(y))
    order = [3, 1, 4, 0, 2]
    weighted = TPNNRegressor(**QUICK).fit(X, y, sample_weight=weights)
    copied = TPNNRegressor(**QUICK).fit(
        np.repeat(X, weights, axis=0)[:, order], np.repeat(y, weights)
    )
    np.testing.assert_allclose(weighted.predict(X), copied.predict(X[:, order]), rtol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_signs_of_zero(seed: int) -> None:
    """Rounded tables have 0.0 and -0.0; which comes first depends on the order of the rows."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(200, 3)), 0)
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=200)
    assert (np.signbit(X) & (X == 0)).any()
    order = rng.permutation(200)
    first = TPNNRegressor(**QUICK).fit(X, y)
    second = TPNNRegressor(**QUICK).fit(X[order], y[order])
    np.testing.assert_array_equal(first.predict(X), second.predict(X))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("task", ["regression", "balanced"])
def test_fractional_weights_in_any_order(seed: int, task: str) -> None:
    """Copies of rows with weights that are not whole: their sums are taken in one order."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (300, 2)).astype(float)
    y = (X.sum(1) + rng.integers(0, 2, 300) > 3).astype(int)
    weights, order = rng.random(300), rng.permutation(300)
    settings: dict[str, Any] = {**QUICK, "n_bags": 1}
    model = TPNNRegressor(**settings)
    if task == "balanced":
        model = TPNNClassifier(**settings, class_weight="balanced")
    first = model.fit(X, y, weights).model_.raw_scores(X)
    second = model.fit(X[order], y[order], weights[order]).model_.raw_scores(X)
    np.testing.assert_array_equal(first, second)
