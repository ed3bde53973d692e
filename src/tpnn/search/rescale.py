"""Rescaling: the best intercepts and the best size of components whose subsets were left out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.search.select import HeldOut
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Solution

NEWTON_STEPS = 10
STEP_SHARES = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01)  # of a Newton step; the first that lowers the loss
SMALLEST_CURVATURE = 1e-12  # below it a direction stays as it is


def rescaled(problem: Problem, solution: Solution) -> Solution:
    """Solution with shift + factor * f in place of f, chosen on the held-out rows of all bags.

    A component left out leaves the intercept, and for a loss that is not quadratic the size of all
    others, where they were best together with it. There is one shift for each output and one
    factor, and they are found by Newton steps.
    """
    *shift, factor = _Rescaling.of(problem, solution).best().tolist()
    n_bags = len(solution.intercepts) // len(shift)
    return replace(
        solution,
        intercepts=solution.intercepts + np.tile(shift, n_bags),
        tables=[factor * table for table in solution.tables],
        terms=solution.terms and [t._replace(beta=factor * t.beta) for t in solution.terms],
    )


@dataclass(frozen=True)
class _Rescaling:
    """Raw scores of the held-out rows as base + shift + factor * sums, arrays of shape (n, K)."""

    held_out: HeldOut
    base: FloatArray
    sums: FloatArray

    @classmethod
    def of(cls, problem: Problem, solution: Solution) -> _Rescaling:
        held_out = HeldOut(problem, solution)
        base = problem.rows.offset[held_out.rows] + solution.intercepts[held_out.lanes]
        return cls(held_out, base, held_out.raw - base)

    def best(self) -> FloatArray:
        """Shifts and factor (K + 1,) of the lowest held-out loss."""
        best, lowest = np.append(np.zeros(self.sums.shape[1]), 1.0), 0.0
        for _ in range(NEWTON_STEPS):
            step = self._newton(best)
            for share in STEP_SHARES:
                change = self.held_out.change(self._raw(best - share * step))[0]
                if change < lowest:
                    best, lowest = best - share * step, change
                    break
            else:
                break
        return best

    def _raw(self, values: FloatArray) -> FloatArray:
        raw: FloatArray = self.base + values[:-1] + values[-1] * self.sums
        return raw

    def _newton(self, values: FloatArray) -> FloatArray:
        """Newton step of the shifts and of the factor, (K + 1,)."""
        held_out, sums = self.held_out, self.sums
        weights = held_out.weights[:, None]
        slopes = held_out.objective.slopes(held_out.y, self._raw(values), weights)
        slope, curvature = (weights * part for part in slopes)
        hessian = np.diag(np.append(curvature.sum(0), (curvature * sums**2).sum()))
        hessian[-1, :-1] = hessian[:-1, -1] = (curvature * sums).sum(0)
        hessian += SMALLEST_CURVATURE * np.eye(len(values))
        return np.linalg.solve(hessian, np.append(slope.sum(0), (slope * sums).sum()))
