"""CatBoost with its main settings tuned on held-out rows of the rows to fit."""

from __future__ import annotations

from typing import Any, Self

import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from benchmarks.common.interface import Kind
from benchmarks.peers.frames import levels
from benchmarks.peers.libraries import THREADS, Peer, filled_levels
from tpnn._utils.arrays import FloatArray

N_TRIALS = 40
HELD_OUT = 0.15  # share of the rows to fit that choose the settings and the number of trees
MOST_TREES, PATIENCE = 3000, 50


class TunedCatBoost(Peer):
    """The best of 40 settings that Optuna tries, fitted again to all rows.

    Parameters
    ----------
    kind : {"regression", "binary", "multiclass"}
        What it predicts.
    seed : int
        Seed of the trials, of the held-out rows and of CatBoost.
    """

    def __init__(self, kind: Kind, seed: int) -> None:
        super().__init__(None, kind)
        self.seed = seed

    def fit(self, X: pd.DataFrame, y: NDArray[Any]) -> Self:
        """Tune, then fit to all rows with the best settings and number of trees."""
        import optuna

        rows = filled_levels(X)
        stratified = None if self.kind == "regression" else y
        parts = train_test_split(
            rows, y, test_size=HELD_OUT, random_state=self.seed, stratify=stratified
        )

        def loss(trial: optuna.Trial) -> float:
            model = self._catboost(_settings(trial), MOST_TREES)
            held_out = (parts[1], parts[3])
            model.fit(
                parts[0], parts[2], cat_features=levels(X), eval_set=held_out,
                early_stopping_rounds=PATIENCE,
            )  # fmt: skip
            trial.set_user_attr("trees", model.tree_count_)
            return float(next(iter(model.get_best_score()["validation"].values())))

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=self.seed))
        study.optimize(loss, n_trials=N_TRIALS)
        trees = max(study.best_trial.user_attrs["trees"], 1)
        self.estimator = self._catboost(study.best_params, trees)
        self.estimator.fit(rows, y, cat_features=levels(X))
        return self

    def predict(self, X: pd.DataFrame) -> FloatArray:
        """Return numbers (n,), or probabilities of all classes (n, n_classes)."""
        return super().predict(filled_levels(X))

    def _catboost(self, settings: dict[str, Any], trees: int) -> Any:
        from catboost import CatBoostClassifier, CatBoostRegressor

        estimator = CatBoostRegressor if self.kind == "regression" else CatBoostClassifier
        fixed = {"verbose": False, "allow_writing_files": False, "thread_count": THREADS}
        return estimator(iterations=trees, random_seed=self.seed, **fixed, **settings)


def _settings(trial: Any) -> dict[str, Any]:
    """Draw the settings of a trial."""
    return {
        "learning_rate": trial.suggest_float("learning_rate", 0.02, 0.3, log=True),
        "depth": trial.suggest_int("depth", 4, 9),
        "l2_leaf_reg": trial.suggest_float("l2_leaf_reg", 0.5, 30.0, log=True),
        "random_strength": trial.suggest_float("random_strength", 0.01, 10.0, log=True),
        "bagging_temperature": trial.suggest_float("bagging_temperature", 0.0, 1.0),
        "rsm": trial.suggest_float("rsm", 0.5, 1.0),
    }
