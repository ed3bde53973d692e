"""Tests that can be trusted: rare levels, copies of a feature, many features of few rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import tpnn
from tpnn import TPNNRegressor
from tpnn.solvers.grow.solver import Grow
from tpnn.uncertainty.equations import ByFunctions
from tpnn.uncertainty.linear_model import p_value

FAST: Any = {"n_bags": 2, "random_state": 0, "solver": Grow(growth="none")}


@pytest.mark.parametrize("seed", range(3))
def test_a_rare_level_that_carries_the_effect_is_seen(seed: int) -> None:
    rng, n = np.random.default_rng(seed), 5000
    shares = [0.4, 0.25, 0.15, 0.1, 0.05, 0.035, 0.015]
    X = pd.DataFrame({"k": rng.choice([*"abcdefg"], n, p=shares)})
    y = 1.0 * (X["k"] == "g").to_numpy() + rng.normal(size=n)
    (line,) = TPNNRegressor(order=1, **FAST).fit(X, y).model_.summary().lines
    within = y - pd.Series(y).groupby(X["k"]).transform("mean").to_numpy()
    ratio = stats.chi2.sf(n * np.log(y.var() / within.var()), 6)
    assert ratio < 1e-5
    assert np.log(line.p_value) < 0.8 * np.log(ratio)


def test_p_values_of_levels_are_uniform_where_nothing_is() -> None:
    rng = np.random.default_rng(0)
    levels = rng.choice(8, 400, p=[0.4, 0.2, 0.15, 0.1, 0.06, 0.04, 0.03, 0.02])
    X = np.eye(8)[levels] * np.sqrt([0.4, 0.2, 0.15, 0.1, 0.06, 0.04, 0.03, 0.02])
    X -= X.mean(0)
    found = []
    for _ in range(1500):
        posterior = ByFunctions(X.T @ X, X.T @ rng.normal(size=400)).solved(np.full(8, 5.0))
        found.append(p_value(posterior, are_levels=True))
    for level in (0.01, 0.05, 0.1, 0.5):
        error = np.sqrt(level * (1 - level) / len(found))
        assert np.mean(np.array(found) < level) == pytest.approx(level, abs=4 * error)


def test_levels_of_which_nothing_is_known_have_a_p_value_of_one() -> None:
    nothing = ByFunctions(np.zeros((3, 3)), np.zeros(3)).solved(np.ones(3))
    assert p_value(nothing, are_levels=True) == p_value(nothing) == 1


def test_copies_of_a_feature_are_redundant_and_named(tmp_path: Any) -> None:
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"cm": rng.normal(size=400), "age": rng.normal(size=400)})
    X["inch"] = X["cm"] / 2.54
    y = np.sin(X["cm"]) + X["age"] + rng.normal(size=400)
    components = [("cm",), ("age",), ("inch",), ("cm", "age"), ("inch", "age")]
    model = TPNNRegressor(components=components, **FAST).fit(X, y)
    model.model_.save(tmp_path / "model.tpnn")
    for one in (model.model_, tpnn.load(tmp_path / "model.tpnn")):
        lines = {line.component: line.p_value for line in one.summary().lines}
        assert {name for name, p in lines.items() if p == 1} == set(lines) - {"age"}
        (note,) = (note for note in one.summary().notes if note.startswith("copies"))
        assert note.startswith("copies: cm and inch say the same in all rows")
    assert model.test(["cm", "inch"]).p_value < 1e-10
    one = TPNNRegressor(components=[("cm",), ("age",)], **FAST).fit(X, y).model_.summary()
    assert not any("copies" in note for note in one.notes)  # the other one is not in the model
    alone = TPNNRegressor(order=1, **FAST).fit(X[["cm", "age"]], y).model_.summary()
    assert not any("copies" in note for note in alone.notes)
    assert max(line.p_value for line in alone.lines) < 1e-10


def test_p_values_of_many_features_of_few_rows_are_uniform() -> None:
    found: list[float] = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, noise = rng.normal(size=(300, 23)), rng.normal(size=300)
        y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.4 * X[:, 2] ** 2 + noise
        lines = TPNNRegressor(order=1, **FAST).fit(X, y).model_.summary().lines
        found += [line.p_value for line in lines if line.component not in ("x0", "x1", "x2")]
    assert stats.kstest(found, "uniform").pvalue > 0.001
    assert 0.01 < np.mean(np.array(found) < 0.05) < 0.1
