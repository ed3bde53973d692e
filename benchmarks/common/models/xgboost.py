"""XGBoost with the paper's grid of depth, rate and number of trees."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np

from benchmarks.common.interface import Rows, Task
from benchmarks.common.scores import loss
from tpnn._utils.arrays import FloatArray

DEPTHS = (3, 5, 7)
RATES = (0.0001, 0.005, 0.01, 0.05, 0.1)
TREES = (50, *range(100, 1001, 100))


class Chosen(NamedTuple):
    """Best of the grid: its validation loss, the booster, how many of its trees to use."""

    loss: float
    booster: Any
    n_trees: int


class XGBoostGrid:
    """Gradient boosted trees, the best of a grid on the validation rows.

    Parameters
    ----------
    task : Task
        What is predicted.
    seed : int
        Its random state.
    depths, rates, trees : sequences of numbers
        The grid. Trees of one run serve all smaller numbers of trees.
    """

    def __init__(
        self,
        task: Task,
        seed: int = 0,
        depths: tuple[int, ...] = DEPTHS,
        rates: tuple[float, ...] = RATES,
        trees: tuple[int, ...] = TREES,
    ) -> None:
        self.task, self.seed, self.trees = task, seed, trees
        self.grid = list(product(depths, rates))

    def fit(self, training: Rows, validation: Rows) -> Self:
        """Fit the whole grid and keep the best."""
        candidates = (
            chosen
            for depth, rate in self.grid
            for chosen in self._run(depth, rate, training, validation)
        )
        self.chosen = min(candidates, key=lambda candidate: candidate.loss)
        return self

    def _run(self, depth: int, rate: float, training: Rows, validation: Rows) -> Iterator[Chosen]:
        import xgboost

        objective = {"regression": "reg:squarederror", "binary": "binary:logistic"}
        settings = {
            "max_depth": depth,
            "eta": rate,
            "seed": self.seed,
            "nthread": 1,
            "objective": objective.get(self.task.kind, "multi:softprob"),
        }
        if self.task.kind == "multiclass":
            settings["num_class"] = self.task.n_outputs
        rows = xgboost.DMatrix(training.X, training.y)
        booster = xgboost.train(settings, rows, max(self.trees))
        for n_trees in self.trees:
            raw = self._margin(booster, n_trees, validation.X)
            yield Chosen(loss(self.task, validation.y, raw), booster, n_trees)

    def raw_scores(self, X: FloatArray) -> FloatArray:
        """Raw scores, shape (n, n_outputs)."""
        return self._margin(self.chosen.booster, self.chosen.n_trees, X)

    def _margin(self, booster: Any, n_trees: int, X: FloatArray) -> FloatArray:
        import xgboost

        rounds = (0, n_trees)
        raw = booster.predict(xgboost.DMatrix(X), output_margin=True, iteration_range=rounds)
        return np.asarray(raw, np.float64).reshape(len(X), -1)
