"""Interactions are ranked by the columns of the table, however these are arranged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tpnn.anova.components import ComponentSet
from tpnn.loss.objectives import OBJECTIVES
from tpnn.search.table_screen import TableScreen
from tpnn.solvers.problem.problem import Bagging, Problem
from tpnn.solvers.problem.rows import Targets
from tpnn.solvers.solution import Limits, NoProgress
from tpnn.table.encoder import TableEncoder
from tpnn.table.table import Table


def problem_of(X: np.ndarray, y: np.ndarray) -> Problem:
    table = Table(X)
    encoder = TableEncoder.fit(table, {1: 32, 2: 16})
    targets = Targets(y[:, None], None, np.zeros(len(y)))
    objective, bagging = OBJECTIVES["squared_error"], Bagging(1, 0.15, 0)
    return Problem.build(table, encoder, targets, objective, bagging, {})


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (800, 5))
    return X, 3 * X[:, 1] * X[:, 4] + 0.1 * rng.normal(size=800)


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (2, 4, 0, 1, 3)])
def test_the_best_pair_is_named_by_its_columns(data: Any, order: tuple[int, ...]) -> None:
    X, y = data
    screen = TableScreen(problem_of(X[:, order], y), None, Limits())
    ranking = screen.rank(2, 10)
    expected = tuple(sorted((order.index(1), order.index(4))))
    assert ranking.found == [expected]
    among = screen.rank(2, 10, [feature for feature in range(5) if feature != expected[0]])
    assert all(expected[0] not in pair for pair in among.components)


def test_scores_do_not_depend_on_the_order_of_columns(data: Any) -> None:
    X, y = data
    order = [3, 0, 4, 2, 1]
    first = TableScreen(problem_of(X, y), None, Limits()).rank(2, 10)
    second = TableScreen(problem_of(X[:, order], y), None, Limits()).rank(2, 10)
    renamed = [tuple(sorted(order[j] for j in pair)) for pair in second.components]
    assert dict(zip(first.components, first.scores, strict=True)) == pytest.approx(
        dict(zip(renamed, second.scores, strict=True)), rel=1e-5
    )


def test_features_of_the_best_pairs_do_not_depend_on_the_order_of_columns(data: Any) -> None:
    """Not even the last one, where only one feature of a pair is among them."""
    X, y = data
    order = [3, 0, 4, 2, 1]
    for most in range(1, 6):
        first = TableScreen(problem_of(X, y), None, Limits()).features_of_best_pairs(most)
        second = TableScreen(problem_of(X[:, order], y), None, Limits())
        assert [order[j] for j in second.features_of_best_pairs(most)] == first


def test_the_residual_of_a_solution_has_lost_what_the_solution_explains(data: Any) -> None:
    from tpnn import Grow

    X, y = data
    problem = problem_of(X, y).with_components(ComponentSet.with_mains(5, [(1, 4)]))
    solution = Grow().solve(problem, Limits(), NoProgress())
    before = TableScreen(problem, None, Limits()).rank(2, 1)
    after = TableScreen(problem, solution, Limits()).rank(2, 10)
    left = dict(zip(after.components, after.scores, strict=True))[1, 4]
    assert left < before.scores[0] / 20


def test_very_many_rows_are_screened_in_part(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpnn.search.table_screen.MOST_SCREENED_ROWS", 500)
    screen = TableScreen(problem_of(*data), None, Limits())
    assert (screen.n_rows, screen.screen.codes.shape) == (500, (5, 500))
    assert screen.rank(2, 10).found == [(1, 4)]
