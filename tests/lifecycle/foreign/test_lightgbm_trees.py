"""Models of LightGBM have the same raw scores as components and remainder."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import tpnn
from tests.lifecycle.foreign.rows import gap, near, target, training, unlike

lightgbm = pytest.importorskip(
    "lightgbm", reason="lightgbm is not installed, see the group dev of pyproject.toml"
)
X = training()
y = target(X)
SMALL = {"n_estimators": 30, "num_leaves": 12, "min_child_samples": 5, "verbose": -1}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"zero_as_missing": True},
        {"use_missing": False},
        {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
        {"boosting_type": "dart"},
        {"max_cat_to_onehot": 1, "min_data_per_group": 5},
    ],
)
def test_raw_scores_are_those_of_lightgbm(settings):
    model = lightgbm.LGBMRegressor(**SMALL, **settings).fit(X, y)
    read = tpnn.read(model, X)
    other = unlike()
    other.loc[::4, ["a", "b"]] = 0.0
    other["c"] = pd.Categorical(other["c"].astype(object).where(np.arange(len(other)) % 6 > 0, "q"))
    other.loc[::11, "c"] = np.nan
    ends = read.encoder.axes[1][0].values
    for rows in (X, other, near(ends, other, "a")):
        assert gap(model.predict(rows), read.raw_scores(rows)) < 1e-12
    assert read.identifiability_error() < 1e-12


def test_zeros_have_a_size():
    """Numbers of at most 1e-35 are zeros, on either side of a threshold between them."""
    x = np.where(np.arange(200) % 2, 0.0, np.linspace(-1, 1, 200))[:, None]
    for settings in ({}, {"zero_as_missing": True}):
        model = lightgbm.LGBMRegressor(**SMALL, **settings).fit(
            x, (x[:, 0] > 0) - 3.0 * (x[:, 0] < 0)
        )
        size = np.float64(np.float32(1e-35))
        edges = np.array([0.0, size, np.nextafter(size, 1), 1e-36, 1e-34])
        rows = np.concatenate([edges, -edges])[:, None]
        found = tpnn.read(model, x).raw_scores(rows)
        np.testing.assert_allclose(found, model.predict(rows), atol=1e-12)


def test_classes_and_weights():
    weights = np.linspace(0.1, 2, len(X))
    labels = np.array(["high", "low", "mid"])[np.digitize(y, [0, 1.5])]
    model = lightgbm.LGBMClassifier(**SMALL).fit(X, labels, sample_weight=weights)
    read = tpnn.read(model, X, weights)
    other = unlike()
    assert read.classes == ("high", "low", "mid")
    assert gap(model.predict(other, raw_score=True), read.raw_scores(other)) < 1e-12
    np.testing.assert_allclose(read.predict(other), model.predict_proba(other), atol=1e-12)
    two = lightgbm.LGBMClassifier(**SMALL).fit(X, y > 0)
    read = tpnn.read(two, X)
    np.testing.assert_allclose(read.predict(other), two.predict_proba(other)[:, 1], atol=1e-12)


def test_a_booster_of_an_array_with_numbered_levels():
    rows = X.assign(c=X["c"].cat.codes).to_numpy(np.float64)
    data = lightgbm.Dataset(rows, y, categorical_feature=[2])
    booster = lightgbm.train({"verbose": -1, "min_data_per_group": 5}, data, 20)
    other = unlike().assign(c=np.resize([0, 1, 5, 9, -1, np.nan], 300)).to_numpy(np.float64)
    assert gap(booster.predict(other), tpnn.read(booster, rows).raw_scores(other)) < 1e-12
    named = tpnn.read(
        booster, X.assign(c=X["c"].cat.codes)
    )  # whose names the booster does not know
    assert named.feature_names == ("a", "b", "c", "d")


def test_early_stopping_and_blanks_in_names():
    renamed = X.rename(columns={"a": "a b"})
    stop = lightgbm.early_stopping(2, verbose=False)
    data = lightgbm.Dataset(renamed, y)
    other = lightgbm.Dataset(renamed[::2], -y[::2], reference=data)
    settings = {"verbose": -1, "learning_rate": 0.5}
    booster = lightgbm.train(
        settings, data, 200, valid_sets=[other], callbacks=[stop], keep_training_booster=True
    )
    assert booster.best_iteration < booster.current_iteration()
    read = tpnn.read(booster, renamed)
    assert "a b" in read.feature_names
    assert gap(booster.predict(renamed), read.raw_scores(renamed)) < 1e-12


def test_what_cannot_be_read():
    linear = lightgbm.LGBMRegressor(**SMALL, linear_tree=True).fit(X[["b", "d"]], y)
    with pytest.raises(ValueError, match=r"linear functions in its leaves.*linear_tree=False"):
        tpnn.read(linear, X)
    model = lightgbm.LGBMRegressor(**SMALL).fit(X, y)
    with pytest.raises(ValueError, match=r"^X: the model was fitted to 1 columns of categories"):
        tpnn.read(model, X.assign(c=X["c"].cat.codes))


def test_objectives_without_a_known_link():
    steep = lightgbm.LGBMClassifier(**SMALL, sigmoid=2.0).fit(X, y > 0)
    with pytest.raises(ValueError, match="link of its objective 'binary sigmoid:2' is not known"):
        tpnn.read(steep, X)
    own = lightgbm.LGBMRegressor(**SMALL, objective=lambda y, f: (f - y, np.ones_like(f))).fit(X, y)
    with pytest.raises(ValueError, match="objective 'custom' is not known"):
        tpnn.read(own, X)
    assert gap(own.predict(X), tpnn.read(own, X, link="identity").raw_scores(X)) < 1e-12
    roots = lightgbm.LGBMRegressor(**SMALL, reg_sqrt=True).fit(X, y)
    with pytest.raises(ValueError, match="objective 'regression sqrt' is not known"):
        tpnn.read(roots, X)
