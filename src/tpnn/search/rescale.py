"""Rescaling: the best intercepts and the best size of components whose subsets were left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tpnn._typing import FloatArray
from tpnn.problem.problem import Problem
from tpnn.problem.solution import Solution
from tpnn.search.held_out import HeldOut

NEWTON_STEPS = 10
SMALLEST_CURVATURE = 1e-12  # below it a direction stays as it is


def rescaled(problem: Problem, solution: Solution) -> Solution:
    """Solution with shift + factor * f in place of f, chosen on the held-out rows of all bags.

    A component left out leaves the intercept, and for a loss that is not quadratic the size of all
    others, where they were best together with it. There is one shift for each output and one
    factor; they are found by Newton steps and adopted if the held-out loss falls.
    """
    held_out = HeldOut(problem, solution)
    constants = solution.intercepts[held_out.lanes]  # (n, K)
    offset = problem.rows.offset[held_out.rows]
    sums = held_out.raw - constants - offset
    shift, factor = np.zeros(sums.shape[1]), 1.0
    for _ in range(NEWTON_STEPS):
        raw = offset + constants + shift + factor * sums
        steps = _newton(held_out, raw, sums)
        shift, factor = shift - steps[:-1], factor - steps[-1]
    mean, _ = held_out.change(offset + constants + shift + factor * sums)
    if not mean < 0:
        return solution
    tables = [factor * table for table in solution.tables]
    n_bags = len(solution.intercepts) // len(shift)
    intercepts = solution.intercepts + np.tile(shift, n_bags)
    terms = solution.terms and [t._replace(beta=factor * t.beta) for t in solution.terms]
    return replace(solution, tables=tables, intercepts=intercepts, terms=terms)


def _newton(held_out: HeldOut, raw: FloatArray, sums: FloatArray) -> FloatArray:
    """Newton step of the shifts (K,) and of the factor, (K + 1,)."""
    weights = held_out.weights[:, None]
    slope, curvature = held_out.objective.slopes(held_out.y, raw, weights)
    slope, curvature = weights * slope, weights * curvature
    n_outputs = raw.shape[1]
    hessian = np.diag(np.append(curvature.sum(0), (curvature * sums**2).sum()))
    hessian[-1, :n_outputs] = hessian[:n_outputs, -1] = (curvature * sums).sum(0)
    hessian += SMALLEST_CURVATURE * np.eye(n_outputs + 1)
    return np.linalg.solve(hessian, np.append(slope.sum(0), (slope * sums).sum()))
