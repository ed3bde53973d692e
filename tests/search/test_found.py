"""Which components a fit ends up with: those of trees, what trees miss, selection."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tpnn import Descent, Grow, TPNNClassifier, TPNNRegressor, load
from tpnn.anova.components import ComponentSet
from tpnn.model.model import tables_by_component

pytestmark = pytest.mark.slow

QUIET: dict[str, Any] = {"n_bags": 2, "random_state": 0, "verbose": 0}
SURE = QUIET | {"n_bags": 8}  # to tell a weak main effect from noise


def wide(n_rows: int = 1500, n_features: int = 110) -> tuple[np.ndarray, np.ndarray]:
    """Too many features to include them all; two main effects, one pair and one triple matter."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (n_rows, n_features))
    y = 2 * X[:, 0] + np.abs(X[:, 1]) + 3 * X[:, 2] * X[:, 3] + 6 * X[:, 4] * X[:, 5] * X[:, 6]
    return X, y + 0.2 * rng.normal(size=n_rows)


@pytest.fixture(scope="module")
def deep() -> TPNNRegressor:
    X, y = wide()
    return TPNNRegressor(order=3, **SURE).fit(X, y)


def test_finds_what_is_there_and_little_else(deep: TPNNRegressor) -> None:
    true = {("x0",), ("x1",), ("x2", "x3"), ("x4", "x5", "x6")}
    assert true <= set(deep.components_)
    assert len(set(deep.components_) - true) <= 2


def test_laws_hold_after_search_and_selection(deep: TPNNRegressor, tmp_path: Any) -> None:
    X, _ = wide()
    model = deep.model_
    assert model.identifiability_error() < 1e-6
    raw = model.intercept + model.component_scores(X).sum(1)
    np.testing.assert_allclose(raw, deep.predict(X), atol=1e-9)
    values = deep.shap_values(X[:20])
    np.testing.assert_allclose(values.base_values + values.values.sum(1), raw[:20], atol=1e-9)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").model_.predict(X), deep.predict(X))


def test_terms_reproduce_a_triple(deep: TPNNRegressor) -> None:
    (terms,) = (t for t in deep.model_.terms() if t.features == ("x4", "x5", "x6"))
    (component,) = (s for s in deep.model_.components if len(s) == 3)
    axes = deep.model_.axes(component)
    table = tables_by_component(deep.model_)[component][..., 0]
    products = terms.beta
    for axis, b, gamma in zip(axes, terms.b, terms.gamma, strict=True):
        steps = 1 / (1 + np.exp(-np.clip((axis.positions[:, None] - b) / gamma, -500, 500)))
        centred = axis.weights @ steps - steps
        products = products[..., None, :] * centred if products.ndim > 1 else centred * products
    np.testing.assert_allclose(products.sum(-1), table, atol=1e-8)


def test_history_says_what_was_found(deep: TPNNRegressor) -> None:
    (found,) = (record for record in deep.history_ if record["stage"] == "search")
    assert found["note"] == "core: the largest components of deep trees"
    assert found["n_components"] == 300
    assert found["n_candidates"] > 300
    (refit,) = (record for record in deep.history_ if record["stage"] == "refit")
    assert refit["note"].startswith(f"{len(deep.components_)} of 300 components")


def test_the_same_seed_gives_the_same_model(deep: TPNNRegressor) -> None:
    X, y = wide()
    again = TPNNRegressor(order=3, **SURE).fit(X, y)
    assert again.components_ == deep.components_
    np.testing.assert_array_equal(again.predict(X), deep.predict(X))


def test_columns_rows_and_copies_change_nothing(deep: TPNNRegressor) -> None:
    X, y = wide()
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(len(X)), rng.permutation(X.shape[1])
    moved = TPNNRegressor(order=3, **SURE).fit(X[rows][:, columns], y[rows])
    np.testing.assert_allclose(moved.predict(X[:, columns]), deep.predict(X), atol=1e-9)
    names = {tuple(sorted(f"x{columns[int(x[1:])]}" for x in s)) for s in moved.components_}
    assert names == {tuple(sorted(s)) for s in deep.components_}
    twice = TPNNRegressor(order=3, **SURE).fit(X, y, sample_weight=np.full(len(y), 2))
    np.testing.assert_array_equal(twice.predict(X), deep.predict(X))


def test_no_interaction_is_a_possible_answer() -> None:
    X, _ = wide()
    noise = np.random.default_rng(0).normal(size=len(X))
    model = TPNNRegressor(order=3, **QUIET).fit(X, X[:, 0] + 0.1 * noise)
    assert ("x0",) in model.components_
    assert len(model.components_) <= 3
    for order, most in ((3, 8), ("auto", 24)):
        nothing = TPNNRegressor(order=order, **QUIET).fit(X, noise)
        assert 1 <= len(nothing.components_) <= most
        assert np.var(nothing.predict(X)) < 0.2


def test_grown_triples_classify_parity() -> None:
    X = np.random.default_rng(0).uniform(-1, 1, (1200, 4))
    label = (X[:, :3] > 0).sum(1) % 2
    lower = TPNNClassifier(order=2, **QUIET).fit(X[:800], label[:800])
    higher = TPNNClassifier(**QUIET).fit(X[:800], label[:800])
    assert lower.score(X[800:], label[800:]) < 0.6
    assert higher.score(X[800:], label[800:]) > 0.9
    assert higher.model_.identifiability_error() < 1e-6


def test_listed_triples_bring_their_subsets(table: Any) -> None:
    X, y = table
    model = TPNNRegressor(order=3, interactions=[("smooth", "level", "atom")], **QUIET).fit(X, y)
    expected = ComponentSet(((0, 2, 3), (1,))).with_subsets().names(list(X.columns))
    assert model.components_ == expected
    assert model.model_.identifiability_error() < 1e-6


