"""Shapes of the whole function: certificates are true, constraints hold on every pair of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import QUICK as NETWORK
from tpnn import TPNNClassifier, TPNNRegressor, load_model
from tpnn.anova.constraints import CURVED, SIGNS
from tpnn.model.constrain import constrain

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


def smallest(model: Any, feature: int, shape: str) -> float:
    """Smallest step, or change of slope at an inner node, over the grid of all nodes."""
    values = [np.append(a.values[: a.n_regular], np.nan) for a in model.encoder.axes[1]]
    others = np.meshgrid(*[nodes for j, nodes in enumerate(values) if j != feature])
    rows = np.column_stack([grid.ravel() for grid in others])
    nodes = values[feature][:-1]
    scores = [model.raw_scores(np.insert(rows, feature, node, axis=1)) for node in nodes]
    steps = np.diff(scores, axis=0)
    if shape in CURVED:
        steps = np.diff(steps / np.diff(nodes)[:, None], axis=0)
    return float((steps * SIGNS[shape]).min())


@pytest.mark.filterwarnings("ignore:X. levels or missing values")
@pytest.mark.parametrize("pair_nodes", [2, 4])
def test_certificate_is_the_smallest_step_over_all_inputs(data: Any, pair_nodes: int) -> None:
    X, y = data
    small = {**QUICK, "max_nodes": {1: 6, 2: pair_nodes}}
    model = TPNNRegressor(**small, solver="grow").fit(X, y).model_
    for feature in range(3):
        for shape in SIGNS:
            found = model.certificate(f"x{feature}", shape).minimum
            assert found == pytest.approx(smallest(model, feature, shape))


@pytest.mark.filterwarnings("ignore:X. levels or missing values")
@pytest.mark.parametrize("shape", ["convex", "concave"])
def test_curvature_holds_where_interactions_end(shape: str) -> None:
    """The nodes of a pair end inside the range of its features; beyond them it is constant."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 2))
    y = (X[:, 0] ** 2 + 0.8 * X[:, 0] * X[:, 1]) * (1 if shape == "convex" else -1)
    nodes = {"max_nodes": {1: 24, 2: 4}, "n_bags": 2, "random_state": 0, "verbose": 0}
    model = TPNNRegressor(**nodes, monotone={"x0": shape}).fit(X, y).model_
    assert np.abs(model.tables[-1]).max() > 0.01  # the interaction is still there
    assert 0 <= model.certificate("x0").minimum <= smallest(model, 0, shape) + 1e-8
    assert smallest(model, 0, shape) > -1e-8


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
        constrain(model.model_, {0: "up"})


@pytest.fixture(scope="module")
def products() -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(1500, 5)), columns=list("abcde"))
    return X, X.a * X.b + 0.7 * X.c * X.d + 0.3 * X.e + 0.1 * rng.normal(size=1500)


@pytest.mark.parametrize("rule", [{"max_components": 2}, {"selection": "noise"}])
def test_shapes_add_no_component_that_they_do_not_need(products: Any, rule: Any) -> None:
    few = {"n_bags": 2, "random_state": 0, "verbose": 0, **rule}
    model = TPNNRegressor(**few, monotone={"e": "increasing"}).fit(*products)
    assert model.components_ == model.path().model(model.path().chosen).component_names
    assert model.model_.certificate("e").minimum >= 0
    assert model.model_.identifiability_error() < 1e-9


def test_shapes_add_the_main_effect_that_they_need(products: Any) -> None:
    model = TPNNRegressor(n_bags=2, random_state=0, verbose=0).fit(*products)
    free = model.model_.restrict([(0, 1), (2, 3)])
    shaped = constrain(free, {"a": "increasing", "e": "increasing"})
    assert shaped.component_names == [("a",), ("b",), ("a", "b"), ("c", "d")]
    assert shaped.certificate("a").minimum >= 0
    assert shaped.certificate("e").minimum == 0  # f is constant along it
    assert shaped.identifiability_error() < 1e-9
    np.testing.assert_allclose(shaped.tables[-1], free.tables[-1], atol=1e-12)


def test_a_fit_that_fails_leaves_nothing_behind() -> None:
    X = np.arange(60.0).reshape(30, 2)
    model = TPNNRegressor(monotone={0: "increasing"}, categorical=[0], verbose=0)
    with pytest.raises(ValueError, match=r"^monotone: a shape needs an order"):
        model.fit(X, X[:, 1])
    assert not [name for name in vars(model) if name.endswith("_")]
