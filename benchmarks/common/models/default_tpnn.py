"""TPNNRegressor and TPNNClassifier with their defaults, but for the settings that are given.

They hold rows out for themselves, so they are fitted to training and validation rows together.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from benchmarks.common.interface import Rows, Task
from benchmarks.common.models.estimator import EstimatorModel
from tpnn import TPNNClassifier, TPNNRegressor
from tpnn._utils.arrays import FloatArray


class DefaultTPNN(EstimatorModel):
    """TPNNRegressor or TPNNClassifier of the given order.

    Parameters
    ----------
    task : Task
        What is predicted.
    order : {1, 2}
        Main effects only, or pairs too.
    seed : int
        Its random state.
    **settings
        Further parameters of the estimator.
    """

    def __init__(self, task: Task, order: int = 2, seed: int = 0, **settings: Any) -> None:
        kind = TPNNRegressor if task.kind == "regression" else TPNNClassifier
        settings = {"verbose": 0, **settings}
        super().__init__(kind(order=order, random_state=seed, **settings), task)

    def fit(self, training: Rows, validation: Rows) -> Self:
        """Fit to all rows."""
        super().fit(training, validation)
        self.components = [tuple(component) for component in self.estimator.model_.components]
        self.intercept = np.atleast_1d(self.estimator.model_.intercept)
        return self

    def raw_scores(self, X: FloatArray) -> FloatArray:
        """Raw scores, shape (n, n_outputs)."""
        raw = self.estimator.model_.raw_scores(X)
        return np.asarray(raw).reshape(len(X), -1)

    def component_scores(self, X: FloatArray) -> FloatArray:
        """Value of every component, shape (n, C, n_outputs)."""
        scores = self.estimator.model_.component_scores(X)
        return np.asarray(scores).reshape(*scores.shape[:2], -1)
