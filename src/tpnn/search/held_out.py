"""HeldOut: what the held-out rows of all bags say about a solution."""

from __future__ import annotations

import numpy as np

from tpnn._typing import FloatArray
from tpnn.problem.problem import Problem
from tpnn.problem.solution import Solution

ENOUGH_ROWS = 200_000  # held-out rows; further bags add little


class HeldOut:
    """Scores of the held-out rows of the bags.

    Parameters
    ----------
    problem : Problem
        Coded rows, targets, bags.
    solution : Solution
        Tables of every component and bag.
    """

    def __init__(self, problem: Problem, solution: Solution) -> None:
        self.objective, self.codes = problem.objective, problem.codes
        self.components, self.tables = solution.components, solution.tables
        validation = problem.rows.validation
        n_rows = np.cumsum(np.count_nonzero(validation, 0))
        validation = validation[:, : int(np.searchsorted(n_rows, ENOUGH_ROWS)) + 1]
        self.bags, self.rows = np.nonzero(validation.T)
        self.weights = validation[self.rows, self.bags].astype(np.float64) / validation.shape[1]
        n_outputs = self.objective.n_outputs
        self.lanes = self.bags[:, None] * n_outputs + np.arange(n_outputs)
        self.y = problem.rows.y[self.rows]
        self.raw = problem.raw_scores(solution, self.rows, self.lanes)
        self.losses = self._losses(self.raw)
        self.curvature = self.objective.slopes(self.y, self.raw, self.weights[:, None])[1]

    @property
    def loss(self) -> float:
        """Mean loss."""
        return float(self.weights @ self.losses)

    def values(self, index: int) -> FloatArray:
        """Values of one component on the held-out rows, (n_held_out, K)."""
        return self.codes.values(self.components[index], self.tables[index], self.rows, self.lanes)

    def averaged_noise(self, index: int) -> float:
        """Loss that a component's noise costs each bag but not their mean."""
        table = self.tables[index]
        by_bag = table.reshape(*table.shape[:-1], -1, self.lanes.shape[1])
        variance = by_bag.var(-2)[self.codes.cells(self.components[index], self.rows)]
        return float(0.5 * self.weights @ (self.curvature * variance).sum(1))

    def change(self, raw: FloatArray) -> tuple[float, float]:
        """Mean difference of the loss of other scores to that of the model, and standard error.

        A row that several bags hold out counts once.
        """
        difference = self._losses(raw) - self.losses
        mean = float(self.weights @ difference)
        deviations = np.bincount(self.rows, self.weights * (difference - mean))
        return mean, float(np.sqrt(deviations @ deviations))

    def _losses(self, raw: FloatArray) -> FloatArray:
        losses: FloatArray = self.objective.losses(self.y, raw, self.weights[:, None])[:, 0]
        return losses
