"""Linear or logistic regression on standardised features."""

from __future__ import annotations

from typing import Self

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.preprocessing import StandardScaler

from benchmarks.common.interface import Rows, Task, both
from tpnn._utils.arrays import FloatArray


class Linear:
    """f(x) = intercept + sum_j w_j x_j.

    Parameters
    ----------
    task : Task
        What is predicted.
    """

    def __init__(self, task: Task) -> None:
        regression = task.kind == "regression"
        self.estimator = LinearRegression() if regression else LogisticRegression(max_iter=1000)

    def fit(self, training: Rows, validation: Rows) -> Self:
        """Fit to all rows."""
        rows = both(training, validation)
        self.scaler = StandardScaler().fit(rows.X)
        self.estimator.fit(self.scaler.transform(rows.X), rows.y)
        self.components = [(feature,) for feature in range(rows.X.shape[1])]
        self.intercept = np.atleast_1d(self.estimator.intercept_)
        return self

    def raw_scores(self, X: FloatArray) -> FloatArray:
        """Raw scores, shape (n, n_outputs)."""
        return np.asarray(self.intercept + self.component_scores(X).sum(1))

    def component_scores(self, X: FloatArray) -> FloatArray:
        """Value of every component, shape (n, p, n_outputs)."""
        slopes = np.atleast_2d(self.estimator.coef_).T  # (p, n_outputs)
        return np.asarray(self.scaler.transform(X)[:, :, None] * slopes)
