"""Selection: the path from sparse to full, and how many components are kept."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.problem.test_problem import drawn, problem_of
from tpnn import ComponentSet, TPNNRegressor
from tpnn.problem.problem import Task
from tpnn.problem.stopping import Limits
from tpnn.search.held_out import HeldOut
from tpnn.search.select import Keep, required_components, select

QUIET: dict[str, Any] = {"n_bags": 2, "random_state": 0, "verbose": 0}


def test_path_leads_from_sparse_to_full(table: Any) -> None:
    X, y = table
    model = TPNNRegressor(**QUIET).fit(X, y)
    path = model.path()
    assert [step.n_components for step in path.steps] == list(range(1, 11))
    assert {step.added for step in path.steps} == set(model.components_)
    np.testing.assert_array_equal(path.model(10).predict(X), model.predict(X))
    errors = [np.mean((path.model(k).predict(X) - y) ** 2) for k in (1, 5, 10)]
    assert errors == sorted(errors, reverse=True)
    sparse = path.one_standard_error()
    lowest = min(step.loss for step in path.steps)
    assert sparse.loss <= lowest + sparse.standard_error
    assert path.model(3).identifiability_error() < 1e-6
    with pytest.raises(ValueError, match=r"^n_components: must be a whole number from 1 to 10"):
        path.model(0)


def test_one_standard_error_and_budget(table: Any) -> None:
    X, y = table
    full = TPNNRegressor(**QUIET).fit(X, y)
    sparse = TPNNRegressor(selection="one_se", **QUIET).fit(X, y)
    assert len(sparse.components_) == full.path().one_standard_error().n_components
    few = TPNNRegressor(max_components=2, selection="none", **QUIET).fit(X, y)
    assert len(few.components_) <= 2


def test_selection_drops_noise_and_keeps_signal() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2000, 6))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=2000)
    model = TPNNRegressor(selection="noise", **QUIET).fit(X, y)
    assert {("x0",), ("x1", "x2")} <= set(model.components_)
    assert len(model.components_) <= 5
    inherited = TPNNRegressor(selection="noise", heredity=True, **QUIET).fit(X, y)
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
    settings = {**QUIET, "heredity": True}
    path = TPNNRegressor(**settings).fit(X, y).path()
    added = [step.added for step in path.steps]
    assert all(closed(added[:count]) for count in range(1, len(added) + 1))
    sparse = TPNNRegressor(**settings, selection="one_se").fit(X, y).components_
    assert {("a", "b"), ("c", "d")} <= set(sparse)
    assert closed(sparse)
    few = TPNNRegressor(**settings, max_components=3, interactions={"required": [("b", "e")]})
    assert few.fit(X, y).components_ == [("b",), ("e",), ("b", "e")]
    with pytest.raises(ValueError, match=r"^max_components: must cover all required interactions"):
        few.set_params(max_components=2).fit(X, y)


def rule(**changes: Any) -> Keep:
    usual: dict[str, Any] = {
        "method": "none", "most": None, "heredity": False, "screened": False, "certain": (),
        "required": (),
    }  # fmt: skip
    return Keep.read(**{**usual, **changes})


@pytest.fixture(scope="module")
def fitted() -> tuple[HeldOut, Any]:
    """Held-out rows and frozen model of a solution with random tables."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    problem = problem_of(X, X[:, 0] + rng.normal(size=120), n_bags=3)
    problem = problem.with_components(ComponentSet.up_to(3, 2))
    solution = drawn(problem)
    return HeldOut(problem, solution), problem.freeze(solution, Task(problem.objective))


def test_losses_of_the_path_by_hand(fitted: Any) -> None:
    """Loss without the components left out, and what averaging takes from their noise."""
    held_out, full = fitted
    path = select(held_out, full, rule())
    place = {tuple(sorted(s)): index for index, s in enumerate(held_out.components)}
    for step in path.steps:
        left_out = [place[s] for s in path.order[step.n_components :]]
        raw = held_out.raw.copy()
        for index in left_out:
            raw -= held_out.values(index)
        mean, error = held_out.change(raw)
        noise = sum(held_out.averaged_noise(i) for i in left_out)
        assert step.loss == pytest.approx(held_out.loss + mean + noise)
        assert step.standard_error == pytest.approx(error)
    assert path.steps[-1].loss == pytest.approx(held_out.loss)
    assert path.chosen == 6


@pytest.mark.parametrize("required", [(), ((1, 2),), ((0, 1), (1, 2))])
def test_what_is_required_comes_first(fitted: Any, required: Any) -> None:
    path = select(*fitted, rule(method="one_se", required=required, most=1))
    assert set(path.order[: len(required)]) == set(required)
    assert path.chosen == max(len(required), 1)


def test_heredity_puts_subsets_first(fitted: Any) -> None:
    order = select(*fitted, rule(heredity=True)).order
    for place, component in enumerate(order):
        assert all((feature,) in order[: place + 1] for feature in component)


def test_what_a_screen_found_is_clear_unless_the_rows_speak_against_it(fitted: Any) -> None:
    held_out, full = fitted
    certain = {(0,), (1, 2)}
    path = select(held_out, full, rule(method="noise", certain=certain, screened=True))
    assert set(path.order[: path.chosen]) >= certain


class LooksLeft(Limits):
    """Limits that are reached after a number of looks at them."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        object.__setattr__(self, "looks", iter(range(looks)))

    def are_reached(self) -> bool:
        return next(self.looks, None) is None  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", ["none", "noise", "one_se"])
@pytest.mark.parametrize("looks", range(13))
def test_selection_stops_where_it_is(fitted: Any, looks: int, method: str) -> None:
    """Six looks for the ranking, five for the path; what was scored by then is right."""
    held_out, full = fitted
    path = select(held_out, full, rule(method=method), limits=LooksLeft(looks))
    whole = select(held_out, full, rule(method=method))
    assert sorted(path.order) == sorted(whole.order)
    known = [step for step in path.steps if np.isfinite(step.loss)]
    assert len(known) == min(max(looks - 5, 1), 6)
    assert path.chosen >= min(step.n_components for step in known)
    if looks >= 6:
        assert path.order == whole.order
        assert known == whole.steps[6 - len(known) :]
    if looks >= 11:
        assert path.chosen == whole.chosen


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
