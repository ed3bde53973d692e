"""Models with triples that a search has found: laws, invariances, limits, small tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import QUICK
from tpnn import Grow, TPNNClassifier, TPNNRegressor, TPNNSurvival
from tpnn.model.model import tables_by_component

SETTINGS: dict[str, Any] = {
    "n_bags": 4, "max_nodes": {1: 32, 2: 12, 3: 6}, "random_state": 0, "verbose": 0,
}  # fmt: skip
PLANTED = ("dose", "level", "weight")


def planted(seed: int = 0, n_rows: int = 500) -> tuple[pd.DataFrame, np.ndarray]:
    """A product of two numbers, one with gaps, whose sign depends on a level."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "weight": rng.normal(size=n_rows),
            "age": rng.uniform(-1, 1, n_rows),
            "level": rng.choice(list("bcad"), n_rows),
            "dose": np.where(rng.random(n_rows) < 0.1, np.nan, rng.uniform(-1, 1, n_rows)),
        }
    )
    sign = X.level.map({"a": 1.0, "b": -1.0, "c": 1.0, "d": -1.0})
    y = X.age + 3 * np.tanh(X.weight) * X.dose.fillna(0.8) * sign
    return X, (y + 0.2 * rng.normal(size=n_rows)).to_numpy()


@pytest.fixture(scope="module")
def model() -> TPNNRegressor:
    return TPNNRegressor(**SETTINGS).fit(*planted())


def triples(fitted: Any) -> list[tuple[str, ...]]:
    return [tuple(sorted(s)) for s in fitted.components_ if len(s) == 3]


def same_bits(one: Any, other: Any) -> None:
    """Both models have the same components and grids, whatever the order of their columns."""
    X, _ = planted()
    np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=0, atol=1e-12)
    grids = by_name(other)
    assert by_name(one).keys() == grids.keys()
    for names, grid in by_name(one).items():
        np.testing.assert_array_equal(grid, grids[names])


def by_name(fitted: Any) -> dict[tuple[str, ...], np.ndarray]:
    """Grid of each component, the axes in the order of the features' names."""
    frozen, found = fitted.model_, {}
    for component, table in tables_by_component(frozen).items():
        names = [frozen.feature_names[feature] for feature in component]
        found[tuple(sorted(names))] = table.transpose(*np.argsort(names), -1)
    return found


def test_the_triple_is_found(model: TPNNRegressor) -> None:
    assert PLANTED in triples(model)
    X, y = planted(seed=1)
    pairs = TPNNRegressor(**SETTINGS, order=2).fit(*planted())
    assert model.score(X, y) > pairs.score(X, y) + 0.1


def test_triples_are_pure(model: TPNNRegressor) -> None:
    assert model.model_.identifiability_error() <= 1e-6
    X, _ = planted()
    scores = model.model_.component_scores(X)
    np.testing.assert_allclose(model.intercept_ + scores.sum(1), model.predict(X), atol=1e-10)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_the_number_of_threads_changes_nothing(model: TPNNRegressor, n_jobs: int) -> None:
    same_bits(model, TPNNRegressor(**SETTINGS, n_jobs=n_jobs).fit(*planted()))


def test_the_order_of_rows_changes_nothing(model: TPNNRegressor) -> None:
    X, y = planted()
    order = np.random.default_rng(5).permutation(len(X))
    same_bits(model, TPNNRegressor(**SETTINGS).fit(X.iloc[order], y[order]))


def test_the_order_of_named_columns_changes_nothing(model: TPNNRegressor) -> None:
    X, y = planted()
    moved = TPNNRegressor(**SETTINGS).fit(X[["level", "dose", "age", "weight"]], y)
    same_bits(model, moved)


def test_a_weight_of_two_is_a_row_twice() -> None:
    X, y = planted()
    weights = np.where(np.arange(len(X)) % 3, 1, 2)
    rows = np.repeat(np.arange(len(X)), weights)
    weighted = TPNNRegressor(**SETTINGS).fit(X, y, sample_weight=weights)
    repeated = TPNNRegressor(**SETTINGS).fit(X.iloc[rows], y[rows])
    assert PLANTED in triples(weighted)
    same_bits(weighted, repeated)


def test_copies_of_the_table_change_nothing(model: TPNNRegressor) -> None:
    X, y = planted()
    same_bits(model, TPNNRegressor(**SETTINGS).fit(pd.concat([X, X, X]), np.tile(y, 3)))


def test_bags_by_default_are_as_many_for_weights_as_for_copies() -> None:
    """The number of bags counts rows, and copies of the whole table are no rows."""
    X, y = planted(n_rows=499)

    def n_bags(rows: Any, **weights: Any) -> int:
        settings = {**QUICK, "n_bags": "auto", "order": 1, "solver": Grow(max_rounds=1)}
        fitted = TPNNRegressor(**settings).fit(X.iloc[rows], y[rows], **weights)
        return len({record["bag"] for record in fitted.history_ if record["stage"] == "grow"})

    rows = np.arange(499)
    assert n_bags(rows) == 32
    assert n_bags(np.tile(rows, 3)) == 32
    once_more = np.append(rows, 0)
    assert n_bags(once_more) == 16
    assert n_bags(rows, sample_weight=1 + (rows == 0)) == 16


