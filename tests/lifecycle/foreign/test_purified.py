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

from tests.models import random_model, remainder_means, with_remainder
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


def test_the_remainder_of_a_fit_is_its_own_purification(table: Any, quick: Any) -> None:
    X, y = table
    model = TPNNRegressor(**quick, remainder=True, max_components=3).fit(X, y).model_
    again = purify(model)
    assert again.component_names == model.component_names
    assert np.allclose(again.component_scores(X), model.component_scores(X), atol=1e-12)
    assert np.allclose(again.remainder_scores(X), model.remainder_scores(X), atol=1e-12)
    for before, after in zip(model.evidence.spreads, again.evidence.spreads, strict=True):
        assert np.array_equal(before, after)


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_other_masses_move_parts_of_the_trees_into_the_components(n_outputs: int) -> None:
    model = with_remainder(random_model(4, 2, n_outputs=n_outputs))
    assert max(remainder_means(model)) > 0.01  # of components that do not hold their part
    X = np.random.default_rng(0).normal(size=(50, 4))
    for again in (purify(model), purify(model, X=X)):
        assert np.allclose(again.raw_scores(X), model.raw_scores(X), atol=1e-12)
        assert max(remainder_means(again)) < 1e-12
        assert again.identifiability_error() < 1e-12


def test_a_model_keeps_what_is_still_true_of_it(table: Any, quick: Any) -> None:
    """Bands of components that stay as they are, the shapes, and no new component of rounding."""
    X, y = table
    settings = {**quick, "shapes": {"smooth": "increasing"}, "selection": "one_se"}
    model = TPNNRegressor(**settings).fit(X, y).model_
    again = purify(model)
    assert again.component_names == model.component_names
    assert again.shapes == model.shapes
    for before, after in zip(model.evidence.spreads, again.evidence.spreads, strict=True):
        assert np.array_equal(before, after)
    moved = purify(model, X=X[X["smooth"] > 0])  # which moves every component
    assert moved.shapes == model.shapes
    assert not any(spread.any() for spread in moved.evidence.spreads)


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


def test_another_object_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^model: a fitted EBM, an AnovaModel or a dict .* int\."):
        purify(3)


def test_components_that_receive_only_rounding_are_left_out() -> None:
    """A table that is pure already adds no main effects."""
    table = np.array([[1.0, -1.0], [-1.0, 1.0]]) / 3
    pure = purify({("a", "b"): table}, nodes={"a": [0, 1], "b": [0, 1]})
    assert pure.component_names == [("a", "b")]
    assert pure.intercept == pytest.approx(0.0, abs=1e-15)


def test_nothing_is_a_constant() -> None:
    pure = purify({}, nodes={"a": [0.0, 1.0]}, intercept=2.5)
    assert len(pure.components) == 0
    assert pure.raw_scores([[0.3], [7.0]]).tolist() == [2.5, 2.5]


def test_masses_are_those_of_the_rows() -> None:
    """Rows between two nodes are shared by them; rows that have no node count for none."""
    rows = pd.DataFrame({"a": [0.0, 0.5, 2.0]})
    pure = purify({("a",): [0.0, 1.0]}, nodes={"a": [0.0, 1.0]}, X=rows)
    assert pure.encoder.axes[1][0].weights.tolist() == [0.5, 0.5]
    with pytest.warns(UserWarning, match="fit has not seen contribute 0"):
        levels = purify(
            {("k",): [0.0, 3.0]},
            nodes={"k": ["u", "v"]},
            X=pd.DataFrame({"k": ["v", "v", "z", "u"]}),
        )
    assert levels.encoder.axes[1][0].weights == pytest.approx([1 / 3, 2 / 3])
    assert levels.intercept == pytest.approx(2.0)


def test_several_outputs_are_purified_one_by_one(table: Any, quick: Any) -> None:
    X, y = table
    model = TPNNRegressor(**quick).fit(X, np.column_stack([y, X["skewed"] * X["smooth"]])).model_
    moved = purify(model, X=X[:100])
    assert moved.output_names == model.output_names
    assert moved.identifiability_error() < 1e-9
    assert np.allclose(moved.raw_scores(X), model.raw_scores(X))
    shift = moved.intercept - model.intercept
    assert shift.shape == (2,)
    assert np.abs(shift).min() > 1e-6


@pytest.mark.parametrize("rows", [{"k": ["z", "w"]}, {"k": [None, None]}, {"k": []}])
def test_a_measure_needs_rows_that_the_model_knows(rows: dict[str, Any]) -> None:
    """Unseen levels, missing values or no row at all have no mass to share."""
    tables, nodes = {("a", "k"): [[0.0, 3.0], [1.0, 2.0]]}, {"a": [0.0, 1.0], "k": ["u", "v"]}
    X = pd.DataFrame({"a": np.zeros(len(rows["k"])), **rows})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what was not seen
        with pytest.raises(ValueError, match=r"^X: none of the .* rows has a value of '"):
            purify(tables, nodes, X)
        alone = purify({"a": [0.0, 1.0]}, nodes, X.assign(a=1.0)) if len(X) else None
    if alone is not None:  # a feature that is in no component needs no measure
        assert alone.intercept == 1.0
        assert alone.encoder.axes[1][1].weights.tolist() == [0.5, 0.5]
