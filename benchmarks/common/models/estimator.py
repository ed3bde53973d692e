"""An estimator of scikit-learn's kind as a model: what is fitted to which rows, and predictions."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from benchmarks.common.interface import Rows, Task, both
from tpnn._utils.arrays import FloatArray


class EstimatorModel:
    """An estimator that holds rows out by itself, so that it is fitted to all rows.

    Parameters
    ----------
    estimator : object
        Whatever the library calls its estimator.
    task : Task
        What it predicts.
    """

    def __init__(self, estimator: Any, task: Task) -> None:
        self.estimator, self.task = estimator, task

    def fit(self, training: Rows, validation: Rows) -> Self:
        """Fit to training and validation rows together."""
        rows = both(training, validation)
        self.estimator.fit(rows.X, rows.y)
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        """Return the expected target: a number, or probabilities.

        Shape (n,), the probability of class 1 if there are two; else (n, number of classes).
        """
        if self.task.kind == "regression":
            return np.asarray(self.estimator.predict(X), np.float64)
        probabilities = np.asarray(self.estimator.predict_proba(X), np.float64)
        return probabilities[:, 1] if probabilities.shape[1:] == (2,) else probabilities
