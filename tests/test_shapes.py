"""Shapes of the whole function: certificates are true, constraints hold on every pair of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.conftest import QUICK as NETWORK
from tpnn import TPNNClassifier, TPNNRegressor, load_model

QUICK = {name: value for name, value in NETWORK.items() if name != "n_bases"}
RISING = {"monotone": {"x0": "increasing", "x1": "decreasing"}}


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    X[rng.random(900) < 0.1, 0] = np.nan
    known = np.nan_to_num(X)
    y = known[:, 0] + np.sin(3 * known[:, 0]) - known[:, 1] * (1 + known[:, 2])
    return X, y + 0.2 * rng.normal(size=900)


def steps_of(model: Any, X: np.ndarray, feature: int, n_rows: int = 60) -> np.ndarray:
    """Steps of the raw score along a feature, from many rows, over all its nodes."""
    axis = model.axes((feature,))[0]
    values = axis.values[: axis.n_regular]
    rows = np.random.default_rng(1).choice(len(X), n_rows)
    grid = np.repeat(X[rows], len(values), axis=0)
    grid[:, feature] = np.tile(values, n_rows)
    return np.diff(model.raw_scores(grid).reshape(n_rows, -1), axis=1)


@pytest.mark.parametrize("solver", ["grow", "gradient"])
def test_constrained_functions_never_step_back(data: Any, solver: str) -> None:
    X, y = data
    if solver == "gradient":
        pytest.importorskip("torch")
    free = TPNNRegressor(**QUICK, solver=solver).fit(X, y)
    assert free.model_.certificate("x0", "increasing").minimum < 0
    model = TPNNRegressor(**QUICK, solver=solver, **RISING).fit(X, y).model_
    assert model.certificate("x0").minimum >= 0
    assert model.certificate("x1").minimum >= 0
    assert model.certificate("x1").shape == "decreasing"
    assert steps_of(model, X, 0).min() >= -1e-12
    assert steps_of(model, X, 1).max() <= 1e-12
    assert model.identifiability_error() < 1e-6
    assert np.abs(model.tables[3]).max() > 0.01  # the interaction is still there


@pytest.mark.filterwarnings("ignore:X. levels or missing values")
def test_certificate_is_the_smallest_step_over_all_inputs(data: Any) -> None:
    """Brute force over the grid of all nodes of a small model."""
    X, y = data
    small = {**QUICK, "max_nodes": {1: 6, 2: 4}}
    model = TPNNRegressor(**small, solver="grow").fit(X, y).model_
    values = [np.append(a.values[: a.n_regular], np.nan) for a in model.encoder.axes[1]]
    for feature in range(3):
        axis = values[feature][:-1]
        others = [values[j] for j in range(3) if j != feature]
        a, b = (grid.ravel() for grid in np.meshgrid(*others))
        scores = [
            model.raw_scores(np.insert(np.column_stack([a, b]), feature, value, axis=1))
            for value in axis
        ]
        smallest = np.diff(scores, axis=0).min()
        assert model.certificate(f"x{feature}", "increasing").minimum == pytest.approx(smallest)


@pytest.mark.parametrize("shape", ["convex", "concave"])
def test_curvature_of_the_whole_function(data: Any, shape: str) -> None:
    X, y = data
    model = TPNNRegressor(**QUICK, monotone={"x0": shape}).fit(X, y).model_
    assert model.certificate("x0").minimum >= 0
    axis = model.axes((0,))[0]
    widths = np.diff(axis.values[: axis.n_regular])
    bends = np.diff(steps_of(model, X, 0) / widths, axis=1)
    assert (bends if shape == "convex" else -bends).min() >= -1e-8


def test_shapes_survive_saving(data: Any, tmp_path: Any) -> None:
    X, y = data
    model = TPNNClassifier(**QUICK, **RISING).fit(X, y > 0).model_
    model.save(tmp_path / "model.tpnn")
    loaded = load_model(tmp_path / "model.tpnn")
    assert loaded.shapes == RISING["monotone"]
    assert loaded.certificate("x0") == model.certificate("x0")


def test_a_true_shape_costs_little() -> None:
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(2000, 2))
    y = X[:, 0] * (1 + X[:, 1]) + 0.1 * rng.normal(size=2000)
    free = TPNNRegressor(random_state=0, n_bags=4).fit(X, y)
    shaped = TPNNRegressor(random_state=0, n_bags=4, monotone={"x0": "increasing"}).fit(X, y)
    truth = X[:, 0] * (1 + X[:, 1])
    assert np.std(shaped.predict(X) - truth) < 1.3 * np.std(free.predict(X) - truth)


def test_a_nominal_feature_has_no_certificate() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (200, 1)).astype(float)
    model = TPNNRegressor(categorical=[0], n_bags=1, random_state=0, verbose=0).fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"^shape: a shape needs an order, found the nominal"):
        model.model_.certificate("x0")
    with pytest.raises(ValueError, match=r"^monotone: must be one of increasing"):
        model.model_.with_shapes({0: "up"})
