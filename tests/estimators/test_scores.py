"""Scores by objective: the share of the loss that was fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import d2_tweedie_score, r2_score
from sklearn.model_selection import cross_val_score

from tests.conftest import QUICK
from tpnn import TPNNRegressor, load
from tpnn.explain.metrics import measure


@pytest.mark.parametrize(
    ("objective", "power"),
    [("poisson", 1), ("gamma", 2), ("tweedie", 1.5), ({"name": "tweedie", "power": 1.2}, 1.2)],
)
def test_deviances_score_d2(objective: Any, power: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = rng.gamma(2.0, np.exp(X[:, 0]))
    weights = rng.uniform(0.5, 2.0, 300)
    model = TPNNRegressor(objective=objective, **QUICK).fit(X, y)
    expected = d2_tweedie_score(y, model.predict(X), sample_weight=weights, power=power)
    assert model.score(X, y, weights) == pytest.approx(expected)
    assert model.score(X, y, weights) != pytest.approx(r2_score(y, model.predict(X)))


def test_an_exposure_is_no_skill() -> None:
    """A model of noise explains nothing, and score and the report say the same of any model."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"noise": rng.normal(size=4000), "years": rng.uniform(0.05, 1, 4000)})
    for slope, least, most in ((0.0, -0.01, 0.01), (1.0, 0.05, 0.9)):
        y = rng.poisson(0.5 * X.years * np.exp(slope * X.noise))
        model = TPNNRegressor(objective="poisson", exposure="years", **QUICK).fit(
            X[:2000], y[:2000]
        )
        score, scores = model.score(X[2000:], y[2000:]), measure(model.model_, X[2000:], y[2000:])
        reported = {one.name: one.value for one in scores.scores}
        assert least < score < most
        assert score == pytest.approx(reported["Share of the deviance explained"])


def test_cross_validation_that_scores_without_the_offset_warns(tmp_path: Any) -> None:
    rng = np.random.default_rng(1)
    X, offset = rng.normal(size=(200, 2)), rng.normal(size=200)
    y = rng.poisson(np.exp(offset + 0.3 * X[:, 0]))
    model = TPNNRegressor(objective="poisson", **QUICK)
    with pytest.warns(UserWarning, match=r"^offset: this model was fitted with an offset"):
        cross_val_score(model, X, y, params={"offset": offset}, cv=2)
    model.fit(X, y, offset=offset).model_.save(tmp_path / "saved")
    with pytest.warns(UserWarning, match=r"^offset: "):
        load(tmp_path / "saved").model_.predict(X)


@pytest.mark.parametrize("unit", [2.0**-900, 2.0**1000])
@pytest.mark.parametrize("objective", ["squared_error", {"name": "quantile", "levels": [0.2, 0.7]}])
def test_a_score_does_not_depend_on_the_unit(unit: float, objective: Any) -> None:
    """Squares of numbers of this size overflow, or are all zero."""
    rng = np.random.default_rng(2)
    X, weights = rng.normal(size=(100, 2)), rng.uniform(0.5, 2.0, 100)
    y = X[:, 0] + rng.normal(size=100)
    model = TPNNRegressor(objective=objective, **QUICK)
    expected = model.fit(X, y).score(X, y, weights)
    assert model.fit(X, unit * y).score(X, unit * y, weights) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("objective", ["squared_error", "absolute_error"])
def test_targets_whose_differences_are_no_numbers(objective: str) -> None:
    X = np.random.default_rng(3).normal(size=(60, 2))
    y = np.where(X[:, 0] > 0, 1.7e308, -1.7e308)
    with pytest.raises(ValueError, match=r"^y: differences of targets, .* below 1.8e\+308, found"):
        TPNNRegressor(objective=objective, **QUICK).fit(X, y)
    with pytest.raises(ValueError, match=r"^y: differences of targets, without their offsets"):
        TPNNRegressor(objective=objective, **QUICK).fit(X, y / 2, offset=-y)
