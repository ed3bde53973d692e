"""Rescaling: intercept and size of what is left, against least squares."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.solvers.problem.test_problem import drawn, problem_of
from tpnn import ComponentSet
from tpnn.loss.objectives import OBJECTIVES
from tpnn.search.rescale import rescaled
from tpnn.search.select import HeldOut
from tpnn.solvers.problem.problem import Problem


def test_shift_and_factor_are_those_of_least_squares() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    problem = problem_of(X, 3 + X[:, 0] + rng.normal(size=200), n_bags=3)
    problem = problem.with_components(ComponentSet.up_to(3, 2))
    solution = drawn(problem).restrict({(0, 1), (2,)})
    assert {tuple(sorted(s)) for s in solution.components} == {(0, 1), (2,)}
    held_out = HeldOut(problem, solution)
    constants = solution.intercepts[held_out.lanes][:, 0]
    sums, root = held_out.raw[:, 0] - constants, np.sqrt(held_out.weights)
    design = np.column_stack([np.ones_like(sums), sums]) * root[:, None]
    target = (held_out.y[:, 0] - constants) * root
    shift, factor = np.linalg.lstsq(design, target, rcond=None)[0]
    again = rescaled(problem, solution)
    assert again.intercepts == pytest.approx(solution.intercepts + shift)
    for new, old in zip(again.tables, solution.tables, strict=True):
        assert new == pytest.approx(factor * old)
    assert HeldOut(problem, again).loss < held_out.loss
    assert rescaled(problem, again).intercepts == pytest.approx(again.intercepts)


def labels_of(problem: Problem, labels: np.ndarray) -> np.ndarray:
    return labels[problem.distinct.rows, None].astype(np.float32)


def test_probabilities_are_right_on_average() -> None:
    """At the optimum of the shift the mean gradient is zero: mean probability = mean label."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 2))
    labels = (X[:, 0] + rng.normal(size=300) > 1).astype(float)
    problem = replace(problem_of(X, labels), objective=OBJECTIVES["log_loss"])
    problem = replace(problem, rows=replace(problem.rows, y=labels_of(problem, labels)))
    again = rescaled(problem, drawn(problem).restrict({(1,)}))
    held_out = HeldOut(problem, again)
    mean = held_out.weights @ (1 / (1 + np.exp(-held_out.raw[:, 0])))
    assert mean == pytest.approx(float(held_out.weights @ held_out.y[:, 0]), abs=1e-6)
