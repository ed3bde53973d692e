"""Selection: how components are ranked, and how many of them are kept."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.solvers.problem.test_problem import drawn, problem_of
from tpnn import ComponentSet, TPNNRegressor
from tpnn.search.select import HeldOut, Keep, ranking, required_components, select
from tpnn.solvers.solution import Limits

QUIET: dict[str, Any] = {"n_bags": 2, "random_state": 0, "verbose": 0}


def test_selection_drops_noise_and_keeps_signal() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2000, 6))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=2000)
    model = TPNNRegressor(selection="noise", **QUIET).fit(X, y)
    assert {("x0",), ("x1", "x2")} <= set(model.components_)
    assert len(model.components_) <= 5
    inherited = TPNNRegressor(selection="noise", interactions={"heredity": True}, **QUIET).fit(X, y)
    assert {("x1",), ("x2",), ("x1", "x2")} <= set(inherited.components_)


@pytest.mark.parametrize("selection", ["none", "noise", "one_se"])
def test_a_required_pair_is_in_the_smallest_model(selection: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    model = TPNNRegressor(
        interactions={"required": [(2, 3)]}, max_components=2, selection=selection, **QUIET
    ).fit(X, X[:, 0] + X[:, 1])
    assert len(model.components_) <= 2
    assert ("x2", "x3") in model.components_


def closed(components: list[tuple[str, ...]]) -> bool:
    """Whether all subsets of some components are among them."""
    subsets = (u for s in components for d in range(1, len(s)) for u in combinations(s, d))
    return set(subsets) <= set(components)


@pytest.mark.slow
def test_heredity_holds_for_every_model_of_the_path() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(1500, 5)), columns=list("abcde"))
    y = X.a * X.b + 0.7 * X.c * X.d + 0.3 * X.e + 0.1 * rng.normal(size=1500)
    settings = {**QUIET, "interactions": {"heredity": True}}
    path = TPNNRegressor(**settings).fit(X, y).path()
    seen: list[tuple[str, ...]] = []
    for step in path.steps:
        seen += step.added
        assert closed(seen)
        assert len(seen) == step.n_components
    sparse = TPNNRegressor(**settings, selection="one_se").fit(X, y).components_
    assert {("a", "b"), ("c", "d")} <= set(sparse)
    assert closed(sparse)
    rules = {"heredity": True, "required": [("b", "e")]}
    few = TPNNRegressor(**QUIET, max_components=3, interactions=rules)
    assert few.fit(X, y).components_ == [("b",), ("e",), ("b", "e")]
    with pytest.raises(ValueError, match=r"^max_components: must cover all required interactions"):
        few.set_params(max_components=2).fit(X, y)


def test_components_that_shapes_leave_nothing_of_are_not_kept() -> None:
    """What is zero everywhere takes no place of ``max_components``, unless it is required."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(3000, 5)), columns=list("abcde"))
    y = rng.poisson(np.exp(0.3 * X.a - 0.3 * X.b * (X.c > 0)))
    settings = {**QUIET, "objective": "poisson", "bands": False, "remainder": False}
    rules = {"shapes": {"b": "increasing", "d": "increasing"}, "max_components": 9}
    model = TPNNRegressor(**settings, **rules).fit(X, y).model_
    assert 1 < len(model.components) <= 9
    assert all(table.any() for table in model.tables)
    required = {"interactions": {"required": [("a", "b")]}}
    model = TPNNRegressor(**settings, **rules, **required).fit(X, y).model_
    assert ("a", "b") in model.component_names


def rule(**changes: Any) -> Keep:
    usual: dict[str, Any] = {
        "method": "none", "most": None, "heredity": False, "may_be_noise": False, "certain": (),
        "required": (),
    }  # fmt: skip
    return Keep.read(**{**usual, **changes})


