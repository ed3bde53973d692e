"""TPNNRegressor and TPNNClassifier with their defaults.

They hold rows out for themselves, so they are fitted to training and validation rows together.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from experiments.baselines.interface import FloatArray, Rows, Task, both
from tpnn import TPNNClassifier, TPNNRegressor


class DefaultTPNN:
    """TPNNRegressor or TPNNClassifier of the given order.

    Parameters
    ----------
    task : Task
        What is predicted.
    order : {1, 2}
        Main effects only, or pairs too.
    seed : int
        Its random state.
    """

    def __init__(self, task: Task, order: int = 2, seed: int = 0, **settings: Any) -> None:
        kind = TPNNRegressor if task.kind == "regression" else TPNNClassifier
        self.estimator = kind(order=order, random_state=seed, verbose=0, **settings)

    def fit(self, training: Rows, validation: Rows) -> Self:
        """Fit to all rows."""
        rows = both(training, validation)
        self.estimator.fit(rows.X, rows.y)
        self.components = [tuple(component) for component in self.estimator.model_.components]
        self.intercept = np.atleast_1d(self.estimator.model_.intercept)
        return self

    def raw_scores(self, X: FloatArray) -> FloatArray:
        """Raw scores, shape (n, n_outputs)."""
        raw = self.estimator.model_.raw_scores(X)
        return raw.reshape(len(X), -1)

    def component_scores(self, X: FloatArray) -> FloatArray:
        """Value of every component, shape (n, C, n_outputs)."""
        scores = self.estimator.model_.component_scores(X)
        return scores.reshape(*scores.shape[:2], -1)
