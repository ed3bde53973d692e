"""Decision tree of scikit-learn, tuned by optuna on the validation rows in the paper's ranges."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from benchmarks.common.interface import Rows, Task
from benchmarks.common.scores import loss
from tpnn._utils.arrays import FloatArray

RANGES = {
    "max_depth": (2, 12),
    "min_samples_leaf": (2, 10),
    "min_samples_split": (2, 10),
    "max_leaf_nodes": (2, 10),
}
TRIALS = 50
SMALLEST = 1e-6  # probability whose logarithm is taken


class DecisionTree:
    """A small tree.

    Parameters
    ----------
    task : Task
        What is predicted.
    seed : int
        Random state of the search and of the tree.
    trials : int
        Trees tried.
    """

    def __init__(self, task: Task, seed: int = 0, trials: int = TRIALS) -> None:
        self.task, self.seed, self.trials = task, seed, trials

    def fit(self, training: Rows, validation: Rows) -> Self:
        """Search the ranges and keep the best tree."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)

        def validation_loss(trial: Any) -> float:
            chosen = {name: trial.suggest_int(name, *bounds) for name, bounds in RANGES.items()}
            self.tree = self._tree(chosen).fit(training.X, training.y)
            return loss(self.task, validation.y, self.raw_scores(validation.X))

        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=self.seed))
        study.optimize(validation_loss, n_trials=self.trials)
        self.tree = self._tree(study.best_params).fit(training.X, training.y)
        return self

    def _tree(self, settings: dict[str, int]) -> Any:
        regression = self.task.kind == "regression"
        kind = DecisionTreeRegressor if regression else DecisionTreeClassifier
        return kind(random_state=self.seed, **settings)

    def raw_scores(self, X: FloatArray) -> FloatArray:
        """Raw scores, shape (n, n_outputs)."""
        if self.task.kind == "regression":
            return np.asarray(self.tree.predict(X), np.float64)[:, None]
        logs: FloatArray = np.log(np.maximum(self.tree.predict_proba(X), SMALLEST))
        return logs[:, 1:] - logs[:, :1] if self.task.kind == "binary" else logs
