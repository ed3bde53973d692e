"""One small fit of each task on a table with levels and missing values: the laws in short."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import QUICK
from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival, load

QUANTILES = {"name": "quantile", "levels": [0.1, 0.9]}
N_ROWS = 150


def messy() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(13)
    X = pd.DataFrame({"a": rng.normal(size=N_ROWS), "b": rng.choice(list("xyz"), N_ROWS)})
    X["c"] = np.where(rng.random(N_ROWS) < 0.2, np.nan, rng.random(N_ROWS))
    X["d"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 99, N_ROWS), "D")
    signal = X.a + (X.b == "x") * 2 + X.c.fillna(0.5) * X.a
    return X, signal.to_numpy() + 0.1 * rng.normal(size=N_ROWS)


TASKS: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "regression": (TPNNRegressor, {}, lambda y: y),
    "several targets": (TPNNRegressor, {}, lambda y: np.column_stack([y, -(y**2)])),
    "quantiles": (TPNNRegressor, {"objective": QUANTILES}, lambda y: y),
    "counts": (TPNNRegressor, {"objective": "poisson"}, lambda y: np.round(np.exp(y / 3))),
    "monotone": (TPNNRegressor, {"shapes": {"a": "increasing"}}, lambda y: y),
    "two classes": (TPNNClassifier, {}, lambda y: y > 1),
    "three classes": (TPNNClassifier, {}, lambda y: np.digitize(y, [0, 1])),
    "survival": (TPNNSurvival, {}, lambda y: np.column_stack([np.exp(-y), y > -1])),
}


@pytest.fixture(scope="module", params=TASKS)
def fitted(request: pytest.FixtureRequest, settings: dict[str, Any]) -> tuple[Any, Any, Any]:
    kind, parameters, target = TASKS[request.param]
    X, signal = messy()
    y = target(signal)
    return kind(**settings, **parameters).fit(X, y), X, y


def test_components_are_unique_and_sum_to_the_raw_score(fitted: Any) -> None:
    model, X, _ = fitted
    frozen = model.model_
    assert frozen.identifiability_error() < 1e-6
    raw = frozen.raw_scores(X)
    parts = frozen.component_scores(X).sum(1) + frozen.remainder_scores(X)
    assert np.allclose(frozen.intercept + parts, raw)
    assert np.allclose(np.asarray(model.shap_values(X).values).sum(1), raw - frozen.intercept)


def test_a_file_and_a_pickle_hold_the_same_bits(fitted: Any, tmp_path: Path) -> None:
    model, X, _ = fitted
    model.model_.save(tmp_path / "model.tpnn")
    expected = model.model_.predict(X)
    assert np.array_equal(load(tmp_path / "model.tpnn").model_.predict(X), expected)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.history_ == model.history_


def test_a_pickle_with_a_remainder_holds_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = X[:, 0] * X[:, 1] * np.sign(X[:, 2]) + X[:, 3]
    model = TPNNRegressor(**QUICK | {"remainder": True}).fit(X, y)
    assert model.model_.remainder is not None
    expected = model.predict(X)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(X), expected)
    assert np.array_equal(again.shap_values(X[:5]).values, model.shap_values(X[:5]).values)


def test_the_path_ends_with_the_whole_model(fitted: Any) -> None:
    model, X, _ = fitted
    path = model.path()
    assert path.steps[-1].n_components == path.chosen == len(model.components_)
    whole = path.model(path.chosen)
    assert np.allclose(whole.raw_scores(X), model.model_.raw_scores(X))


def test_better_than_nothing(fitted: Any) -> None:
    """A constant has an R^2 of zero, a concordance of a half, the share of the largest class."""
    model, X, y = fitted
    constant = 0.0
    if isinstance(model, TPNNClassifier):
        constant = np.unique(y, return_counts=True)[1].max() / N_ROWS
    elif isinstance(model, TPNNSurvival):
        constant = 0.5
    assert model.score(X, y) > constant + 0.15
