"""Sobol indices beside closed forms and SALib, under given distributions, and their intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from tests.models import random_model
from tpnn import AnovaModel, TPNNRegressor, purify

A, B = 7.0, 0.1
QUICK: dict[str, Any] = {"n_bags": 4, "verbose": 0}


def ishigami_parts(x1: Any, x2: Any, x3: Any) -> tuple[Any, Any, Any]:
    return np.sin(x1), A * np.sin(x2) ** 2, B * x3**4 * np.sin(x1)


def quantiles(distribution: Any, n_rows: int = 4000) -> np.ndarray:
    return np.asarray(distribution.ppf((np.arange(n_rows) + 0.5) / n_rows))


@pytest.fixture(scope="module")
def ishigami() -> AnovaModel:
    """The function on a grid, linear between its nodes, under masses that are far from uniform."""
    nodes = np.linspace(-np.pi, np.pi, 161)
    one, two, both = ishigami_parts(nodes[:, None], nodes[:, None], nodes[None, :])
    tables = {("x1",): one[:, 0], ("x2",): two[:, 0], ("x1", "x3"): both}
    grids = dict.fromkeys(("x1", "x2", "x3"), nodes)
    rows = np.random.default_rng(0).beta(2, 5, (500, 3)) * 2 * np.pi - np.pi
    return purify(purify(tables, nodes=grids), X=pd.DataFrame(rows, columns=["x1", "x2", "x3"]))


def test_given_uniform_inputs_the_indices_are_those_of_the_books(ishigami: AnovaModel) -> None:
    uniform = quantiles(stats.uniform(-np.pi, 2 * np.pi))
    given = purify(ishigami, X=pd.DataFrame(dict.fromkeys(("x1", "x2", "x3"), uniform)))
    first, second = 0.5 * (1 + B * np.pi**4 / 5) ** 2, A**2 / 8
    together = B**2 * np.pi**8 * (1 / 18 - 1 / 50)
    total = first + second + together
    shares, indices = given.explain().sobol(), given.explain().sobol_indices()
    assert shares["x1",] == pytest.approx(first / total, abs=2e-3)
    assert shares["x2",] == pytest.approx(second / total, abs=2e-3)
    assert shares["x1", "x3"] == pytest.approx(together / total, abs=2e-3)
    assert indices["x1"].total == pytest.approx((first + together) / total, abs=2e-3)
    assert indices["x3"].main == pytest.approx(0, abs=2e-3)


def test_given_other_inputs_the_shares_are_those_of_the_moments(ishigami: AnovaModel) -> None:
    """Var E[f | x2] and the rest by sums over quantiles, for inputs that are cut normals."""
    values = quantiles(stats.truncnorm(-np.pi, np.pi), 1000)
    given = purify(ishigami, X=pd.DataFrame(dict.fromkeys(("x1", "x2", "x3"), values)))
    one, two, _ = ishigami_parts(values, values, values)
    power = B * values**4
    first = (1 + power.mean()) ** 2 * one.var()  # E[sin x1] is zero
    together = power.var() * one.var()
    total = first + two.var() + together
    shares = given.explain().sobol()
    assert shares["x1",] == pytest.approx(first / total, abs=3e-3)
    assert shares["x2",] == pytest.approx(two.var() / total, abs=3e-3)
    assert shares["x1", "x3"] == pytest.approx(together / total, abs=3e-3)


def test_salib_agrees(ishigami: AnovaModel) -> None:
    sobol = pytest.importorskip("SALib.analyze.sobol")
    sample = pytest.importorskip("SALib.sample.sobol")
    names = ["x1", "x2", "x3"]
    problem = {"num_vars": 3, "names": names, "bounds": [[-np.pi, np.pi]] * 3}
    X = sample.sample(problem, 1024, seed=0)
    found = sobol.analyze(problem, ishigami.raw_scores(X), seed=0)
    uniform = quantiles(stats.uniform(-np.pi, 2 * np.pi))
    given = purify(ishigami, X=pd.DataFrame(dict.fromkeys(names, uniform))).explain()
    for j, name in enumerate(names):
        index = given.sobol_indices()[name]
        assert abs(index.main - found["S1"][j]) < 2 * found["S1_conf"][j] + 0.01
        assert abs(index.total - found["ST"][j]) < 2 * found["ST_conf"][j] + 0.01
    assert abs(given.sobol()["x1", "x3"] - found["S2"][0, 2]) < 2 * found["S2_conf"][0, 2] + 0.01


def test_intervals_hold_the_truth() -> None:
    """The components of x1 + 2 x2 + 3 x1 x2 under the marginals of the rows, in closed form.

    In 150 intervals of 30 such tables 88 % held the truth. Slopes of least squares would give the
    share of x1 the standard error 0.0136, by the delta method.
    """
    held, n_all, reaches = 0, 0, []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame(rng.random((600, 2)) - 0.5, columns=["x1", "x2"])
        y = X["x1"] + 2 * X["x2"] + 3 * X["x1"] * X["x2"] + 0.3 * rng.normal(size=600)
        model = TPNNRegressor(order=2, random_state=seed, **QUICK).fit(X, y)
        (one, two), (v1, v2) = X.mean(), X.var(ddof=0)
        parts = np.array([(1 + 3 * two) ** 2 * v1, (2 + 3 * one) ** 2 * v2, 9 * v1 * v2])
        first, second, both = parts / parts.sum()
        truth: dict[Any, float] = {("x1",): first, ("x2",): second, ("x1", "x2"): both}
        truth |= {"x1": first + both, "x2": second + both}
        explanation = model.explain()
        intervals, shares = explanation.sobol_intervals(), explanation.sobol()
        for key, value in truth.items():
            low, high = intervals[key]
            held, n_all = held + (low <= value <= high), n_all + 1
            assert 0 <= low <= high <= 1
        for names, share in shares.items():
            assert intervals[names][0] <= share <= intervals[names][1]
        reaches.append((intervals["x1",][1] - intervals["x1",][0]) / 2)
    assert held >= 0.7 * n_all
    assert 0.75 < np.mean(reaches) / (1.96 * 0.0136) < 1.35


def test_without_bands_there_are_none() -> None:
    with pytest.raises(ValueError, match="sobol_intervals: this model or component has no bands"):
        random_model(2, 2).explain().sobol_intervals()
