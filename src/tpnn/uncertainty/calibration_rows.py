"""HeldOutRows: predictions of training rows by the bags that did not see them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpnn._utils.arrays import BoolArray, FloatArray, IntArray
from tpnn.model.flat import FlatTable, flatten_table
from tpnn.model.model import AnovaModel
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.problem.row_scores import interpolated, training_columns
from tpnn.solvers.solution import Solution

MOST_ROWS = 20_000  # more say little more


@dataclass(frozen=True, eq=False, kw_only=True)
class HeldOutRows:
    """Rows that some bag held out, in the unit of the user."""

    places: IntArray  # (n,), among the distinct rows of the problem
    raw: FloatArray  # (n, K), with offset: mean of the bags that held the row out
    offset: FloatArray  # (n,)
    y: FloatArray  # (n, K); of classes, indicators of each class or of the second of two
    weights: FloatArray  # (n,), of sum one


def held_out_rows(problem: Problem, solution: Solution, model: AnovaModel) -> HeldOutRows | None:
    """Held-out predictions of up to ``MOST_ROWS`` rows; None where no bag held out a whole row.

    Balancing has moved the intercept of the model after the bags were averaged: the same shift is
    added here. A row that is divided between the two sides of a bag is not held out.
    """
    rows = problem.rows
    is_out: BoolArray = (rows.validation > 0) & (rows.training == 0)
    places = np.flatnonzero(is_out.any(1))
    places = places[:: -(-len(places) // MOST_ROWS) or 1]
    if not len(places):
        return None
    constants = problem.by_output(solution.intercepts)  # (n_bags, K)
    moved = model.intercepts - (problem.shift + problem.scale * constants.mean(0))
    chosen = problem.distinct.rows[places]
    scores = _held_out_means(problem, solution, chosen, is_out[places])
    offset = problem.targets.offset[chosen]
    mass = problem.distinct.weights[places]
    return HeldOutRows(
        places=places,
        raw=problem.shift + problem.scale * scores + moved + offset[:, None],
        offset=offset,
        y=problem.targets.y[chosen],
        weights=mass / mass.sum(),
    )


def _held_out_means(
    problem: Problem, solution: Solution, rows: IntArray, is_out: BoolArray
) -> FloatArray:
    """Raw scores (n, K) of rows on the training scale, mean of the bags that hold out.

    Offsets are left out.
    """
    columns = training_columns(problem, solution.components, rows)
    constants = problem.by_output(solution.intercepts)  # (n_bags, K)
    n_bags, n_outputs = constants.shape
    total = np.zeros((len(rows), n_outputs))
    by_bag: list[list[FlatTable]] = [[] for _ in range(n_bags)]
    for component, table in zip(solution.components, solution.tables, strict=True):
        lanes = problem.by_bag(component, table)  # (..., n_bags, K)
        flat = flatten_table(component, lanes.reshape(*lanes.shape[:-2], n_bags * n_outputs))
        for bag, tables in enumerate(by_bag):
            tables += flat[bag * n_outputs : (bag + 1) * n_outputs]
    for bag, tables in enumerate(by_bag):
        here = is_out[:, bag]
        if here.any():
            held_out = [column[here] if len(column) else column for column in columns]
            total[here] += interpolated(problem.encoder, tables, constants[bag], held_out)
    return np.asarray(total / is_out.sum(1, keepdims=True))
