"""Bundles: components of features with few values, summed in advance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpnn import ComponentSet, TPNNClassifier, TPNNRegressor
from tpnn.model.bundles import MAX_CODES, Bundle, find_bundles, join
from tpnn.table.axis import Axis

LEVELS = ["a", "b", "c"]
pytestmark = pytest.mark.filterwarnings("ignore:X. levels or missing values")


def few_values(n_rows: int, seed: int) -> pd.DataFrame:
    """Three switches, two of them with missing values, two nominal features, one continuous."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({f"switch {j}": rng.integers(0, 2, n_rows).astype(float) for j in range(3)})
    X.loc[rng.random(n_rows) < 0.1, ["switch 1", "switch 2"]] = np.nan
    for name in ("one", "two"):
        X[name] = pd.Categorical(rng.choice(LEVELS, n_rows), [*LEVELS, "new"])
    X["smooth"] = rng.normal(size=n_rows)
    return X


def odd_rows(n_rows: int) -> pd.DataFrame:
    """Rows like those of fit, and some with values that fit has not seen."""
    X = few_values(n_rows, seed=1)
    X.loc[0, "switch 0"] = np.nan
    X.loc[1, "switch 0"] = 0.25
    X.loc[2, "switch 1"] = 7.0
    X.loc[3, ["one", "two"]] = "new"
    X.loc[4, "one"] = np.nan
    X.loc[5, "switch 2"] = -1e300
    return X


@pytest.fixture(scope="module", params=["regression", "classes"])
def model(request: pytest.FixtureRequest) -> Any:
    X = few_values(600, seed=0)
    pairs = [(i, j) for j in range(6) for i in range(j)]
    score = X["switch 0"] * (X["one"] == "a") + X["smooth"] * X["switch 1"].fillna(2)
    settings: dict[str, Any] = {"interactions": pairs, "n_bags": 2, "random_state": 0, "verbose": 0}
    if request.param == "regression":
        return TPNNRegressor(**settings).fit(X, score).model_
    return TPNNClassifier(**settings).fit(X, pd.qcut(score, 3, LEVELS)).model_


def test_the_sum_is_that_of_the_components(model: Any) -> None:
    X = odd_rows(500)
    assert model._beside_trees[1].bundles
    expected = model.intercept + model.component_scores(X).sum(1)
    np.testing.assert_allclose(model.raw_scores(X), expected, rtol=1e-12, atol=1e-13)


def test_a_row_alone_is_the_row_among_many(model: Any, all_compiled: None) -> None:
    X = odd_rows(40_000)
    compiled = model.raw_scores(X)
    for row in range(8):
        assert np.array_equal(model.raw_scores(X[row : row + 1])[0], compiled[row])
    for few in (slice(0, 9), slice(0, 300), slice(0, 15_000)):
        assert np.array_equal(model.raw_scores(X[few]), compiled[few])


def test_codes_are_the_combinations_of_nodes() -> None:
    weights = np.ones(3) / 3
    numbers = Axis(np.array([0.0, 2.0]), weights, has_missing=True)
    levels = Axis(np.array([0.0, 1.0]), weights[:2], "nominal", groups=np.array([0, 1, 1]))
    bundle = Bundle([0, 1], [numbers, levels])
    x = np.array([[0.0, 0.0, 2.0, np.nan, 1.0, 2.0], [0.0, 2.0, 1.0, 0.0, 1.0, np.inf]])
    codes, known = bundle.code(list(x))
    assert codes[known].tolist() == [0, 1, 3, 4]
    assert known.tolist() == [True] * 4 + [False] * 2
    assert [bundle.nodes[0][3], bundle.nodes[1][3]] == [1, 1]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n_outputs=st.integers(1, 2))
def test_joined_tables_are_the_sum_at_every_combination_of_nodes(seed: int, n_outputs: int) -> None:
    """Bundles of two features each, in any order, and one feature that is in none."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, 5)
    axes = [Axis(np.arange(float(size)), np.full(size, 1 / size)) for size in sizes]
    first, second = rng.permutation(4).reshape(2, 2).tolist()
    bundles = [Bundle(group, [axes[j] for j in group]) for group in (first, second)]
    components = ComponentSet.up_to(5, 2).components
    tables = {s: rng.normal(size=(*sizes[list(s)], n_outputs)) for s in components}
    joined = join(bundles, 5, tables)
    assert set(joined) == {(4,), *((j, 4) for j in range(4)), (5,), (6,), (5, 6)}
    for row in np.ndindex(*sizes):
        columns = [np.array([float(x)]) for x in row]
        codes, known = zip(*(bundle.code(columns) for bundle in bundles), strict=True)
        assert all(known)
        wider = (*row, *(int(code[0]) for code in codes))
        total = sum(table[tuple(wider[j] for j in s)] for s, table in joined.items())
        expected = sum(table[tuple(row[j] for j in s)] for s, table in tables.items())
        np.testing.assert_allclose(total, expected, atol=1e-12)


def test_few_features_and_many_nodes_are_not_bundled() -> None:
    rng = np.random.default_rng(0)
    X, y = np.column_stack([rng.normal(size=300), rng.integers(0, 2, 300)]), rng.normal(size=300)
    model = TPNNRegressor(n_bags=1, random_state=0, verbose=0).fit(X, y).model_
    assert not find_bundles(model.encoder.axes, list(model.components))
    assert not model._beside_trees[1].bundles


def test_levels_that_share_a_node_are_not_searched_one_by_one() -> None:
    values, weights = np.arange(3.0), np.ones(3) / 3
    axis = Axis(values, weights, "nominal", groups=np.minimum(np.arange(5000), 2))
    axes = {1: (axis,) * 4, 2: (axis,) * 4}
    assert not find_bundles(axes, [(0,), (1,), (2,), (3,)])


def test_a_bundle_has_no_more_codes_than_its_tables_can_hold() -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 7, 12)
    axes = tuple(Axis(np.arange(float(size)), np.full(size, 1 / size)) for size in sizes)
    bundles = find_bundles({1: axes, 2: axes}, ComponentSet.up_to(12, 2).components)
    bundled = [feature for bundle in bundles for feature in bundle.nodes]
    assert len(bundled) == len(set(bundled))
    assert all(len(bundle.nodes) >= 2 for bundle in bundles)
    assert all(bundle.n_codes <= MAX_CODES for bundle in bundles)


def test_features_with_other_nodes_in_pairs_are_not_bundled() -> None:
    fine, coarse = (Axis(np.arange(float(size)), np.full(size, 1 / size)) for size in (4, 2))
    components = ComponentSet.up_to(3, 2).components
    assert find_bundles({1: (fine,) * 3, 2: (fine,) * 3}, components)
    assert not find_bundles({1: (fine,) * 3, 2: (coarse,) * 3}, components)