@pytest.mark.parametrize(
    ("n_rows", "n_outputs", "expected"),
    [
        (100, 1, 32),
        (499, 1, 32),
        (500, 1, 16),
        (1999, 1, 16),
        (2000, 1, 8),
        (10**6, 1, 8),
        (10**7, 1, 4),
        (5 * 10**7, 1, 2),
        (5 * 10**7, 3, 2),
        (499, 2, 16),
        (499, 7, 8),
        (1999, 3, 8),
    ],
)
def test_the_fewer_rows_the_more_bags(n_rows: int, n_outputs: int, expected: int) -> None:
    """Several outputs share the cost of more than eight."""
    assert Grow().enough_bags(n_rows, n_outputs) == expected


def test_few_rows_get_few_nodes_of_pairs_and_triples_unless_they_are_given() -> None:
    """Copies of the whole table are no more rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 3))

    def nodes(n_rows: int, n_copies: int = 1, **settings: Any) -> list[int]:
        table, y = np.tile(X[:n_rows], (n_copies, 1)), np.tile(X[:n_rows].prod(1), n_copies)
        given = {**QUICK, "max_nodes": 256, **settings}
        fit = TPNNRegressor(order=3, interactions="all", **given).fit(table, y)
        return [fit.model_.encoder.axes[order][0].n_nodes for order in (2, 3)]

    assert nodes(1000) == nodes(1000, n_copies=3) == [32, 20]
    assert nodes(64) == [32, 8]
    assert nodes(1000, max_nodes={1: 256, 2: 50, 3: 24}) == [50, 24]
    assert dict(Grow().enough_nodes(2000, 1)) == {3: 25}
    assert dict(Grow().enough_nodes(2000, 7)) == {2: 64, 3: 25}  # outputs share the cost


@pytest.mark.parametrize("shape", ["increasing", "decreasing", "concave"])
def test_certificates_of_shapes_hold_with_triples(shape: str) -> None:
    X, y = planted()
    settings = {**SETTINGS, "n_bags": 2, "shapes": {"age": shape, "weight": shape}}
    fitted = TPNNRegressor(
        **settings, interactions=[("age", "dose", "weight"), ("dose", "level", "weight")]
    ).fit(X, y)
    assert len(triples(fitted)) == 2
    assert fitted.model_.identifiability_error() <= 1e-6
    for feature in ("age", "weight"):
        assert fitted.model_.certificate(feature).holds
        moved = pd.concat([X.iloc[[7]]] * 200, ignore_index=True)
        nodes = fitted.model_.encoder.axes[1][X.columns.get_loc(feature)].values
        moved[feature] = np.linspace(nodes[0], nodes[-1], 200)
        path = fitted.predict(moved)
        steps = np.diff(path, n=2 if shape == "concave" else 1)
        sign = 1.0 if shape == "increasing" else -1.0
        assert (sign * steps).min() >= -1e-9


# Few features


@pytest.mark.parametrize("n_features", [1, 2])
@pytest.mark.parametrize("kind", [TPNNRegressor, TPNNClassifier, TPNNSurvival])
def test_one_and_two_features(kind: Any, n_features: int) -> None:
    """There is no triple to search for, and nothing is said about one."""
    X, y = planted(n_rows=80)
    X = X[["age", "weight"]].iloc[:, :n_features]
    times = np.column_stack([np.exp(y), y < 1])
    target = {TPNNRegressor: y, TPNNClassifier: y > 0, TPNNSurvival: times}[kind]
    three, pairs = (kind(**QUICK, order=order).fit(X, target) for order in (3, 2))
    assert three.components_ == pairs.components_
    np.testing.assert_array_equal(three.model_.raw_scores(X), pairs.model_.raw_scores(X))
    assert not any("triples" in record["note"] for record in three.history_)


def test_three_features_have_one_candidate() -> None:
    X, y = planted()
    fitted = TPNNRegressor(**SETTINGS, order=3).fit(X[["dose", "level", "weight"]], y)
    assert triples(fitted) == [PLANTED]


@pytest.mark.parametrize(
    ("settings", "largest"),
    [
        ({}, 3),
        ({"order": 2}, 2),
        ({"interactions": []}, 1),
        ({"interactions": [("age", "dose")]}, 2),
        ({"interactions": [PLANTED]}, 3),
        ({"interactions": "all"}, 2),
        ({"interactions": 2}, 2),
        ({"interactions": {"required": [PLANTED], "count": 2}}, 3),
    ],
    ids=str,
)
def test_what_auto_means(settings: dict[str, Any], largest: int) -> None:
    """Triples are found where nobody says how many pairs; else the order is that of the list."""
    fitted = TPNNRegressor(**{**SETTINGS, **settings}).fit(*planted())
    assert max(map(len, fitted.components_)) == largest


def test_nodes_of_triples_are_nodes_of_lower_orders() -> None:
    """Few rows have few nodes of triples, and those of order four are among them."""
    X, y = planted(n_rows=100)
    settings = {**QUICK, "max_nodes": 256, "order": 4, "interactions": "all"}
    fitted = TPNNRegressor(**settings).fit(X.drop(columns="level").assign(copy=X.weight**3), y)
    axes = fitted.model_.encoder.axes
    assert max(len(axis.values) for axis in axes[3]) <= round(2 * 100 ** (1 / 3))
    for order in (2, 3, 4):
        for fine, coarse in zip(axes[order - 1], axes[order], strict=True):
            assert set(coarse.values) <= set(fine.values)
    assert fitted.model_.identifiability_error() <= 1e-6
