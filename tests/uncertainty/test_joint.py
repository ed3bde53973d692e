"""Joint tests of several components, nested fits and Akaike's criterion."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from tests.uncertainty.problems import solved
from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival, compare
from tpnn.loss.objectives import resolve
from tpnn.solvers.grow.solver import Grow
from tpnn.solvers.solution import Limits
from tpnn.uncertainty import linear_model
from tpnn.uncertainty.deviance import minus_two_log_likelihood
from tpnn.uncertainty.recipe import joint_test

FAST: Any = {"n_bags": 2, "random_state": 0, "solver": Grow(growth="none")}
N = 300


def rows(seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(N, 4)), columns=[*"abcd"])
    return X, (np.sin(X["a"]) + 0.3 * X["b"] + rng.normal(size=N)).to_numpy()


def test_the_test_of_one_component_is_that_of_the_summary() -> None:
    X, y = rows(0)
    model = TPNNRegressor(order=1, **FAST).fit(X, y)
    lines = {line.component: line for line in model.model_.summary().lines}
    for name in X:
        found = model.test([name])
        assert found.p_value == pytest.approx(lines[name].p_value, rel=1e-6)
        assert found.degrees == pytest.approx(lines[name].edf, rel=1e-6)


def test_copies_that_are_nothing_alone_are_something_together() -> None:
    X, y = rows(1)
    model = TPNNRegressor(order=1, **FAST).fit(X.assign(copy=X["b"]), y)
    alone = [model.test([name]).p_value for name in ("b", "copy")]
    assert min(alone) > 100 * model.test(["b", "copy"]).p_value


def test_joint_p_values_are_uniform_where_nothing_is() -> None:
    found = []
    for seed in range(40):
        X, y = rows(seed)
        components = [("a",), ("b",), ("c",), ("d",), ("c", "d")]
        model = TPNNRegressor(components=components, **FAST).fit(X, y)
        found.append(model.test(["c", "d", ("d", "c")]).p_value)
    assert stats.kstest(found, "uniform").pvalue > 0.001


def test_components_of_different_groups_are_tested_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows(2)
    found = solved(TPNNRegressor(order=2, interactions="all", **FAST), X, y)
    tested, given = [(2, 3), (0, 1)], (found.problem, found.solution)
    exact = joint_test(*given, tested, Limits())
    monkeypatch.setattr(linear_model, "MOST_FUNCTIONS", 120)
    apart = joint_test(*given, tested, Limits())
    assert math.log(apart.p_value) == pytest.approx(math.log(exact.p_value), abs=0.7)
    assert apart.degrees == pytest.approx(exact.degrees, rel=0.3)


def test_nested_fits_have_the_joint_test_of_what_one_lacks() -> None:
    X, y = rows(3)
    both = {
        name: TPNNRegressor(components=components, **FAST).fit(X, y)
        for name, components in {
            "large": [("a",), ("b",), ("c",), ("a", "b")], "small": [("a",), ("c",)],
        }.items()
    }  # fmt: skip
    frame = compare(both, X).nested
    assert list(frame.index) == ["large", "small"]
    assert frame.loc["small", "p_value"] == both["large"].test(["b", ("a", "b")]).p_value < 0.05
    assert math.isnan(frame.loc["large", "p_value"])
    assert frame.loc["large", "aic"] < frame.loc["small", "aic"]
    assert f"{frame.loc['large', 'aic']:.6g}" in str(both["large"].model_.summary())
    loaded = {name: model.model_ for name, model in both.items()}
    assert compare(loaded, X).nested["p_value"].isna().all()  # the rows are not there
    gone = pickle.loads(pickle.dumps(both["large"]))
    assert compare(both | {"large": gone}, X).nested["p_value"].isna().all()
    for settings, target, words in [
        ({"order": 1}, -y, "needs two fits to the same rows"),
        (
            {"components": [("a",), ("b",)]},
            y,
            "one fit must have all .* found 1 that .* and 1 that",
        ),
        ({"order": 1, "bands": False}, y, "needs fits with an AIC, .* none of 'other'"),
        ({"order": 1, "shapes": {"b": "linear"}}, y, "needs fits with an AIC, .* none of 'other'"),
    ]:
        other = TPNNRegressor(**FAST, **settings).fit(X, target)
        with pytest.raises(ValueError, match=rf"^nested: {words}"):
            _ = compare({"one": both["small"], "other": other}, X).nested


def test_nested_fits_have_no_p_value_for_what_was_searched() -> None:
    X, y = rows(3)
    y = y + 2 * X["a"] * X["b"]
    found = TPNNRegressor(order=2, max_components=5, **FAST).fit(X, y)
    mains = TPNNRegressor(components=[("a",), ("b",)], **FAST).fit(X, y)
    assert ("a", "b") in found.components_
    assert compare({"mains": mains, "found": found}, X).nested["p_value"].isna().all()
    every = TPNNRegressor(order=2, interactions="all", **FAST).fit(X, y)
    frame = compare({"mains": mains, "every": every}, X).nested
    assert frame.loc["mains", "p_value"] < 1e-6


def test_what_cannot_be_tested_says_so() -> None:
    X, y = rows(4)
    model = TPNNRegressor(order=1, **FAST).fit(X, y)
    with pytest.raises(ValueError, match=r"^test: needs components, found none"):
        model.test([])
    with pytest.raises(ValueError, match=r"^test: needs the training rows"):
        pickle.loads(pickle.dumps(model)).test(["a"])
    with pytest.raises(ValueError, match=r"^test: needs a fit with bands"):
        TPNNRegressor(order=1, bands=False, **FAST).fit(X, y).test(["a"])
    handful = TPNNRegressor(order=1, **FAST).fit(X[:6], y[:6])
    with pytest.raises(ValueError, match=r"^test: needs a fit with bands, found 'no bands: 6 rows"):
        handful.test(["a"])


@pytest.mark.parametrize("objective", ["poisson", "gamma", "negative_binomial", "squared_error"])
def test_the_likelihood_is_that_of_scipy(objective: str) -> None:
    rng = np.random.default_rng(5)
    raw, masses = rng.normal(size=(50, 1)), rng.integers(1, 4, (50, 1)).astype(float)
    loss, mean = resolve(objective, 1), np.exp(raw)
    if objective == "squared_error":
        y = raw + rng.normal(size=(50, 1))
        variance = (masses * (y - raw) ** 2).sum() / masses.sum()
        logs = stats.norm(raw, np.sqrt(variance)).logpdf(y)
    elif objective == "gamma":
        y = rng.gamma(2, mean / 2)
        shape = masses.sum() / (masses * loss.reported().losses(y, raw)).sum()
        logs = stats.gamma(shape, scale=mean / shape).logpdf(y)
    else:
        y = rng.poisson(mean).astype(float)
        a = loss.dispersion
        law = stats.poisson(mean) if a is None else stats.nbinom(1 / a, 1 / (1 + a * mean))
        logs = law.logpmf(y)
    found = minus_two_log_likelihood(loss, y, raw, masses)
    assert found == pytest.approx(-2 * float((masses * logs).sum()))


def test_deviance_is_that_of_the_posterior_mean_and_losses_without_likelihood_have_none() -> None:
    X, y = rows(6)
    model = TPNNRegressor(order=1, **FAST).fit(X, y).model_
    assert model.evidence.tests is not None
    fit = model.evidence.tests.fit
    assert fit is not None
    squares = float(((y - model.predict(X)) ** 2).sum())
    assert fit.deviance == pytest.approx(squares, rel=0.02)
    edf = sum(line.edf for line in model.summary().lines)
    assert (fit.n_rows, fit.degrees) == (N, pytest.approx(edf + 1))
    aic = N * (np.log(2 * np.pi * fit.deviance / N) + 1) + 2 * (fit.degrees + 1)
    assert fit.aic == pytest.approx(aic)
    lives = np.column_stack([np.exp(-y), X["c"] < 1])
    for estimator, target in [
        (TPNNClassifier(order=1, **FAST), y > 0),
        (TPNNClassifier(order=1, **FAST), np.digitize(y, [-1, 1])),
        (TPNNSurvival(order=1, **FAST), lives),
    ]:
        found = estimator.fit(X, target).model_.evidence.tests.fit
        constants = {2: 1, 3: 2}.get(len(np.unique(target)), 0)
        edf = sum(test.degrees for test in estimator.model_.evidence.tests.components)
        assert found.degrees == pytest.approx(edf + constants)
        assert found.aic == pytest.approx(found.deviance + 2 * found.degrees)
    huber = TPNNRegressor(order=1, objective="huber", **FAST).fit(X, y).model_.evidence.tests
    assert huber is not None
    assert huber.fit is None
