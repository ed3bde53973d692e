"""Problem: canonical rows and columns inside, the user's outside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tpnn import ComponentSet
from tpnn.loss.objectives import OBJECTIVES
from tpnn.model.task import Task
from tpnn.solvers.problem.problem import Bagging, Problem
from tpnn.solvers.problem.rows import Targets
from tpnn.solvers.solution import Solution
from tpnn.table.encoder import TableEncoder
from tpnn.table.table import Table


def problem_of(X: Any, y: np.ndarray, n_bags: int = 2, weights: Any = None) -> Problem:
    table = Table(X)
    encoder = TableEncoder.fit(table, {1: 12, 2: 5, 3: 3}, weights)
    targets = Targets(y[:, None], weights, np.zeros(len(y)))
    bagging = Bagging(n_bags, 0.2, 0)
    return Problem.build(table, encoder, targets, OBJECTIVES["squared_error"], bagging, {})


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=60), rng.exponential(size=60), rng.integers(0, 4, 60)])
    return X, X[:, 0] + rng.normal(size=60)


def drawn(problem: Problem, seed: int = 0) -> Solution:
    """A solution with random tables."""
    rng = np.random.default_rng(seed)
    n_nodes = {len(part.features[0]): part.n_nodes for part in problem.coded}
    tables = [
        rng.normal(size=(*[n_nodes[len(s)]] * len(s), problem.n_bags)) for s in problem.ordered
    ]
    return Solution(
        components=problem.ordered,
        intercepts=rng.normal(size=problem.n_bags),
        tables=tables,
        terms=None,
        events=[],
    )


def test_rows_and_columns_in_any_order_are_one_problem(data: Any) -> None:
    X, y = data
    rng = np.random.default_rng(1)
    rows, columns = rng.permutation(60), [2, 0, 1]
    one, other = problem_of(X, y), problem_of(X[rows][:, columns], y[rows])
    assert np.array_equal(one.rows.y, other.rows.y)
    assert np.array_equal(one.rows.training, other.rows.training)
    assert [[columns[j] for j in s] for s in other.ordered] == [list(s) for s in one.ordered]
    for mine, yours in zip(one.coded, other.coded, strict=True):
        assert np.array_equal(mine.codes[columns], yours.codes)


def test_copies_become_weights(data: Any) -> None:
    X, y = data
    once, twice = problem_of(X, y), problem_of(np.vstack([X, X]), np.concatenate([y, y]))
    assert len(twice.rows.y) == len(once.rows.y) == 60
    assert np.array_equal(twice.rows.training, once.rows.training)


def test_with_components_keeps_what_is_coded(data: Any) -> None:
    problem = problem_of(*data)
    codes = problem.codes.by_order[1]
    pairs = problem.with_components(ComponentSet.up_to(3, 2))
    assert pairs.codes.by_order[1] is codes
    assert [len(part.features) for part in pairs.coded] == [3, 3]
    assert len(problem.coded) == 1


def test_with_bags_draws_the_same_first_bags(data: Any) -> None:
    few = problem_of(*data, n_bags=2)
    many = few.with_bags(5)
    assert many.n_bags == 5
    assert many.rows.training.shape == (60, 5)
    assert np.array_equal(many.rows.training[:, :2], few.rows.training)
    assert np.array_equal(many.rows.y, few.rows.y)


def test_raw_scores_are_sums_of_table_entries(data: Any) -> None:
    problem = problem_of(*data).with_components(ComponentSet.up_to(3, 3))
    solution = drawn(problem)
    raw = problem.raw_scores(solution)
    assert raw.shape == (60, 2)
    for row in (0, 17, 59):
        expected = solution.intercepts.copy()
        for component, table in zip(solution.components, solution.tables, strict=True):
            codes = problem.codes.by_order[len(component)]
            expected += table[tuple(codes[feature][row] for feature in component)]
        assert raw[row] == pytest.approx(expected)
    rows, lanes = np.array([3, 4]), np.array([[1], [0]])
    own = problem.raw_scores(solution, rows, lanes)
    assert own.tolist() == [[raw[3, 1]], [raw[4, 0]]]


def test_freezing_averages_the_bags_and_restores_the_users_scale(data: Any) -> None:
    """On rows, which are nodes here, the frozen model is the mean of the bags' raw scores."""
    X = pd.DataFrame(np.round(data[0]), columns=["a", "b", "c"])
    problem = problem_of(X, data[1]).with_components(ComponentSet.up_to(3, 2))
    solution = drawn(problem)
    model = problem.freeze(solution, Task(OBJECTIVES["squared_error"]))
    assert model.component_names == ComponentSet.up_to(3, 2).names(["a", "b", "c"])
    same_nodes = [s for s in model.components if len(s) == 1]
    assert len(same_nodes) == 3
    inside = problem.raw_scores(solution).mean(1)
    rows = X.iloc[problem.distinct.rows]
    fine = all(axis.n_nodes <= 5 for axis in problem.encoder.axes[2])
    assert fine, "every value is a node"
    outside = problem.shift + problem.scale * inside
    assert model.raw_scores(rows) == pytest.approx(outside)


@pytest.mark.parametrize("unit", [1.0, 1e-30])
def test_rounding_errors_of_own_losses_are_relative_to_the_largest_table(
    data: Any, unit: float
) -> None:
    """Own losses have any unit, and their constant may be zero."""
    own = replace(OBJECTIVES["squared_error"], standardised=False)
    problem = replace(problem_of(*data).with_components(ComponentSet.up_to(3, 1)), objective=own)
    solution = drawn(problem)
    tables = [unit * scale * t for t, scale in zip(solution.tables, (1, 1e-20, 1e-3), strict=True)]
    solution = replace(solution, tables=tables, intercepts=0 * solution.intercepts)
    model = problem.freeze(solution, Task(own))
    assert [bool(table.any()) for table in model.tables] == [
        solution.components.index(s) != 1 for s in model.components
    ]


def test_raw_scores_by_bag_are_those_of_all_lanes(data: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("tpnn.solvers.problem.problem.ROWS_PER_BLOCK", 7)
    problem = problem_of(*data)
    solution = drawn(problem)
    by_bag = problem.raw_scores_by_bag(solution)
    assert np.array_equal(by_bag[:, :, 0].T, problem.raw_scores(solution))


def test_a_sample_has_some_rows_with_all_that_belongs_to_them(data: Any) -> None:
    problem = problem_of(*data)
    solution, sample = drawn(problem), problem.sampled(20)
    some = np.arange(0, 60, 3)
    assert np.array_equal(sample.distinct.rows, problem.distinct.rows[some])
    assert np.array_equal(sample.rows.y, problem.rows.y[some])
    assert np.array_equal(sample.raw_scores(solution), problem.raw_scores(solution, some))
    for side in ("training", "validation"):
        weights, whole = (getattr(p.rows, side) for p in (sample, problem))
        assert np.allclose(weights.sum(0), 1)
        assert np.allclose(weights * whole[some].sum(0), whole[some])
    in_rows = problem.rows.training[some] * problem.rows.sizes
    assert np.allclose(sample.rows.training * sample.rows.sizes, in_rows)


def test_a_sample_of_enough_rows_is_the_problem_itself(data: Any) -> None:
    problem = problem_of(*data)
    assert problem.sampled(60) is problem
    assert problem.sampled(1) is problem  # a bag would have no held-out row
