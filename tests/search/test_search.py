"""Which components a fit ends up with: search, higher orders, selection, path."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import told
from tpnn import Grow, TPNNClassifier, TPNNRegressor, load
from tpnn.anova.components import ComponentSet
from tpnn.model.model import tables_by_component
from tpnn.solvers.solution import Verdict

pytestmark = pytest.mark.slow

QUIET: dict[str, Any] = {"n_bags": 2, "random_state": 0, "verbose": 0}


def wide(n_rows: int = 1500, n_features: int = 110) -> tuple[np.ndarray, np.ndarray]:
    """Too many features to include them all; two main effects, one pair and one triple matter."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (n_rows, n_features))
    y = 2 * X[:, 0] + np.abs(X[:, 1]) + 3 * X[:, 2] * X[:, 3] + 6 * X[:, 4] * X[:, 5] * X[:, 6]
    return X, y + 0.2 * rng.normal(size=n_rows)


@pytest.fixture(scope="module")
def deep() -> TPNNRegressor:
    X, y = wide()
    return TPNNRegressor(order=3, **QUIET).fit(X, y)


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


def test_history_says_what_was_tried(deep: TPNNRegressor) -> None:
    tried = [record for record in deep.history_ if record["stage"] == "search"]
    assert tried[0]["n_candidates"] == 110
    assert any(record["n_candidates"] == 110 * 109 // 2 for record in tried)
    assert any(record["note"] == "nothing new above the noise" for record in tried)
    floors = [record["noise_floor"] for record in tried if record["n_candidates"] is not None]
    assert len(floors) >= 3
    assert min(floors) >= 0
    assert sum(floor > 0 for floor in floors) >= 3
    assert all(record["n_found"] >= 0 for record in tried if record["n_candidates"] is not None)


def test_the_same_seed_gives_the_same_model(deep: TPNNRegressor) -> None:
    X, y = wide()
    again = TPNNRegressor(order=3, **QUIET).fit(X, y)
    assert again.components_ == deep.components_
    np.testing.assert_array_equal(again.predict(X), deep.predict(X))


def test_columns_rows_and_copies_change_nothing(deep: TPNNRegressor) -> None:
    X, y = wide()
    rng = np.random.default_rng(0)
    rows, columns = rng.permutation(len(X)), rng.permutation(X.shape[1])
    moved = TPNNRegressor(order=3, **QUIET).fit(X[rows][:, columns], y[rows])
    np.testing.assert_allclose(moved.predict(X[:, columns]), deep.predict(X), atol=1e-9)
    names = {tuple(sorted(f"x{columns[int(x[1:])]}" for x in s)) for s in moved.components_}
    assert names == {tuple(sorted(s)) for s in deep.components_}
    twice = TPNNRegressor(order=3, **QUIET).fit(X, y, sample_weight=np.full(len(y), 2))
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


def test_higher_orders_step_aside_without_signal(table: Any) -> None:
    X, y = table
    order_2 = TPNNRegressor(order=2, **QUIET).fit(X, y)
    order_3 = TPNNRegressor(order=3, **QUIET).fit(X, y)
    if max(map(len, order_3.components_)) == 2:
        np.testing.assert_array_equal(order_2.predict(X), order_3.predict(X))
    listed = TPNNRegressor(order=3, interactions=[(0, 1, 3)], **QUIET).fit(X, y)
    higher = [r for r in listed.history_ if r["note"] == "triples"]
    assert [r["bag"] for r in higher] == [0, 1]


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


@pytest.mark.parametrize("asked", [4, {"count": 4}, {"method": "histogram", "count": 4}])
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


def test_all_pairs_where_they_are_few(table: Any) -> None:
    X, y = table
    auto, every = (
        TPNNRegressor(order=2, interactions=asked, **QUIET).fit(X, y) for asked in ("auto", "all")
    )
    assert auto.components_ == every.components_
    np.testing.assert_array_equal(auto.predict(X), every.predict(X))


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


def test_all_pairs_of_features_with_few_values_where_rows_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 2, size=(2000, 33)).astype(float), rng.normal(size=2000)

    def n_pairs(X: Any) -> int:
        quick = {**QUIET, "n_bags": 1, "order": 2, "solver": Grow(max_rounds=1)}
        model = TPNNRegressor(**quick).fit(X, y)
        return len(model.components_) - X.shape[1]

    assert n_pairs(X) < 20  # 528 free cells need 52,800 rows
    monkeypatch.setattr("tpnn.search.search.FEWEST_ROWS_PER_CELL", 3)
    assert n_pairs(X) == 33 * 32 // 2
    wider = X + (X[:, :1] * 2) * (np.arange(33) == 5)  # four values in one feature: 592 free cells
    assert n_pairs(wider) == 33 * 32 // 2
    monkeypatch.setattr("tpnn.search.search.FEWEST_ROWS_PER_CELL", 3.5)
    assert n_pairs(wider) < 20


