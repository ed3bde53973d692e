"""Contrasts: differences of values and of groups of rows, beside bands, scores and known truths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import QUICK
from tests.models import random_model
from tpnn import TPNNClassifier, TPNNRegressor
from tpnn.explain.contributions import Contrast
from tpnn.solvers.grow.solver import Grow

FAST: Any = {"n_bags": 4, "random_state": 0, "solver": Grow(growth="none"), "order": 1}


def table(n_rows: int, seed: int, rho: float = 0.6) -> tuple[pd.DataFrame, np.ndarray]:
    """Correlated numbers and a treatment that is given more often where ``a`` is large."""
    rng = np.random.default_rng(seed)
    normal = rng.multivariate_normal(np.zeros(3), rho + (1 - rho) * np.eye(3), n_rows)
    X = pd.DataFrame(normal, columns=["a", "b", "nothing"])
    X["treatment"] = np.where(X["a"] + rng.normal(size=n_rows) > 0, "B", "A")
    f = np.sin(X["a"]) + 0.5 * X["b"] + 0.4 * (X["treatment"] == "B")
    return X, f.to_numpy()


@pytest.fixture(scope="module")
def odds() -> TPNNClassifier:
    X, f = table(600, 0)
    y = np.random.default_rng(1).random(600) < 1 / (1 + np.exp(-f))
    return TPNNClassifier(**QUICK).fit(X, y)


def test_levels_differ_as_their_effects_do(odds: Any) -> None:
    """The response scale, which is computed on all nodes, has the same ratios and intervals."""
    explanation = odds.explain()
    found = explanation.contrast("treatment", "B", "A", level=0.9)
    frame = explanation.component("treatment").to_frame("response", "A", level=0.9)
    line = frame.set_index("treatment").loc["B"]
    expected = [line["effect"], line["lower"], line["upper"]]
    assert [found.ratio, found.ratio_lower, found.ratio_upper] == pytest.approx(expected)
    assert np.log(expected) == pytest.approx([found.difference, found.lower, found.upper])
    back = explanation.contrast("treatment", "A", "B", level=0.9)
    assert back.difference == pytest.approx(-found.difference)
    assert (back.error, back.p_value) == pytest.approx((found.error, found.p_value))


def test_values_of_a_number_differ_as_their_effects_do(odds: Any) -> None:
    explanation = odds.explain()
    for reference in (-0.3, 0.4321):  # between nodes too
        frame = explanation.component("b").to_frame("response", reference, level=0.95)
        at = len(frame) - 3
        found = explanation.contrast("b", frame["b"][at], reference)
        expected = frame.iloc[at][["effect", "lower", "upper"]].to_list()
        assert list(found[4:7]) == pytest.approx(expected)


def test_rows_differ_as_their_scores_do(odds: Any) -> None:
    X, _ = table(50, 3)
    explanation, raw = odds.explain(), odds.decision_function(X)
    found = explanation.contrast(X[:20], X[20:])
    assert found.difference == pytest.approx(raw[:20].mean() - raw[20:].mean())
    assert found.lower < found.difference < found.upper
    same = explanation.contrast(X[:20], X[:20])
    assert same == pytest.approx(Contrast(0, 0, 0, 0, 1, 1, 1, 1), abs=1e-9)


def test_rows_of_a_model_with_a_remainder() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 6, (500, 4)).astype(float), columns=list("abcd"))
    y = X["a"] * X["b"] / 5 + (X["c"] > X["d"]) * X["a"] + rng.normal(size=500)
    deep = {name: QUICK[name] for name in ("n_bags", "random_state", "verbose", "solver")}
    model = TPNNRegressor(**deep, remainder=True, max_components=2).fit(X, y)
    found = model.explain().contrast(X[:1], X[1:2])
    assert np.abs(model.model_.remainder_scores(X[:2])).max() > 0
    assert found.difference == pytest.approx(float(np.subtract(*model.predict(X[:2]))))
    assert np.isnan(found.ratio)


@given(
    difference=st.floats(-5, 5),
    bias=st.floats(-2, 2),
    error=st.floats(0.05, 2),
    level=st.floats(0.5, 0.99),
)
def test_intervals_and_p_values_agree(
    difference: float, bias: float, error: float, level: float
) -> None:
    found = Contrast.of(difference, bias, error**2, False, level)
    holds_zero = found.lower <= 0 <= found.upper
    if abs(found.p_value - (1 - level)) > 1e-3:
        assert holds_zero == (found.p_value > 1 - level)


def test_truths_are_inside() -> None:
    """Differences of two levels, of two values, of what is nothing, and of rows: 20 fits each."""
    held, false = [], []
    for seed in range(20):
        X, f = table(400, seed)
        y = f + np.random.default_rng([seed, 1]).normal(size=400)
        explanation = TPNNRegressor(**FAST).fit(X, y).explain()
        new, truth = table(12, 1000 + seed)
        truths = {("treatment", "B", "A"): 0.4, ("b", 1.0, -1.0): 1.0}
        found = {given: explanation.contrast(*given) for given in truths}
        held.append([found[g].lower <= t <= found[g].upper for g, t in truths.items()])
        for k in range(6):
            rows = explanation.contrast(new[k : k + 1], new[k + 6 : k + 7])
            held[-1].append(rows.lower <= truth[k] - truth[k + 6] <= rows.upper)
        false.append(explanation.contrast("nothing", 1.0, -1.0).p_value < 0.05)
    shares = np.mean(held, axis=0)
    assert shares[0] > 0.8
    assert shares[1] > 0.8
    assert shares[2:].mean() > 0.88
    assert np.mean(false) < 0.2


def test_what_has_no_contrast_says_so(odds: Any) -> None:
    X, f = table(100, 0)
    plain = TPNNRegressor(**QUICK, bands=False).fit(X, f).explain()
    with pytest.raises(ValueError, match=r"^contrast: this model or component has no bands"):
        plain.contrast("treatment", "B", "A")
    explanation = odds.explain()
    with pytest.raises(ValueError, match=r"^value: must be a level of 'treatment', found 'C'"):
        explanation.contrast("treatment", "C", "A")
    with pytest.raises(ValueError, match=r"^reference: must be a value of 'b', a number"):
        explanation.contrast("b", 1.0, "many")
    with pytest.raises(ValueError, match=r"^level: must be a number above 0"):
        explanation.contrast("b", 1.0, 0.0, level=95)
    with pytest.raises(ValueError, match=r"^output: one output is needed"):
        random_model(2, 1, n_outputs=2).explain().contrast("x0", 1.0, 0.0)
