"""Growth of main effects and pairs adds whole numbers: the order of rows changes no bit of it.

Deep trees need rows in canonical order: they draw weights by the place of a row.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tpnn import ComponentSet, Grow
from tpnn.loss.objectives import OBJECTIVES
from tpnn.solvers.problem.coded import Codes
from tpnn.solvers.problem.problem import Bagging, Problem
from tpnn.solvers.problem.rows import Targets, TrainingRows
from tpnn.solvers.solution import Limits, NoProgress
from tpnn.table.encoder import TableEncoder
from tpnn.table.table import Table

NODES = {1: 12, 2: 8}


def shuffled(problem: Problem, seed: int) -> Problem:
    """Return the same problem with its coded rows in another order."""
    order = np.random.default_rng(seed).permutation(len(problem.rows.y))
    rows = problem.rows
    by_row = (part[order] for part in (rows.y, rows.offset, rows.training, rows.validation))
    codes = Codes(problem.codes.table, problem.encoder, problem.codes.rows[order])
    return replace(problem, rows=TrainingRows(*by_row, rows.sizes), codes=codes)


def solved(problem: Problem, **parameters: object) -> list[np.ndarray]:
    solver = Grow(**{"max_rounds": 60, **parameters})
    solution = solver.solve(problem, Limits(n_threads=2), NoProgress())
    return [solution.intercepts, *solution.tables]


@pytest.mark.parametrize(
    ("objective", "order"),
    [("squared_error", 1), ("squared_error", 2), ("poisson", 2), ("absolute_error", 2)],
)  # fmt: skip
def test_rows_in_any_order_give_the_same_bits(objective: str, order: int) -> None:
    rng = np.random.default_rng(order)
    X = rng.normal(size=(400, 4))
    X[rng.random(X.shape) < 0.05] = np.nan
    signal = np.sin(2 * np.nan_to_num(X[:, 0])) + np.nan_to_num(X[:, 1] * X[:, 2])
    y = rng.poisson(np.exp(signal)).astype(float) if objective == "poisson" else signal
    table = Table(X)
    problem = Problem.build(
        table, TableEncoder.fit(table, NODES), Targets(y[:, None], None, np.zeros(len(y))),
        OBJECTIVES[objective], Bagging(2, 0.2, 0), {},
    ).with_components(ComponentSet.up_to(4, order))  # fmt: skip
    expected = solved(problem)
    for seed in range(2):
        found = solved(shuffled(problem, seed))
        assert all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))
