"""pyGAM with the paper's grid of one penalty for all components.

Main effects have 20 cubic splines. Pairs are tensor products; 20 x 20 splines for each
of 28 pairs would be 11,200 coefficients of a dense system, so they have 8 x 8.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from benchmarks.common.interface import Rows, Task, components_up_to
from benchmarks.common.scores import loss
from tpnn._utils.arrays import FloatArray

PENALTIES = (0.001, 0.01, 0.1, 0.3, 0.6, 1, 10, 100, 1000)
SPLINES = {1: 20, 2: 8}


class SplineGAM:
    """LinearGAM or LogisticGAM, the best of a grid on the validation rows.

    Parameters
    ----------
    task : Task
        What is predicted; regression or two classes.
    order : {1, 2}
        Main effects only, or all pairs too.
    penalties : sequence of float
        The grid, chosen from on the validation rows.
    """

    def __init__(
        self, task: Task, order: int = 1, penalties: tuple[float, ...] = PENALTIES
    ) -> None:
        self.task, self.order, self.penalties = task, order, penalties

    def fit(self, training: Rows, validation: Rows) -> Self:
        """Fit the whole grid and keep the best."""
        self.components = components_up_to(training.X.shape[1], self.order)
        best = np.inf
        for penalty in self.penalties:
            gam = self._gam(penalty).fit(training.X, training.y)
            value = loss(self.task, validation.y, _raw(gam, validation.X))
            if value < best:
                best, self.gam, self.penalty = value, gam, penalty
        self.intercept = self.gam.coef_[-1:]
        return self

    def _gam(self, penalty: float) -> Any:
        import pygam

        terms = pygam.terms.TermList()
        for component in self.components:
            kind = pygam.s if len(component) == 1 else pygam.te
            terms += kind(*component, n_splines=SPLINES[len(component)], lam=penalty)
        gam = pygam.LinearGAM if self.task.kind == "regression" else pygam.LogisticGAM
        return gam(terms)

    def raw_scores(self, X: FloatArray) -> FloatArray:
        """Raw scores, shape (n, 1)."""
        return _raw(self.gam, X)

    def component_scores(self, X: FloatArray) -> FloatArray:
        """Value of every component, shape (n, C, 1)."""
        scores = [self.gam.partial_dependence(i, X) for i in range(len(self.components))]
        return np.stack(scores, 1)[:, :, None]


def _raw(gam: Any, X: FloatArray) -> FloatArray:
    return np.asarray(gam._linear_predictor(X), np.float64).reshape(-1, 1)
