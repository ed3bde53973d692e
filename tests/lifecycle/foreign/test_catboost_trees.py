"""Models of CatBoost have the same raw scores as components and remainder."""

from __future__ import annotations

import numpy as np
import pytest

import tpnn
from tests.lifecycle.foreign.rows import gap, near, target, training, unlike

catboost = pytest.importorskip(
    "catboost", reason="catboost is not installed, see the group dev of pyproject.toml"
)
X = training().astype({"c": str})
y = target(X)
SMALL = {
    "iterations": 30,
    "depth": 4,
    "verbose": 0,
    "cat_features": ["c"],
    "allow_writing_files": False,
}
SIMPLE = SMALL | {"max_ctr_complexity": 1}


def other_rows():
    return unlike().astype({"c": str}).replace({"c": {"y": "new"}})


@pytest.mark.parametrize(
    "settings",
    [
        {"one_hot_max_size": 20},
        {"one_hot_max_size": 20, "grow_policy": "Lossguide"},
        {"max_ctr_complexity": 1},
        {"max_ctr_complexity": 1, "simple_ctr": ["Borders", "Counter"], "nan_mode": "Max"},
        {"one_hot_max_size": 20, "grow_policy": "Depthwise", "loss_function": "Poisson"},
    ],
)
def test_raw_scores_are_those_of_catboost(settings):
    model = catboost.CatBoostRegressor(**SMALL | settings).fit(X, np.abs(y))
    read = tpnn.read(model, X)
    other = other_rows()
    ends = read.encoder.axes[1][0].values
    singles = near(ends.astype(np.float32), other, "a")
    for rows in (X, other, near(ends, other, "a"), singles):
        expected = model.predict(rows, prediction_type="RawFormulaVal")
        assert gap(expected, read.raw_scores(rows)) < 1e-12
    assert read.identifiability_error() < 1e-12


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_and_weights(n_classes):
    labels = np.array(["low", "mid", "top"])[np.digitize(y, [0, 1.5][: n_classes - 1])]
    weights = np.linspace(0.1, 2, len(X))
    model = catboost.CatBoostClassifier(**SIMPLE).fit(X, labels, sample_weight=weights)
    read, other = tpnn.read(model, X, weights), other_rows()
    expected = model.predict(other, prediction_type="RawFormulaVal")
    assert gap(expected, read.raw_scores(other)) < 1e-12
    shares = model.predict_proba(other)
    np.testing.assert_allclose(read.predict_proba(other), shares, atol=1e-12)
    assert read.classes == ("low", "mid", "top")[:n_classes]


def test_a_model_of_an_array_and_levels_that_are_whole_numbers():
    rows = X.assign(c=X["c"].map(ord)).to_numpy(object)
    settings = SIMPLE | {"cat_features": [2], "one_hot_max_size": 2}
    model = catboost.CatBoostRegressor(**settings).fit(rows, y)
    assert gap(model.predict(rows), tpnn.read(model, rows).raw_scores(rows)) < 1e-12


def test_statistics_of_several_features_are_refused():
    two = X.assign(e=X["c"].str.upper() + (X["b"] > 0).astype(str))
    model = catboost.CatBoostRegressor(**SMALL | {"iterations": 200, "cat_features": ["c", "e"]})
    with pytest.raises(ValueError, match=r"several features together.*max_ctr_complexity=1"):
        tpnn.read(model.fit(two, y), two)


@pytest.mark.parametrize("settings", [{"one_hot_max_size": 20}, {"max_ctr_complexity": 1}])
def test_rows_that_lack_levels_of_the_model_are_refused(settings):
    model = catboost.CatBoostRegressor(**SMALL | settings).fit(X, y)
    with pytest.raises(ValueError, match=r"^X: the model knows levels of 'c' that X does not have"):
        tpnn.read(model, X[X["c"] != "x"])


def test_what_cannot_be_read():
    settings = {"iterations": 5, "verbose": 0, "allow_writing_files": False}
    numbers = X[["b", "d"]]
    each = catboost.CatBoostClassifier(**settings, loss_function="MultiClassOneVsAll")
    with pytest.raises(ValueError, match="objective 'MultiClassOneVsAll' is not known"):
        tpnn.read(each.fit(numbers, np.digitize(y, [0, 1.5])), numbers)
    text = catboost.CatBoostRegressor(**settings, text_features=["c"])
    words = X[["b"]].assign(c=["some words", "other words"] * (len(X) // 2))
    with pytest.raises(ValueError, match="text or embedding features"):
        tpnn.read(text.fit(words, y), words)
