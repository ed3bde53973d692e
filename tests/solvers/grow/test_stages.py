"""Main effects and pairs: starts, mixtures and shapes of the bags."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.solvers.problem.test_problem import problem_of
from tpnn import ComponentSet, Grow, TPNNRegressor
from tpnn.anova.measure import Marginal
from tpnn.solvers.grow import stages as lower
from tpnn.solvers.grow.forest import (
    LARGEST_RIDGE_SHARE,
    MAIN_TREE,
    Layout,
    axis_kinds,
    tree_for_size,
)
from tpnn.solvers.grow.rectangles import MISSING, NOMINAL, ORDERED
from tpnn.solvers.grow.ridge_start import zero_start
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Event, Limits, NoProgress, Solution


@pytest.fixture(scope="module")
def problem() -> Problem:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=300)
    return problem_of(X, y, n_bags=3).with_components(ComponentSet.up_to(3, 2))


class Watch(NoProgress):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.totals: list[int] = []
        self.events: list[Event] = []

    def begin(self, total: int, unit: str) -> None:
        self.totals.append(total)

    def advance(self, event: Event) -> None:
        self.events.append(event)


def solve(problem: Problem, watch: Any = None, **parameters: Any) -> Solution:
    solver = Grow(**{"max_rounds": 60, **parameters})
    return solver.solve(problem, Limits(n_threads=2), watch or NoProgress())


def loss(problem: Problem, solution: Solution) -> np.ndarray:
    """Held-out loss of every bag, from the solution's tables."""
    raw = problem.raw_scores(solution)
    return (0.5 * (problem.rows.y - raw) ** 2 * problem.rows.validation).sum(0)


def test_the_mixture_is_no_worse_than_either_start(problem: Problem) -> None:
    """Before widths are chosen; choosing them on the same rows makes no loss higher."""
    mixed = solve(problem)
    ends = {
        note: np.mean([e.validation_loss for e in mixed.events if e.note == note])
        for note in ("from 0", "from the smooth start")
    }
    assert loss(problem, mixed).mean() <= min(ends.values()) + 1e-5


def linear_problem(n_bags: int) -> Problem:
    """Return a problem that the smooth start solves, so that growth from zero is not needed."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 3))
    y = X @ [2.0, -1.0, 1.0] + 0.3 * rng.normal(size=300)
    return problem_of(X, y, n_bags=n_bags).with_components(ComponentSet.up_to(3, 2))


def bags_from_zero(solution: Solution) -> list[int]:
    return [event.bag for event in solution.events if event.note == "from 0"]


def test_a_way_that_the_first_bags_do_not_need_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is the one for which all bags have grown in both ways."""
    problem = linear_problem(n_bags=12)
    solution = solve(problem)
    assert bags_from_zero(solution) == [0, 1, 2, 3]
    monkeypatch.setattr(lower, "AHEAD_SHARE", 1.0)
    whole = solve(problem)
    assert bags_from_zero(whole) == list(range(12))
    for one, other in zip(solution.tables, whole.tables, strict=True):
        np.testing.assert_array_equal(one, other)


def test_all_bags_grow_from_zero_where_that_helps() -> None:
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(600, 2))
    y = (X[:, 0] > 0.5) + 0.3 * rng.normal(size=600)
    problem = problem_of(X, y, n_bags=6).with_components(ComponentSet.up_to(2, 2))
    assert bags_from_zero(solve(problem)) == list(range(6))


def test_losses_of_the_events_are_those_of_the_tables(problem: Problem) -> None:
    """With one start nothing is mixed; widths may only lower the mean over the bags."""
    solution = solve(problem, growth="smooth")
    told = [event.validation_loss for event in solution.events]
    assert loss(problem, solution).mean() <= np.mean(told) + 1e-5
    assert loss(problem, solution) == pytest.approx(np.array(told), rel=0.2)


def test_progress_is_told_of_every_growth_of_every_bag(problem: Problem) -> None:
    watch = Watch()
    solution = solve(problem, watch)
    assert watch.totals == [3 * 3]  # from zero, from the smooth start, and on from their mixture
    assert len(watch.events) == 9
    assert sorted(watch.events, key=lambda e: (e.bag, e.note)) == solution.events


def test_the_solution_is_pure_and_in_canonical_order(problem: Problem) -> None:
    solution = solve(problem)
    assert solution.components == problem.ordered
    for component, table in zip(solution.components, solution.tables, strict=True):
        for place, feature in enumerate(component):
            weights = problem.encoder.axes[len(component)][feature].weights
            assert np.abs(np.tensordot(weights, table, (0, place))).max() < 1e-12


def test_bags_differ(problem: Problem) -> None:
    solution = solve(problem)
    assert solution.intercepts.shape == (3,)
    assert not np.array_equal(solution.tables[0][..., 0], solution.tables[0][..., 1])


def test_a_problem_from_zero_is_the_constant(problem: Problem) -> None:
    start = zero_start(problem, problem.best_constant)
    mains, pairs = start.by_order
    assert mains.shape[:2] == (1, 3)
    assert pairs.shape[:2] == (1, 3)
    assert not mains.any()
    assert not pairs.any()
    assert start.intercepts is problem.best_constant


def test_how_trees_may_cut_an_axis() -> None:
    marginal = Marginal.stack([np.linspace(0, 1, 3)] * 3, [np.full(3, 1 / 3)] * 3)
    nominal, missing = np.array([False, False, True]), np.array([False, True, True])
    marginal = replace(marginal, nominal=nominal, missing=missing)
    assert axis_kinds(marginal).tolist() == [ORDERED, MISSING, NOMINAL]
    layout = Layout.of(marginal, marginal, [2, 0], {0: "decreasing", 1: "increasing"})
    assert layout.signs.tolist() == [0.0, -1.0]
    assert layout.kinds[0].tolist() == [NOMINAL, ORDERED]


def test_few_rows_get_light_leaves() -> None:
    small = tree_for_size(MAIN_TREE, 20.0)
    assert small.ridge == small.min_mass == pytest.approx(LARGEST_RIDGE_SHARE * 20)
    assert tree_for_size(MAIN_TREE, 1e6) == MAIN_TREE


def distance_of_blocks(**components: Any) -> float:
    """Distance of a fit from a truth of five jumps along the first of three features."""
    rng = np.random.default_rng(0)
    X = rng.random((800, 3))
    truth = (X[:, :1] > [0.1, 0.15, 0.27, 0.42, 0.78]) @ [1.2, -1.5, 1.0, -1.4, 1.6]
    model = TPNNRegressor(n_bags=4, bands=False, random_state=0, verbose=0, **components)
    fitted = model.fit(X, truth + 0.4 * rng.normal(size=800)).predict(X)
    return float(np.sqrt(np.mean((fitted - truth) ** 2)))


def test_rough_main_effects_do_not_stall_beside_a_pair_without_effect() -> None:
    with_pair = distance_of_blocks(interactions=[(1, 2)])
    assert with_pair < 1.15 * distance_of_blocks(order=1)


def test_smooth_starts_stay_where_main_effects_alone_gain_little(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    solution = solve(problem)
    monkeypatch.setattr(lower, "ROUGH_GAINS", (np.inf, np.inf))
    never = solve(problem)
    assert all(map(np.array_equal, solution.tables, never.tables))
