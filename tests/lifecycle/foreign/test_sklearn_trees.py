"""Trees of scikit-learn have the same raw scores as components and remainder."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import tpnn
from tests.lifecycle.foreign.rows import gap, near, target, training, unlike

X = training()
y = target(X)
labels = np.array(["low", "mid", "top"])[np.digitize(y, [0, 1.5])]
NUMBERS = ["a", "b", "d"]
FULL = X[NUMBERS].fillna(0.0)


@pytest.mark.parametrize("settings", [{}, {"loss": "poisson", "early_stopping": True}])
def test_histogram_boosting(settings):
    model = HistGradientBoostingRegressor(max_iter=30, random_state=0, **settings)
    model.fit(X, np.abs(y))
    read, other = tpnn.read(model, X), unlike()
    other["c"] = pd.Categorical(other["c"].astype(object).where(np.arange(300) % 6 > 0, "new"))
    other.loc[::11, "c"] = np.nan
    for rows in (X, other, near(read.encoder.axes[1][0].values, other, "a")):
        expected = model.predict(rows)
        assert gap(expected, read.predict(rows)) < 1e-12
    assert read.identifiability_error() < 1e-12


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_of_histogram_boosting(n_classes):
    own = labels if n_classes == 3 else y > 0
    weights = np.linspace(0.1, 2, len(X))
    model = HistGradientBoostingClassifier(max_iter=20, random_state=0)
    model.fit(X, own, sample_weight=weights)
    read, other = tpnn.read(model, X, weights), unlike()
    assert gap(model.decision_function(other), read.raw_scores(other)) < 1e-12
    np.testing.assert_allclose(read.predict_proba(other), model.predict_proba(other), atol=1e-12)


def test_none_may_be_a_level():
    """Where columns of objects have None, scikit-learn counts it among the levels."""
    rows = X[["b"]].assign(c=X["c"].astype(object))
    rows.loc[::4, "c"] = None
    model = HistGradientBoostingRegressor(max_iter=20, categorical_features=["c"])
    model.fit(rows, y - 2 * rows["c"].isna())
    other = rows.assign(c=np.resize(["x", None, "new"], len(rows)))
    for measure in (rows, other):
        read = tpnn.read(model, measure)
        assert gap(model.predict(rows), read.raw_scores(rows)) < 1e-12
        assert gap(model.predict(other), read.raw_scores(other)) < 1e-12


def test_levels_by_position():
    rows = X.assign(c=X["c"].cat.codes).to_numpy(np.float64)
    model = HistGradientBoostingRegressor(max_iter=20, categorical_features=[2]).fit(rows, y)
    other = unlike().assign(c=np.resize([0, 1, 5, 9, np.nan], 300)).to_numpy(np.float64)
    assert gap(model.predict(other), tpnn.read(model, rows).raw_scores(other)) < 1e-12


@pytest.mark.parametrize("settings", [{}, {"loss": "huber"}, {"init": "zero", "subsample": 0.5}])
def test_gradient_boosting(settings):
    model = GradientBoostingRegressor(n_estimators=20, max_depth=4, random_state=0, **settings)
    model.fit(FULL, y)
    read, other = tpnn.read(model, FULL), unlike()[NUMBERS].fillna(0.3)
    ends = read.encoder.axes[1][0].values
    for rows in (other, near(ends, other, "a"), near(ends.astype(np.float32), other, "a")):
        assert gap(model.predict(rows), read.raw_scores(rows)) < 1e-12


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_of_gradient_boosting(n_classes):
    own = labels if n_classes == 3 else y > 0
    model = GradientBoostingClassifier(n_estimators=10, random_state=0).fit(FULL, own)
    read, other = tpnn.read(model, FULL), unlike()[NUMBERS].fillna(0.3)
    assert gap(model.decision_function(other), read.raw_scores(other)) < 1e-12
    np.testing.assert_allclose(read.predict_proba(other), model.predict_proba(other), atol=1e-12)


@pytest.mark.parametrize(
    "model",
    [
        RandomForestRegressor(n_estimators=10, max_depth=6, random_state=0),
        ExtraTreesRegressor(n_estimators=10, max_depth=6, random_state=0),
        DecisionTreeRegressor(max_depth=6, random_state=0),
    ],
)
def test_means_of_forests(model):
    own, other = X[NUMBERS], unlike()[NUMBERS]
    read = tpnn.read(model.fit(own, y), own)
    ends = read.encoder.axes[1][0].values
    for rows in (other, near(ends, other, "a"), near(ends.astype(np.float32), other, "a")):
        assert gap(model.predict(rows), read.raw_scores(rows)) < 1e-12
    both = tpnn.read(model.fit(own, np.column_stack([y, y**2])), own)
    assert gap(model.predict(other), both.raw_scores(other)) < 1e-12


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(n_estimators=10, max_depth=6, random_state=0),
        ExtraTreesClassifier(n_estimators=10, max_depth=6, random_state=0),
        DecisionTreeClassifier(max_depth=6, random_state=0, class_weight="balanced"),
    ],
)
def test_probabilities_of_forests(model):
    own, other = X[NUMBERS], unlike()[NUMBERS]
    read = tpnn.read(model.fit(own, labels), own)
    assert read.output_names == ("low", "mid", "top")
    np.testing.assert_allclose(read.raw_scores(other), model.predict_proba(other), atol=1e-12)
    read = tpnn.read(model.fit(own, y > 0), own)
    np.testing.assert_allclose(read.raw_scores(other), model.predict_proba(other)[:, 1], atol=1e-12)


def test_what_cannot_be_read():
    begun = GradientBoostingRegressor(n_estimators=2, init=LinearRegression()).fit(FULL, y)
    with pytest.raises(ValueError, match=r"begins with another model.*without init"):
        tpnn.read(begun, FULL)
    steep = GradientBoostingClassifier(n_estimators=2, loss="exponential").fit(FULL, y > 0)
    with pytest.raises(ValueError, match="objective 'exponential' is not known"):
        tpnn.read(steep, FULL)
    two = DecisionTreeClassifier(max_depth=2).fit(FULL, np.column_stack([y > 0, y > 1]))
    with pytest.raises(ValueError, match="several targets with classes"):
        tpnn.read(two, FULL)