def test_a_required_pair_needs_no_evident_main_effects() -> None:
    X, y = wide()
    model = TPNNRegressor(**QUIET, interactions={"required": [(50, 51)]}).fit(X, y)
    assert ("x50", "x51") in model.components_
    assert model.model_.identifiability_error() < 1e-6


@pytest.mark.parametrize("seconds", [1000.0, None])
def test_probes_leave_time_for_the_fit(
    seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All probes together have half of the time that bands leave, the fit has all of it."""
    asked: list[tuple[int, float]] = []

    class Spy(Grow):
        def solve(self, problem: Any, limits: Any, *rest: Any, **named: Any) -> Any:
            asked.append((problem.n_bags, limits.deadline))
            return super().solve(problem, limits, *rest, **named)

    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    X = np.random.default_rng(0).normal(size=(400, 35))  # more pairs than are all included
    settings = {"n_bags": 3, "random_state": 0, "verbose": 0, "max_nodes": 16, "selection": "none"}
    settings |= {"order": 2}
    model = TPNNRegressor(solver=Spy(max_rounds=10), time_limit=seconds, **settings)
    assert model.fit(X, X[:, 0] * X[:, 1]).history_[0]["stage"] == "search"
    *probes, fit = asked
    assert fit == (3, 100.0 + 850.0 if seconds else np.inf)  # bands have the rest
    deadline = 100.0 + 425.0 if seconds else np.inf
    assert set(probes) == {(2, deadline), (8, deadline)}


class Confirming(Grow):
    """A solver whose held-out rows confirm every pair, the last candidates most."""

    def judge(self, problem: Any, solution: Any, candidates: Any, limits: Any) -> Verdict:
        self.asked = {tuple(sorted(candidate)) for candidate in candidates}
        is_pair = len(candidates[0]) == 2
        return Verdict(np.arange(1.0, 1 + len(candidates)), -float(is_pair), 0.1)


def wide_fit(solver: Any, n_features: int = 40, **settings: Any) -> TPNNRegressor:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, n_features))
    quick = {**QUIET, "max_nodes": 4, "selection": "none", **settings}
    return TPNNRegressor(solver=solver, **quick).fit(X, X[:, 0] + rng.normal(size=120))


def notes(model: TPNNRegressor) -> list[str]:
    return [str(record["note"]) for record in told(model)]


def test_pairs_that_growth_confirms_are_added() -> None:
    """All pairs of forty features are asked about, and fifty of them are included."""
    solver = Confirming(max_rounds=2)
    model = wide_fit(solver, order=2)
    pairs = {s for s in model.components_ if len(s) == 2}
    assert len(solver.asked) == math.comb(40, 2)
    assert len(pairs) == 50
    most = math.ceil((1 - math.sqrt(0.05)) * 780)  # with 95 % of falls that rise evenly
    assert f"pairs: add 50 of {most}" in notes(model)


def test_pairs_that_growth_does_not_confirm_are_left_out() -> None:
    model = wide_fit(Grow(max_rounds=20), order=2)
    assert "pairs: not confirmed" in notes(model)
    assert max(map(len, model.components_)) == 1


@pytest.mark.parametrize(("n_features", "order"), [(40, 1), (100, 2)])  # 4950 pairs of a hundred
def test_nobody_is_asked_about_no_pairs_or_too_many(n_features: int, order: int) -> None:
    solver = Confirming(max_rounds=2)
    wide_fit(solver, n_features, order=order)
    assert not hasattr(solver, "asked")


def test_forbidden_pairs_are_not_asked_about() -> None:
    solver = Confirming(max_rounds=2)
    wide_fit(solver, order=2, interactions={"forbidden": [(0, 1)]})
    assert len(solver.asked) == math.comb(40, 2) - 1
    assert (0, 1) not in solver.asked