@pytest.fixture(scope="module")
def held_out() -> HeldOut:
    """Held-out rows of a solution with random tables."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    problem = problem_of(X, X[:, 0] + rng.normal(size=120), n_bags=3)
    problem = problem.with_components(ComponentSet.up_to(3, 2))
    return HeldOut(problem, drawn(problem))


def test_losses_by_hand(held_out: HeldOut) -> None:
    """Loss without the components left out, and what averaging takes from their noise."""
    selection = select(held_out, rule())
    place = {tuple(sorted(s)): index for index, s in enumerate(held_out.components)}
    for count, (loss, error) in enumerate(zip(selection.losses, selection.errors, strict=True), 1):
        left_out = [place[s] for s in selection.order[count:]]
        raw = held_out.raw.copy()
        for index in left_out:
            raw -= held_out.values(index)
        mean, expected_error = held_out.change(raw)
        noise = sum(held_out.averaged_noise(i) for i in left_out)
        assert loss == pytest.approx(held_out.loss + mean + noise)
        assert error == pytest.approx(expected_error)
    assert selection.losses[-1] == pytest.approx(held_out.loss)
    assert selection.chosen == 6
    assert list(selection.kept) == sorted(selection.order, key=lambda s: (len(s), s))


def test_components_are_ranked_by_what_they_contribute(held_out: HeldOut) -> None:
    gains = {
        tuple(sorted(s)): held_out.change(held_out.raw - held_out.values(index))[0]
        + held_out.averaged_noise(index)
        for index, s in enumerate(held_out.components)
    }
    order = sorted(gains, key=gains.__getitem__, reverse=True)
    assert select(held_out, rule()).order == ranking(held_out, rule(method="noise")) == order


@pytest.mark.parametrize("required", [(), ((1, 2),), ((0, 1), (1, 2))])
def test_what_is_required_comes_first(held_out: HeldOut, required: Any) -> None:
    selection = select(held_out, rule(method="one_se", required=required, most=1))
    assert set(selection.order[: len(required)]) == set(required)
    assert selection.chosen == max(len(required), 1)


def test_heredity_puts_subsets_first(held_out: HeldOut) -> None:
    order = select(held_out, rule(heredity=True)).order
    for place, component in enumerate(order):
        assert all((feature,) in order[: place + 1] for feature in component)


def test_what_is_certain_is_clear_whatever_the_rows_say(held_out: HeldOut) -> None:
    certain = {(0,), (1, 2)}
    selection = select(held_out, rule(method="noise", certain=certain, may_be_noise=True))
    assert set(selection.kept) >= certain


class LooksLeft(Limits):
    """Limits that are reached after a number of looks at them."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        object.__setattr__(self, "looks", iter(range(looks)))

    def are_reached(self) -> bool:
        return next(self.looks, None) is None  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", ["none", "noise", "one_se"])
@pytest.mark.parametrize("looks", range(13))
def test_selection_stops_where_it_is(held_out: HeldOut, looks: int, method: str) -> None:
    """Six looks for the ranking, five for the losses; what was scored by then is right."""
    cut = select(held_out, rule(method=method), limits=LooksLeft(looks))
    whole = select(held_out, rule(method=method))
    assert sorted(cut.order) == sorted(whole.order)
    known = np.flatnonzero(np.isfinite(cut.losses))
    assert len(known) == min(max(looks - 5, 1), 6)
    assert cut.chosen > known.min()
    if looks >= 6:
        assert cut.order == whole.order
        assert np.array_equal(cut.losses[known], whole.losses[known])
    if looks >= 11:
        assert cut.chosen == whole.chosen


def test_more_is_required_than_there_may_be() -> None:
    assert len(required_components(((0, 1, 2),), True, 7)) == 7
    with pytest.raises(ValueError, match=r"^max_components: must cover .* found 6 for 7"):
        required_components(((0, 1, 2),), True, 6)
    assert list(required_components(((0, 1, 2),), False, 1)) == [(0, 1, 2)]


@pytest.mark.parametrize("rule", [{"selection": "one_se"}, {"max_components": 1}])
def test_where_nothing_was_learned_the_names_decide_and_not_the_places(rule: Any) -> None:
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=list("cab"))
    chosen = [
        TPNNRegressor(**QUIET, **rule).fit(X[list(names)], np.ones(40)).components_
        for names in ("abc", "cab", "bca")
    ]
    assert chosen == [[("a",)]] * 3
