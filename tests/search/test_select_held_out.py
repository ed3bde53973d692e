"""HeldOut: losses on the held-out rows of all bags, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.solvers.problem.test_problem import drawn, problem_of
from tpnn import ComponentSet
from tpnn.search.select import HeldOut
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Solution


@pytest.fixture(scope="module")
def solved() -> tuple[Problem, Solution]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    problem = problem_of(X, X[:, 0] + rng.normal(size=80), n_bags=3)
    problem = problem.with_components(ComponentSet.up_to(3, 2))
    return problem, drawn(problem)


def by_hand(problem: Problem, raw: np.ndarray) -> float:
    """Mean over the bags of half the squared error of their held-out rows; raw (n_rows, n_bags)."""
    losses = 0.5 * (problem.rows.y.astype(float) - raw) ** 2
    return float((losses * problem.rows.validation).sum(0).mean())


def test_loss(solved: tuple[Problem, Solution]) -> None:
    problem, solution = solved
    raw = problem.raw_scores(solution)
    assert HeldOut(problem, solution).loss == pytest.approx(by_hand(problem, raw))


def test_every_component_can_be_left_out(solved: tuple[Problem, Solution]) -> None:
    problem, solution = solved
    held_out = HeldOut(problem, solution)
    for index, component in enumerate(solution.components):
        values = problem.codes.values(component, solution.tables[index])
        without = by_hand(problem, problem.raw_scores(solution) - values)
        mean, error = held_out.change(held_out.raw - held_out.values(index))
        assert mean == pytest.approx(without - held_out.loss)
        assert error > 0


def test_no_change_has_no_error(solved: tuple[Problem, Solution]) -> None:
    held_out = HeldOut(*solved)
    assert held_out.change(held_out.raw) == (0.0, 0.0)


def test_a_row_that_all_bags_hold_out_counts_once() -> None:
    """Standard errors do not shrink with copies of the same bag."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 2))
    problem = problem_of(X, X[:, 0] + rng.normal(size=80), n_bags=1)
    solution = drawn(problem)
    one = HeldOut(problem, solution)
    rows = problem.rows
    copies = {
        name: np.repeat(getattr(rows, name), 4, axis=-1) for name in ("training", "validation")
    }
    repeated = replace(problem, rows=replace(rows, **copies))
    tables = [np.repeat(table, 4, axis=-1) for table in solution.tables]
    four = HeldOut(
        repeated, replace(solution, tables=tables, intercepts=np.repeat(solution.intercepts, 4))
    )
    assert four.loss == pytest.approx(one.loss)
    assert four.change(four.raw - four.values(0)) == pytest.approx(
        one.change(one.raw - one.values(0))
    )


def test_noise_of_a_component_is_half_its_variance_over_bags(
    solved: tuple[Problem, Solution],
) -> None:
    """The curvature of half the squared error is one."""
    problem, solution = solved
    held_out = HeldOut(problem, solution)
    for index, component in enumerate(solution.components):
        values = problem.codes.values(component, solution.tables[index])  # (n_rows, n_bags)
        variance = values.var(1, keepdims=True)
        expected = 0.5 * (problem.rows.validation * variance).sum(0).mean()
        assert held_out.averaged_noise(index) == pytest.approx(expected, rel=1e-5)


def test_enough_rows_are_enough(
    solved: tuple[Problem, Solution], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tpnn.search.select.ENOUGH_HELD_OUT_ROWS", 1)
    problem, solution = solved
    first = HeldOut(problem, solution)
    assert set(first.bags.tolist()) == {0}
    losses = 0.5 * (problem.rows.y - problem.raw_scores(solution)[:, :1]) ** 2
    expected = float((losses[:, 0] * problem.rows.validation[:, 0]).sum())
    assert first.loss == pytest.approx(expected)