@pytest.mark.parametrize("asked", [4, {"count": 4}, {"method": "trees", "count": 4}])
def test_a_number_of_pairs(asked: Any) -> None:
    X, y = wide(n_features=30)
    model = TPNNRegressor(interactions=asked, **QUIET).fit(X, y)
    pairs = [s for s in model.components_ if len(s) == 2]
    assert len(pairs) == 4
    assert ("x2", "x3") in pairs
    assert len(model.components_) == 30 + 4


def test_few_main_effects_are_all_kept() -> None:
    X, y = wide(n_features=30)
    model = TPNNRegressor(order=2, **QUIET).fit(X, y)
    mains = [s for s in model.components_ if len(s) == 1]
    assert len(mains) == 30
    assert ("x2", "x3") in model.components_


def test_pairs_asked_for_at_order_one(table: Any) -> None:
    X, y = table
    with pytest.raises(ValueError, match=r"^interactions: pairs need an order of at least 2"):
        TPNNRegressor(order=1, interactions=3, **QUIET).fit(X, y)


def test_more_pairs_asked_for_than_there_are(table: Any) -> None:
    X, y = table
    assert len(TPNNRegressor(interactions=99, **QUIET).fit(X, y).components_) == 10
    alone = TPNNRegressor(interactions=99, **QUIET).fit(X[["smooth"]], y)
    assert alone.components_ == [("smooth",)]


def test_time_limit_ends_the_search() -> None:
    X, y = wide()
    model = TPNNRegressor(order=3, time_limit=1e-6, **QUIET).fit(X, y)
    assert any("time limit" in record["note"] for record in model.history_)
    assert np.isfinite(model.predict(X)).all()


def test_several_outputs_and_levels() -> None:
    X, _ = wide(n_rows=900)
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    table["level"] = pd.Categorical(np.where(X[:, 7] > 0, "a", "b"))
    label = (X[:, 0] > 0.3).astype(int) + (X[:, 2] * X[:, 3] > 0)
    model = TPNNClassifier(order=3, **QUIET).fit(table[:600], label[:600])
    assert {("x0",), ("x2", "x3")} <= set(model.components_)
    assert model.model_.identifiability_error() < 1e-6
    assert model.score(table[600:], label[600:]) > 0.8


def test_order_above_the_number_of_features(table: Any) -> None:
    X, y = table
    model = TPNNRegressor(order=9, **QUIET).fit(X[["smooth", "level"]], y)
    assert max(map(len, model.components_)) == 2


def test_levels_of_a_triple_have_no_order() -> None:
    """A parity of three nominal features is found whatever the names of their levels."""
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 4, size=(4000, 3))
    y = np.where((codes % 2).sum(1) % 2, 1.0, -1.0) + 0.3 * rng.normal(size=4000)
    X = pd.DataFrame(np.array(list("acbd"))[codes], columns=["u", "v", "w"])
    model = TPNNRegressor(order=3, n_bags=2, interactions="all", random_state=0)
    assert model.fit(X[:3000], y[:3000]).score(X[3000:], y[3000:]) > 0.7
    assert model.model_.identifiability_error() < 1e-6


def test_a_pair_that_trees_do_not_come_across_is_seen() -> None:
    """No question about one of its features alone gains anything, and there are many others."""
    X, _ = wide()
    y = X[:, 0] + 3 * X[:, 2] * X[:, 3] + 0.2 * np.random.default_rng(0).normal(size=len(X))
    model = TPNNRegressor(order=2, **QUIET).fit(X, y)
    assert set(model.components_) == {("x0",), ("x2", "x3")}


def test_a_component_of_four_features_is_found() -> None:
    X = np.random.default_rng(0).uniform(-1, 1, (3000, 6))
    y = np.sign(X[:, :4].prod(1)) + X[:, 4]
    model = TPNNRegressor(order=4, **QUIET).fit(X[:2000], y[:2000])
    assert ("x0", "x1", "x2", "x3") in model.components_
    assert model.score(X[2000:], y[2000:]) > 0.6
    assert TPNNRegressor(order=3, **QUIET).fit(X[:2000], y[:2000]).score(X[2000:], y[2000:]) < 0.4


def test_a_given_order_holds_for_the_whole_model() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (800, 4))
    model = TPNNRegressor(order=2, **QUIET).fit(X, np.sign(X.prod(1)) + X[:, 0]).model_
    assert model.remainder is None
    assert {len(component) for component in model.components} <= {1, 2}
    assert {(0,), (1,), (2,), (3,)} <= set(model.components)


@pytest.mark.parametrize(
    "settings",
    [
        {"shapes": {"x0": "increasing"}},
        {"solver": Descent(max_steps=300)},
        {"solver": Grow(growth="smooth")},
        {"selection": "one_se"},
    ],
    ids=str,
)
def test_trees_find_the_components_of_every_fit(settings: dict[str, Any]) -> None:
    X = np.random.default_rng(0).uniform(-1, 1, (900, 5))
    y = X[:, 0] + 3 * X[:, 1] * X[:, 2]
    if "solver" in settings:
        pytest.importorskip("torch", reason="torch is not installed")
    model = TPNNRegressor(order=2, **QUIET, **settings).fit(X[:600], y[:600])
    pairs = [s for s in model.components_ if len(s) == 2]
    assert ("x1", "x2") in pairs
    assert len(pairs) < 10
    assert model.score(X[600:], y[600:]) > 0.9


def test_a_required_pair_needs_no_evident_main_effects() -> None:
    X, y = wide()
    model = TPNNRegressor(**QUIET, interactions={"required": [(50, 51)]}).fit(X, y)
    assert ("x50", "x51") in model.components_
    assert model.model_.identifiability_error() < 1e-6
