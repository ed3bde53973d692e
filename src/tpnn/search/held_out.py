"""HeldOut: the loss of a solution on the held-out rows of all bags."""

from __future__ import annotations

from copy import copy

import numpy as np

from tpnn._utils.arrays import BoolArray, FloatArray, RealArray
from tpnn.loss.objectives import Objective
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Solution

ENOUGH_HELD_OUT_ROWS = 200_000  # bags beyond these add little


class HeldOut:
    """Raw scores and losses of the held-out rows of all bags."""

    def __init__(
        self,
        problem: Problem,
        solution: Solution,
        counted: BoolArray | None = None,  # (n,): rows that count; None for all
    ) -> None:
        self.objective, self.codes = problem.objective, problem.codes
        self.components, self.tables = solution.components, solution.tables
        validation = problem.rows.validation
        if counted is not None:
            validation = validation * counted[:, None]
            validation = validation * (validation.shape[1] / validation.sum())
        n_rows = np.cumsum(np.count_nonzero(validation, 0))
        validation = validation[:, : int(np.searchsorted(n_rows, ENOUGH_HELD_OUT_ROWS)) + 1]
        self.bags, self.rows = np.nonzero(validation.T)
        self.weights = validation[self.rows, self.bags].astype(np.float64) / validation.shape[1]
        n_outputs = self.objective.n_outputs
        self.lanes = self.bags[:, None] * n_outputs + np.arange(n_outputs)
        self.y: RealArray = problem.rows.y[self.rows]
        self.raw = problem.raw_scores(solution, self.rows, self.lanes)
        self._score()

    def _score(self) -> None:
        self.losses = self._losses(self.raw)
        self.curvature = self.objective.slopes(self.y, self.raw, self.weights[:, None])[1]

    @property
    def loss(self) -> float:
        """Mean loss."""
        return float(self.weights @ self.losses)

    def reported(self, problem: Problem, objective: Objective) -> HeldOut:
        """Return the same rows in the user's unit, with losses as they are reported.

        ``objective`` is that of the task, which no dispersion has divided.
        """
        new, relative = copy(self), objective.is_relative
        scale = np.tile(np.broadcast_to(problem.scale, objective.n_outputs), problem.n_bags)
        new.objective = objective.reported(float(problem.scale[0]))
        new.y = self.y * (np.exp(problem.shift) if relative else problem.scale)
        new.raw = problem.shift + self.raw if relative else problem.scale * self.raw
        new.tables = [scale * table for table in self.tables]
        new._score()
        return new

    def values(self, index: int) -> FloatArray:
        """Values of one component on the held-out rows, (n_held_out, K)."""
        return self.codes.values(self.components[index], self.tables[index], self.rows, self.lanes)

    def averaged_noise(self, index: int) -> float:
        """Loss that a component's noise adds to each bag but not to the mean of the bags."""
        table = self.tables[index]
        by_bag = table.reshape(*table.shape[:-1], -1, self.lanes.shape[1])
        variance = by_bag.var(-2)[self.codes.cells(self.components[index], self.rows)]
        return float(0.5 * self.weights @ (self.curvature * variance).sum(1))

    def change(self, raw: FloatArray) -> tuple[float, float]:
        """Mean change of the loss if the raw scores are ``raw``, and its standard error.

        For the standard error, a row that several bags hold out counts once.
        """
        difference = self._losses(raw) - self.losses
        mean = float(self.weights @ difference)
        deviations = np.bincount(self.rows, self.weights * (difference - mean))
        return mean, float(np.sqrt(deviations @ deviations))

    def _losses(self, raw: FloatArray) -> FloatArray:
        losses: FloatArray = self.objective.losses(self.y, raw, self.weights[:, None])[:, 0]
        return losses
