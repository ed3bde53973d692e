"""Components of three and more features: grown on a residual, or left alone without one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tests.solvers.problem.test_problem import problem_of
from tpnn import ComponentSet, Grow
from tpnn.solvers.grow.deep import raw_scores
from tpnn.solvers.grow.higher_orders import HigherOrders
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Limits, NoProgress, Solution


def solve(problem: Problem) -> Solution:
    return Grow(max_rounds=60).solve(problem, Limits(n_threads=2), NoProgress())


def parity(seed: int = 0, n_rows: int = 500) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.choice([-1.0, 1.0], (n_rows, 3))
    return X, X[:, 0] * X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n_rows)


def loss(problem: Problem, solution: Solution) -> np.ndarray:
    raw = problem.raw_scores(solution)
    return (0.5 * (problem.rows.y - raw) ** 2 * problem.rows.validation).sum(0)


def test_a_triple_takes_its_part_and_stays_pure() -> None:
    problem = problem_of(*parity()).with_components(ComponentSet.up_to(3, 2))
    lower = solve(problem)
    whole = problem.with_components(ComponentSet.up_to(3, 3))
    higher = solve(whole)
    assert (loss(whole, higher) < 0.8 * loss(problem, lower)).all()
    assert [event.note for event in higher.events[-2:]] == ["triples"] * 2
    for component, table in zip(higher.components, higher.tables, strict=True):
        for place, feature in enumerate(component):
            weights = whole.encoder.axes[len(component)][feature].weights
            assert np.abs(np.tensordot(weights, table, (0, place))).max() < 1e-10


def test_without_signal_the_solution_stays_what_it_was() -> None:
    """A round that does not lower the held-out loss of a bag adds nothing to it."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 3))
    problem = problem_of(X, X[:, 0] + rng.normal(size=200), n_bags=8)
    lower = solve(problem.with_components(ComponentSet.up_to(3, 2)))
    higher = solve(problem.with_components(ComponentSet.up_to(3, 3)))
    idle = [e.bag for e in higher.events if e.note == "triples" and e.step == 0]
    triple = higher.tables[-1]
    assert idle
    for bag in range(8):
        assert triple[..., bag].any() == (bag not in idle)
    for mine, yours in zip(higher.tables[:-1], lower.tables, strict=True):
        assert np.allclose(mine[..., idle], yours[..., idle])


def test_subsets_join_a_triple_that_stands_alone() -> None:
    whole = problem_of(*parity()).with_components(ComponentSet(((0,), (1,), (2,), (0, 1, 2))))
    solution = solve(whole)
    assert sorted(map(len, solution.components)) == [1, 1, 1, 2, 2, 2, 3]


def test_names_of_levels_do_not_matter() -> None:
    """Levels are shuffled by the seed, not by their names, which only decide their order."""
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 3, (800, 3))
    y = np.where((codes % 2).sum(1) % 2, 1.0, -1.0) + 0.1 * rng.normal(size=800)

    def fitted(letters: str) -> float:
        X = pd.DataFrame(np.array(list(letters))[codes], columns=["u", "v", "w"])
        problem = problem_of(X, y).with_components(ComponentSet.up_to(3, 3))
        return float(loss(problem, solve(problem)).mean())

    for letters in ("abc", "bac", "cab"):
        assert fitted(letters) < 0.2


def test_grids_of_listed_components_predict_what_their_trees_do() -> None:
    """Trees stay within one component each, and no tree is counted twice."""
    rng = np.random.default_rng(2)
    X = rng.choice([-1.0, 1.0], (600, 5))  # all orders have these nodes
    y = X[:, 0] * X[:, 1] * X[:, 2] + np.sin(X[:, 2] + X[:, 3] * X[:, 4]) + rng.normal(size=600)
    listed = ComponentSet(
        (*ComponentSet.up_to(5, 1), (0, 1, 2), (2, 3, 4), (1, 2, 3))
    ).with_subsets()
    problem = problem_of(X, y).with_components(listed)
    lower = solve(problem.with_components(ComponentSet(tuple(s for s in listed if len(s) < 3))))
    solver = Grow(max_rounds=20)
    higher = HigherOrders(solver._deep(problem, None, Limits(n_threads=2), NoProgress()), 3)
    triples = [tuple(sorted(s)) for s in higher.components]
    assert sorted(triples) == [(0, 1, 2), (1, 2, 3), (2, 3, 4)]
    start = problem.raw_scores_by_bag(lower)
    bags = higher.growth.within(higher.components, start).grow()
    raw = problem.raw_scores(higher.fit(lower))
    for number, bag in enumerate(bags):
        assert bag.trees
        assert all(any(asked <= set(s) for s in triples) for asked in bag.asked)
        expected = start[number] + raw_scores(problem, bag, slice(None), 3)
        assert raw[:, number] == pytest.approx(expected[:, 0], abs=1e-9)


def test_order_four_grows_on_the_residual_of_lower_orders() -> None:
    rng = np.random.default_rng(4)
    X = rng.choice([-1.0, 1.0], (600, 4))
    y = X.prod(1) + X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=600)
    problem = problem_of(X, y)
    axes = problem.encoder.axes
    encoder = replace(problem.encoder, axes={**axes, 4: axes[3]})
    problem = replace(problem, encoder=encoder, codes=problem.codes.with_encoder(encoder))
    lower = solve(problem.with_components(ComponentSet.up_to(4, 2)))
    whole = problem.with_components(ComponentSet((*ComponentSet.up_to(4, 2), (0, 1, 2, 3))))
    higher = solve(whole)
    assert (loss(problem, higher) < 0.3 * loss(problem, lower)).all()
    assert sorted({event.note for event in higher.events}) == [
        "from 0", "from the smooth start", "mixed", "order 4", "triples"
    ]  # fmt: skip
