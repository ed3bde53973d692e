"""EBM, the explainable boosting machine of InterpretML, with its defaults.

It holds rows out for itself, so it is fitted to training and validation rows together.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from experiments.baselines.interface import FloatArray, Rows, Task, both


class EBM:
    """ExplainableBoostingRegressor or ExplainableBoostingClassifier.

    Parameters
    ----------
    task : Task
        What is predicted.
    order : {1, 2}
        Main effects only, or the pairs that it selects too.
    seed : int
        Its random state.
    """

    def __init__(self, task: Task, order: int = 2, seed: int = 0, **settings: Any) -> None:
        from interpret import glassbox

        kind = "Regressor" if task.kind == "regression" else "Classifier"
        if order == 1:
            settings["interactions"] = 0
        estimator = getattr(glassbox, f"ExplainableBoosting{kind}")
        self.estimator = estimator(random_state=seed, n_jobs=1, **settings)

    def fit(self, training: Rows, validation: Rows) -> Self:
        """Fit to all rows."""
        rows = both(training, validation)
        self.estimator.fit(rows.X, rows.y)
        self.components = [tuple(features) for features in self.estimator.term_features_]
        self.intercept = np.atleast_1d(self.estimator.intercept_)
        return self

    def raw_scores(self, X: FloatArray) -> FloatArray:
        """Raw scores, shape (n, n_outputs)."""
        return np.asarray(self.intercept + self.component_scores(X).sum(1))

    def component_scores(self, X: FloatArray) -> FloatArray:
        """Value of every component, shape (n, C, n_outputs)."""
        scores = np.asarray(self.estimator.eval_terms(X), np.float64)
        return scores.reshape(len(X), len(self.components), -1)
