"""Sigmoid widths: the steps of a main effect become sigmoids of width gamma.

A grid of values T on nodes u_1 < ... < u_M is a sum of steps at the midpoints b_k between nodes.
Giving each step the width gamma turns T into K T, where the rows of K sum to one:

    (K T)(u) = T_1 + sum_k (T_{k+1} - T_k) sigmoid((u - b_k) / gamma).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn._utils.threads import Workers
from tpnn.anova.components import Component
from tpnn.anova.measure import centre
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.problem.sums import totals
from tpnn.table.axis import Axis

CANDIDATE_WIDTHS = (0.004, 0.01, 0.03, 0.08)
ROWS_PER_THREAD = 20_000  # from which on threads are worth their while
MOST_HELD_OUT_ROWS = 250_000  # of all bags together; more choose no better


def smoother(positions: FloatArray, width: float) -> FloatArray:
    """Matrix K of shape (M, M) that gives every step of a grid the width gamma.

    >>> smoother(np.array([0.25, 0.75]), 1e-9).round(6)
    array([[1., 0.], [0., 1.]])
    """
    middles = (positions[1:] + positions[:-1]) / 2
    logits = np.clip((positions[:, None] - middles) / width, -500, 500)
    steps = 1 / (1 + np.exp(-logits))
    ones, zeros = np.ones((len(positions), 1)), np.zeros((len(positions), 1))
    return np.hstack([ones, steps]) - np.hstack([steps, zeros])


def choose_widths(
    problem: Problem, tables: dict[Component, FloatArray], held_out: Sequence[FloatArray]
) -> dict[Component, FloatArray]:
    """Give each main effect the sigmoid width that minimises the held-out loss of all bags.

    ``held_out`` holds the raw scores of each bag's held-out rows. Pairs keep their steps:
    interpolation between nodes smooths them enough, and widths chosen for them overfit the held-out
    rows of small tables.
    """
    chosen = dict(tables)
    most = MOST_HELD_OUT_ROWS // problem.n_bags  # rows are in random order
    of_bags = [np.flatnonzero(weights)[:most] for weights in problem.rows.validation.T]
    bags = np.repeat(np.arange(problem.n_bags), [len(rows) for rows in of_bags])
    rows = np.concatenate(of_bags)
    mass, y = problem.rows.validation[rows, bags][:, None], problem.rows.y[rows]
    n_outputs = problem.objective.n_outputs
    lanes = bags[:, None] * n_outputs + np.arange(n_outputs)
    raw = np.concatenate([scores[:most] for scores in held_out])

    def judged(score: FloatArray) -> float:
        return float(totals(mass * problem.objective.losses(y, score, mass))[0])

    with Workers(problem.codes.n_threads if len(rows) > ROWS_PER_THREAD else 1) as workers:
        for component, table in tables.items():
            axis = problem.encoder.axes[1][component[0]]
            if len(component) > 1 or not axis.has_steps:
                continue
            nodes = problem.codes.cells(component, rows)[0].astype(np.intp)[:, None]
            cells = nodes * table.shape[1] + lanes
            candidates = [table, *workers.map(partial(_widened, table, axis), CANDIDATE_WIDTHS)]
            without = raw - table.reshape(-1).take(cells)
            scores = workers.map(partial(_moved, without, cells), candidates)
            best = int(np.argmin(workers.map(judged, scores)))
            chosen[component], raw = candidates[best], scores[best]
    return chosen


def _moved(raw: FloatArray, cells: IntArray, table: FloatArray) -> FloatArray:
    """Add the values of a grid in the cells of the rows, numbered in its order, to raw scores."""
    moved: FloatArray = raw + table.reshape(-1).take(cells)
    return moved


def _widened(table: FloatArray, axis: Axis, width: float) -> FloatArray:
    """Give the steps of a main effect (M, n_lanes) a width, except for the missing node."""
    wide = smoother(axis.positions[axis.regular], width) @ table[axis.regular]
    return centre(axis.with_missing(wide, table[axis.missing]), [axis.weights])
