"""Models that are read are the exact functional ANOVA of their trees."""

from __future__ import annotations

from itertools import combinations, product
from math import factorial

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tpnn
from tests.lifecycle.foreign.rows import gap, target, training, unlike
from tpnn.lifecycle.foreign import read as tree_nodes

X = training()
y = target(X)
boosted = HistGradientBoostingRegressor(max_iter=30, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def small():
    """A model of four features with few values, and its predictions on all their cells."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.integers(0, 4, (200, 4)).astype(float), columns=list("abcd"))
    rows.loc[::9, "b"] = np.nan
    signal = rows["a"] * rows["b"].fillna(5) + rows["c"] * (rows["d"] > 1) * rows["a"]
    weights = rng.integers(1, 4, 200).astype(float)
    model = HistGradientBoostingRegressor(max_iter=30, min_samples_leaf=2, random_state=0)
    model.fit(rows, signal)
    values = [np.unique(rows[name]) for name in rows]
    cells = pd.DataFrame(list(product(*values)), columns=list(rows))
    shape = [len(own) for own in values]
    masses = []
    for name, own in zip(rows, values, strict=True):
        counts = [
            weights[(rows[name] == value) | (rows[name].isna() & np.isnan(value))] for value in own
        ]
        masses.append(np.array([count.sum() for count in counts]) / weights.sum())
    whole = model.predict(cells).reshape(shape)
    return model, rows, weights, cells, whole, masses


def parts_of(whole, masses):
    """All components on all cells, by averaging over whole axes, broadcast to the cells."""
    parts, axes = {}, range(whole.ndim)
    for subset in (s for d in range(whole.ndim + 1) for s in combinations(axes, d)):
        part = whole
        for axis in axes:
            mean = np.expand_dims(np.tensordot(part, masses[axis], axes=(axis, 0)), axis)
            part = part - mean if axis in subset else mean
        parts[subset] = np.broadcast_to(part, whole.shape).ravel()
    return parts


def test_components_equal_brute_force(small):
    model, rows, weights, cells, whole, masses = small
    read = tpnn.read(model, rows, weights)
    truth = parts_of(whole, masses)
    assert read.intercept == pytest.approx(truth[()][0], abs=1e-12)
    scores = read.component_scores(cells)
    assert len(read.components) == 14  # all but the one of order four
    for place, component in enumerate(read.components):
        np.testing.assert_allclose(scores[:, place], truth[component], atol=1e-12)
    np.testing.assert_allclose(read.remainder_scores(cells), truth[0, 1, 2, 3], atol=1e-12)
    assert read.identifiability_error() < 1e-12


def test_shapley_values_equal_interventional_ones(small):
    model, rows, weights, cells, whole, masses = small
    read = tpnn.read(model, rows, weights, max_components=5)
    assert len(read.components) == 5
    some = [0, 17, 100]
    found = read.explain(cells.iloc[some]).shap_values().values
    expected = np.zeros((3, 4))
    for feature in range(4):
        others = [j for j in range(4) if j != feature]
        for subset in (s for d in range(4) for s in combinations(others, d)):
            share = factorial(len(subset)) * factorial(3 - len(subset)) / factorial(4)
            gain = mean_given(whole, masses, {*subset, feature}) - mean_given(whole, masses, subset)
            expected[:, feature] += share * gain[some]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def mean_given(whole, masses, kept):
    """Mean over the features that are not kept, on all cells."""
    for axis in range(whole.ndim):
        if axis not in kept:
            mean = np.tensordot(whole, masses[axis], axes=(axis, 0))
            whole = np.broadcast_to(np.expand_dims(mean, axis), whole.shape)
    return whole.ravel()


def test_intercept_core_and_remainder_are_the_raw_score():
    read, other = tpnn.read(boosted, X, max_components=8), unlike()
    total = read.intercept + read.component_scores(other).sum(1) + read.remainder_scores(other)
    assert gap(boosted.predict(other), total) < 1e-12
    assert 0 < read.remainder.share < 0.1
    assert read.remainder.largest


def test_fewer_nodes_move_a_part_to_the_remainder(monkeypatch):
    exact = tpnn.read(boosted, X)
    monkeypatch.setattr(tree_nodes, "MOST_CUTS", {1: 20, 2: 5, 3: 2})
    monkeypatch.setattr(tree_nodes, "MOST_LEVELS", {1: 9, 2: 3, 3: 2})
    coarse = tpnn.read(boosted, X)
    other = unlike()
    assert gap(boosted.predict(other), coarse.raw_scores(other)) < 1e-12
    assert coarse.identifiability_error() < 1e-12
    assert sum(table.size for table in coarse.tables) < sum(table.size for table in exact.tables)
    assert coarse.remainder.share > exact.remainder.share


def test_a_core_that_says_all_leaves_no_remainder():
    stumps = HistGradientBoostingRegressor(max_iter=50, max_depth=1, random_state=0).fit(X, y)
    read, other = tpnn.read(stumps, X), unlike()
    assert read.remainder is None
    assert gap(stumps.predict(other), read.raw_scores(other)) < 1e-12


def test_no_remainder_is_left_out_where_a_component_lacks_cuts(monkeypatch):
    stumps = HistGradientBoostingRegressor(max_iter=50, max_depth=1, random_state=0).fit(X, y)
    monkeypatch.setattr(tree_nodes, "MOST_CUTS", {1: 4, 2: 3, 3: 2})
    read, other = tpnn.read(stumps, X), unlike()
    assert read.remainder is not None
    assert gap(stumps.predict(other), read.raw_scores(other)) < 1e-12


def test_trees_without_questions():
    constant = HistGradientBoostingRegressor(max_iter=3).fit(X, np.full(len(X), 2.5))
    read = tpnn.read(constant, X)
    np.testing.assert_allclose(read.raw_scores(unlike()), 2.5)


def test_a_model_that_is_read_is_saved(tmp_path):
    read, other = tpnn.read(boosted, X), unlike()
    read.save(tmp_path / "read.tpnn")
    np.testing.assert_array_equal(
        tpnn.load(tmp_path / "read.tpnn").predict(other), read.predict(other)
    )


def test_rows_of_every_kind_of_table():
    arrow = pytest.importorskip("pyarrow").Table.from_pandas(X)
    assert tpnn.read(boosted, arrow).feature_names == ("a", "b", "c", "d")
    numbers = X[["b", "d"]].to_numpy()
    plain = HistGradientBoostingRegressor(max_iter=5, random_state=0).fit(numbers, y)
    assert tpnn.read(plain, numbers).feature_names == ("x0", "x1")
    assert tpnn.read(plain, X[["b", "d"]]).feature_names == ("b", "d")


def test_a_level_that_only_the_rows_have():
    more = X.assign(c=X["c"].cat.add_categories("new"))
    more.loc[::5, "c"] = "new"
    read = tpnn.read(boosted, more)
    assert gap(boosted.predict(more), read.raw_scores(more)) < 1e-12
    assert read.identifiability_error() < 1e-12


def test_forests_of_many_cuts_are_read_with_fewer_nodes():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3000, 2))
    forest = ExtraTreesRegressor(n_estimators=60, max_depth=6, random_state=0)
    forest.fit(rows, rows[:, 0] * rows[:, 1])
    read = tpnn.read(forest, rows)
    assert len(read.encoder.axes[1][0].values) <= 2 * tree_nodes.MOST_CUTS[1] + 2
    other = 2 * rng.normal(size=(500, 2))
    assert gap(forest.predict(other), read.raw_scores(other)) < 1e-12


@pytest.mark.parametrize("kind", [HistGradientBoostingClassifier, RandomForestRegressor])
def test_a_model_that_is_not_fitted(kind):
    with pytest.raises(NotFittedError, match=f"^model: must be fitted, and this {kind.__name__}"):
        tpnn.read(kind(), X)
    with pytest.raises(
        TypeError, match=f"^model: a fitted model is needed, and {kind.__name__} is"
    ):
        tpnn.read(kind, X)


@pytest.mark.parametrize(
    ("library", "name"),
    [("lightgbm", "LGBMRegressor"), ("xgboost", "XGBRegressor"), ("catboost", "CatBoostRegressor")],
)
def test_a_model_of_another_library_that_is_not_fitted(library, name):
    module = pytest.importorskip(library, reason=f"{library} is not installed, see the group dev")
    with pytest.raises(NotFittedError, match=f"^model: must be fitted, and this {name} is not"):
        tpnn.read(getattr(module, name)(), X)


def test_models_of_other_kinds():
    for model in (LinearRegression(), make_pipeline(StandardScaler(), RandomForestRegressor())):
        fitted = model.fit(X[["b", "d"]], y)
        with pytest.raises(TypeError, match=r"^model: a fitted model of trees .* distill"):
            tpnn.read(fitted, X)


def test_rows_that_do_not_fit():
    with pytest.raises(ValueError, match=r"^X: the columns seen during fit are needed, \['b'\] is"):
        tpnn.read(boosted, X.drop(columns="b"))
    with pytest.raises(TypeError, match=r"^X: column 'b' must hold what it held in fit, numbers"):
        tpnn.read(boosted, X.assign(b="text"))
    with pytest.raises(ValueError, match=r"^X: at least one row is needed"):
        tpnn.read(boosted, X[:0])
    with pytest.raises(ValueError, match=r"^max_components: must be a whole number of at least 1"):
        tpnn.read(boosted, X, max_components=0)


def test_trees_with_too_many_cuts(monkeypatch):
    monkeypatch.setattr(tree_nodes, "MOST_ANSWERS", 100)
    with pytest.raises(ValueError, match=r"^model: its trees cut .* max_depth=6"):
        tpnn.read(boosted, X)
