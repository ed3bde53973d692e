"""purify: the total function stays what it was, and every part averages to zero."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models import random_model
from tpnn import TPNNRegressor, purify


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3))
def test_the_total_function_is_unchanged(seed: int, order: int) -> None:
    """For random tables of any order, with subsets left out and given in any order of features."""
    rng = np.random.default_rng(seed)
    nodes = {n: np.sort(rng.normal(size=rng.integers(1, 5))) for n in "abc"}
    keys = [("a",), ("c", "b"), ("b", "a", "c")][:order]
    tables = {key: rng.normal(size=[len(nodes[n]) for n in key]) for key in keys}
    pure = purify(tables, nodes, intercept=0.7)
    assert pure.identifiability_error() < 1e-9
    at_nodes = pd.DataFrame(
        {n: rng.choice(values, 20) for n, values in nodes.items()},
    )
    expected = np.full(20, 0.7)
    for key, table in tables.items():
        expected += table[tuple(np.searchsorted(nodes[n], at_nodes[n]) for n in key)]
    assert np.allclose(pure.raw_scores(at_nodes), expected, atol=1e-9)


def test_a_pure_model_is_its_own_purification() -> None:
    model = random_model(3, 2)
    again = purify(replace(model, classes=("no", "yes")))
    assert again.classes == ("no", "yes")
    assert again.intercept == pytest.approx(model.intercept)
    for before, after in zip(model.tables, again.tables, strict=True):
        assert np.allclose(before, after, atol=1e-12)


def test_a_model_keeps_what_is_still_true_of_it(table: Any, quick: Any) -> None:
    """Bands of components that stay as they are, the shapes, and no new component of rounding."""
    X, y = table
    settings = {**quick, "monotone": {"smooth": "increasing"}, "selection": "one_se"}
    model = TPNNRegressor(**settings).fit(X, y).model_
    again = purify(model)
    assert again.component_names == model.component_names
    assert again.shapes == model.shapes
    for before, after in zip(model.spreads, again.spreads, strict=True):
        assert np.array_equal(before, after)
    moved = purify(model, X=X[X["smooth"] > 0])  # which moves every component
    assert moved.shapes == model.shapes
    assert not any(spread.any() for spread in moved.spreads)


def test_another_measure_gives_another_decomposition_of_the_same_function(
    table: Any, quick: Any
) -> None:
    X, y = table
    model = TPNNRegressor(**quick).fit(X, y).model_
    upper = X[X["smooth"] > 0]
    moved = purify(model, X=upper)
    assert np.allclose(moved.raw_scores(X), model.raw_scores(X))
    assert moved.identifiability_error() < 1e-9
    scores = moved.component_scores(upper)
    mains = [i for i, s in enumerate(moved.components) if len(s) == 1]
    assert np.abs(scores[:, mains].mean(0)).max() < 1e-9  # over the rows, not only the nodes
    assert np.abs(model.component_scores(upper)[:, 0].mean()) > 1e-2


def test_labels_as_nodes() -> None:
    pure = purify({("town",): [1.0, 3.0]}, nodes={"town": ["Ulm", "Bonn"]}, link="logit")
    rows = pd.DataFrame({"town": ["Bonn", "Ulm"]})
    assert np.allclose(pure.raw_scores(rows), [3.0, 1.0])
    assert pure.intercept == 2.0
    assert np.allclose(pure.predict(rows), 1 / (1 + np.exp([-3.0, -1.0])))


def ebm(kind: str, X: pd.DataFrame, y: Any, **settings: Any) -> Any:
    glassbox = pytest.importorskip(
        "interpret.glassbox", reason="interpret is not installed, see tpnn[benchmarks]"
    )
    settings = {"outer_bags": 3, "n_jobs": 1, "max_rounds": 60, "random_state": 0, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # interpret warns of missing values
        return getattr(glassbox, f"ExplainableBoosting{kind}")(**settings).fit(X, y)


@pytest.fixture(scope="module")
def mixed() -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.normal(size=(500, 2)), columns=["a", "b"])
    X["town"] = rng.choice(["u", "v", "w"], 500)
    X.loc[::17, "b"] = np.nan
    return X, np.sin(2 * X["a"]) + X["b"].fillna(1) * X["a"] + (X["town"] == "u") * X["a"]


def test_an_ebm_predicts_the_same_purified(mixed: Any) -> None:
    X, y = mixed
    model = ebm("Regressor", X, y, interactions=3)
    pure = purify(model)
    assert pure.identifiability_error() < 1e-9
    assert np.allclose(pure.predict(X), model.predict(X), atol=1e-9)
    on_cuts = X.copy()
    on_cuts["a"] = np.resize(model.bins_[0][0], len(X))
    just_below = on_cuts.assign(a=np.nextafter(on_cuts["a"], -np.inf))
    for rows in (on_cuts, just_below, X.assign(a=1e6), X.assign(a=-1e6)):
        assert np.allclose(pure.predict(rows), model.predict(rows), atol=1e-9)
    assert any(spread.max() > 0 for spread in pure.spreads)


def test_an_ebm_keeps_main_effects_in_its_pairs_until_purified(mixed: Any) -> None:
    """What purification moves is not zero: the test above would pass on a copy only."""
    X, y = mixed
    model = ebm("Regressor", X, y, interactions=[(0, 1)])
    pair = model.term_scores_[-1][1:-1, 1:-1]
    weights = model.bin_weights_[-1][1:-1, 1:-1]
    mean = (pair * weights).sum(1) / np.maximum(weights.sum(1), 1e-12)
    assert np.abs(mean).max() > 0.05 * pair.std()


def test_an_ebm_without_main_effects(mixed: Any) -> None:
    """The masses of a feature are those of its pair, missing values and skew included."""
    X, y = mixed
    X = X[["a", "b"]].assign(a=np.exp(2 * X["a"]))
    model = ebm("Regressor", X, y, interactions=[(0, 1)], exclude=[(0,), (1,)])
    pure = purify(model)
    assert pure.identifiability_error() < 1e-9
    assert np.allclose(pure.predict(X), model.predict(X), atol=1e-9)
    every = pd.merge(X[["a"]], X[["b"]], how="cross")  # the product of the marginals
    assert pure.intercept == pytest.approx(model.predict(every).mean())


@pytest.mark.parametrize("n_classes", [2, 3])
def test_an_ebm_classifier_gives_the_same_probabilities(mixed: Any, n_classes: int) -> None:
    X, y = mixed
    labels = np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))
    settings = {"interactions": 2} if n_classes == 2 else {"interactions": 0}
    model = ebm("Classifier", X, labels, **settings)
    pure = purify(model)
    probabilities = model.predict_proba(X)
    expected = probabilities[:, 1] if n_classes == 2 else probabilities
    assert np.allclose(pure.predict(X), expected, atol=1e-9)
    assert pure.identifiability_error() < 1e-9
    assert pure.classes == tuple(range(n_classes))


BAD: dict[str, tuple[Any, Any, str]] = {
    "another object": (3, None, "model: a fitted EBM, an AnovaModel or a dict of tables is needed"),
    "no nodes": ({("a",): [1.0]}, None, "nodes: every feature of a table needs its nodes, 'a'"),
    "shape": ({("a",): [1.0]}, {"a": [0, 1]}, r"model: the table of \('a',\) must hold finite num"),
    "NaN": ({("a",): [np.nan]}, {"a": [0]}, r"model: the table of \('a',\) must hold finite num"),
    "order": ({("a",): [1.0, 2.0]}, {"a": [1, 0]}, "nodes: those of 'a' must be increasing"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables(case: str) -> None:
    model, nodes, words = BAD[case]
    with pytest.raises((ValueError, TypeError), match=f"^{words}"):
        purify(model, nodes)
