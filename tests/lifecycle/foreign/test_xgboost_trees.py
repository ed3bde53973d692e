"""Models of XGBoost have the same raw scores as components and remainder."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import tpnn
from tests.lifecycle.foreign.rows import gap, near, target, training, unlike

xgboost = pytest.importorskip(
    "xgboost", reason="xgboost is not installed, see the group dev of pyproject.toml"
)
X = training()
y = target(X)
SMALL = {"n_estimators": 30, "max_depth": 4, "enable_categorical": True}
SINGLE_SUM = 1e-5  # what XGBoost's sums in single precision are off by, relative to the spread


def exact_sums(model, rows, base):
    """Sum of the leaves that XGBoost says, in double precision."""
    booster = model.get_booster()
    leaves = booster.predict(xgboost.DMatrix(rows, enable_categorical=True), pred_leaf=True)
    content = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]
    total = np.full(len(rows), base)
    for tree, places in zip(content["trees"], leaves.astype(int).T, strict=True):
        total += np.array(tree["split_conditions"], np.float32)[places]
    return total


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"max_cat_to_onehot": 1},
        {"booster": "dart", "rate_drop": 0.3},
        {"tree_method": "exact", "enable_categorical": False},
        {"num_parallel_tree": 3, "subsample": 0.5},
        {"objective": "reg:gamma"},
    ],
)
def test_raw_scores_are_those_of_xgboost(settings):
    columns = list(X) if settings.get("enable_categorical", True) else ["a", "b", "d"]
    own = X[columns]
    model = xgboost.XGBRegressor(**SMALL | settings).fit(own, np.abs(y) + 0.1)
    read = tpnn.read(model, own)
    other = unlike()
    other.loc[::11, "c"] = np.nan
    for rows in (own, other[columns]):
        expected = model.predict(rows, output_margin=True)
        assert gap(expected, read.raw_scores(rows)) < SINGLE_SUM
    assert read.identifiability_error() < 1e-12


def test_sums_of_the_leaves_are_exact_next_to_every_threshold():
    """XGBoost rounds to single precision before it compares."""
    model = xgboost.XGBRegressor(**SMALL, base_score=0.0).fit(X, y)
    read = tpnn.read(model, X)
    other = unlike()
    for feature, column in ((0, "a"), (1, "b")):
        ends = read.encoder.axes[1][feature].values
        for rows in (near(ends, other, column), near(ends.astype(np.float32), other, column)):
            found = read.raw_scores(rows)
            assert gap(exact_sums(model, rows, 0.0), found) < 1e-12


@pytest.mark.parametrize("base_score", [None, 0.2])
def test_classes(base_score):
    other = unlike()
    two = xgboost.XGBClassifier(**SMALL, base_score=base_score).fit(X, y > 0)
    read = tpnn.read(two, X)
    assert gap(two.predict(other, output_margin=True), read.raw_scores(other)) < SINGLE_SUM
    three = xgboost.XGBClassifier(**SMALL, base_score=base_score).fit(X, np.digitize(y, [0, 1.5]))
    read = tpnn.read(three, X)
    assert gap(three.predict(other, output_margin=True), read.raw_scores(other)) < SINGLE_SUM
    np.testing.assert_allclose(read.predict(other), three.predict_proba(other), atol=1e-5)
    assert read.classes == (0, 1, 2)


def test_a_booster_of_an_array_with_numbered_levels():
    rows = X.assign(c=X["c"].cat.codes).to_numpy(np.float64)
    kinds = ["q", "q", "c", "q"]
    data = xgboost.DMatrix(rows, y, feature_types=kinds, enable_categorical=True)
    booster = xgboost.train({"max_depth": 4, "max_cat_to_onehot": 1}, data, 20)
    other = unlike().assign(c=np.resize([0, 1, 5, 9, 70, np.nan], 300)).to_numpy(np.float64)
    again = xgboost.DMatrix(other, feature_types=kinds, enable_categorical=True)
    assert gap(booster.predict(again), tpnn.read(booster, rows).raw_scores(other)) < SINGLE_SUM


def test_levels_that_are_numbers_and_another_order_of_the_categories():
    numbered = X.assign(c=pd.Categorical(X["c"].cat.codes + 5))
    model = xgboost.XGBRegressor(**SMALL).fit(numbered, y)
    turned = numbered.assign(c=pd.Categorical(numbered["c"], [10, 9, 8, 7, 6, 5]))
    read = tpnn.read(model, turned)
    assert gap(model.predict(numbered), read.raw_scores(numbered)) < SINGLE_SUM


def test_early_stopping():
    model = xgboost.XGBRegressor(**SMALL, early_stopping_rounds=2, learning_rate=1.0)
    model.fit(X, y, eval_set=[(X[::2], -y[::2])], verbose=False)
    assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    assert gap(model.predict(X), tpnn.read(model, X).raw_scores(X)) < SINGLE_SUM


def test_several_targets():
    both = np.column_stack([y, y**2])
    numbers = X[["a", "b", "d"]]
    model = xgboost.XGBRegressor(n_estimators=10, max_depth=3).fit(numbers, both)
    assert gap(model.predict(numbers), tpnn.read(model, numbers).raw_scores(numbers)) < SINGLE_SUM
    shared = xgboost.XGBRegressor(n_estimators=2, multi_strategy="multi_output_tree")
    with pytest.raises(ValueError, match=r"several outputs in each leaf.*one_output_per_tree"):
        tpnn.read(shared.fit(numbers, both), numbers)


def test_what_cannot_be_read():
    linear = xgboost.XGBRegressor(booster="gblinear", n_estimators=2).fit(X[["b", "d"]], y)
    with pytest.raises(ValueError, match=r"is linear.*booster='gbtree'"):
        tpnn.read(linear, X)
    coded = xgboost.XGBRegressor(n_estimators=2, missing=-1.0).fit(X[["b", "d"]], y)
    with pytest.raises(ValueError, match=r"takes -1.0 for a missing value.*set_params"):
        tpnn.read(coded, X)
    hinge = xgboost.XGBClassifier(n_estimators=2, objective="binary:hinge").fit(X[["b"]], y > 0)
    with pytest.raises(ValueError, match="objective 'binary:hinge' is not known"):
        tpnn.read(hinge, X)
