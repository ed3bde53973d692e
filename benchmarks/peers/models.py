"""The libraries that are compared, behind one interface."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, get_args

import numpy as np

from benchmarks.peers.data import FloatArray, Split, Task

BOOSTING: dict[str, Any] = {"n_estimators": 2000, "learning_rate": 0.05, "n_jobs": 2}
PATIENCE = 50  # rounds


@dataclass(frozen=True)
class Model:
    """An estimator that fits on all rows to fit.

    Parameters
    ----------
    estimator : object
        Whatever the library calls its estimator.
    task : {"regression", "binary", "multiclass"}
        What it predicts.
    """

    estimator: Any
    task: Task

    def fit(self, data: Split) -> None:
        """Fit to the rows to fit."""
        self.estimator.fit(data.X, data.y)

    def predict(self, X: FloatArray) -> FloatArray:
        """Return the expected target: a number, or probabilities.

        Shape (n,), the probability of class 1 if there are two; else (n, number of classes).
        """
        if self.task == "regression":
            return np.asarray(self.estimator.predict(X), np.float64)
        probabilities = np.asarray(self.estimator.predict_proba(X), np.float64)
        return probabilities[:, 1] if probabilities.shape[1:] == (2,) else probabilities


@dataclass(frozen=True)
class EarlyStopped(Model):
    """An estimator that trains on some rows and stops by the others.

    Parameters
    ----------
    options : dict
        Further arguments of the estimator's ``fit``.
    """

    options: dict[str, Any] = field(default_factory=dict)

    def fit(self, data: Split) -> None:
        """Fit to the training rows, and stop by the validation rows."""
        n = data.n_training
        validation = [(data.X[n:], data.y[n:])]
        self.estimator.fit(data.X[:n], data.y[:n], eval_set=validation, **self.options)


def _tpnn(task: Task, seed: int, **settings: Any) -> Model:
    from tpnn import TPNNClassifier, TPNNRegressor

    estimator = TPNNRegressor if task == "regression" else TPNNClassifier
    return Model(estimator(random_state=seed, **settings), task)


def _ebm(task: Task, seed: int, **settings: Any) -> Model:
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    regression = task == "regression"
    estimator = ExplainableBoostingRegressor if regression else ExplainableBoostingClassifier
    return Model(estimator(n_jobs=2, random_state=seed, **settings), task)


def _xgboost(task: Task, seed: int) -> Model:
    from xgboost import XGBClassifier, XGBRegressor

    estimator = XGBRegressor if task == "regression" else XGBClassifier
    model = estimator(**BOOSTING, early_stopping_rounds=PATIENCE, random_state=seed)
    return EarlyStopped(model, task, {"verbose": False})


def _lightgbm(task: Task, seed: int) -> Model:
    from lightgbm import LGBMClassifier, LGBMRegressor

    estimator = LGBMRegressor if task == "regression" else LGBMClassifier
    model = estimator(**BOOSTING, early_stopping_round=PATIENCE, random_state=seed, verbose=-1)
    return EarlyStopped(model, task)


def _pygam(task: Task, seed: int) -> Model:
    """Build a GAM of default splines, which draws nothing at random."""
    from pygam import LinearGAM, LogisticGAM

    return Model(LinearGAM() if task == "regression" else LogisticGAM(), task)


class Maker(NamedTuple):
    """A module, what builds a model with it for a task and a seed, and the tasks it has."""

    module: str
    build: Callable[[Task, int], Model]
    tasks: tuple[Task, ...] = get_args(Task)


MODELS = {
    "tpnn": Maker("tpnn", _tpnn),
    "tpnn-mains": Maker("tpnn", partial(_tpnn, order=1)),
    "ebm": Maker("interpret", _ebm),
    "xgboost": Maker("xgboost", _xgboost),
    "lightgbm": Maker("lightgbm", _lightgbm),
    "pygam": Maker("pygam", _pygam, ("regression", "binary")),
}
QUICK_MODELS = {**MODELS, "ebm": Maker("interpret", partial(_ebm, outer_bags=2))}
OURS = ("tpnn", "tpnn-mains")


def version(maker: Maker) -> str | None:
    """Return the version of a model's library, None where it is not installed."""
    try:
        return str(import_module(maker.module).__version__)
    except ImportError:
        return None
