"""The libraries that are compared, each with the settings of the comparison."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, get_args

from evaluation.interface import Kind, Task
from evaluation.models.catboost import catboost
from evaluation.models.default_tpnn import DefaultTPNN
from evaluation.models.ebm import EBM
from evaluation.models.estimator import EstimatorModel
from evaluation.models.lightgbm import lightgbm
from evaluation.models.pygam import default_gam
from evaluation.models.xgboost import xgboost

BOOSTING: dict[str, Any] = {
    "n_estimators": 2000, "learning_rate": 0.05, "n_jobs": 2, "patience": 50,
}  # fmt: skip
EBM_JOBS = 2


def _tpnn(order: int, task: Task, seed: int) -> EstimatorModel:
    return DefaultTPNN(task, order, seed)


def _ebm(task: Task, seed: int, **settings: Any) -> EstimatorModel:
    return EBM(task, seed=seed, n_jobs=EBM_JOBS, **settings)


def _pygam(task: Task, seed: int) -> EstimatorModel:
    """Build a GAM, which draws nothing at random."""
    return default_gam(task)


class Maker(NamedTuple):
    """A module, what builds a model with it for a task and a seed, and the tasks it has."""

    module: str
    build: Callable[[Task, int], EstimatorModel]
    tasks: tuple[Kind, ...] = get_args(Kind)


MODELS = {
    "tpnn": Maker("tpnn", partial(_tpnn, 2)),
    "tpnn-mains": Maker("tpnn", partial(_tpnn, 1)),
    "ebm": Maker("interpret", _ebm),
    "xgboost": Maker("xgboost", partial(xgboost, **BOOSTING)),
    "lightgbm": Maker("lightgbm", partial(lightgbm, **BOOSTING)),
    "catboost": Maker("catboost", partial(catboost, **BOOSTING)),
    "pygam": Maker("pygam", _pygam, ("regression", "binary")),
}
QUICK_MODELS = {**MODELS, "ebm": Maker("interpret", partial(_ebm, outer_bags=2))}
EARLY_STOPPED = {"xgboost": "XGBoost", "lightgbm": "LightGBM", "catboost": "CatBoost"}
OURS = ("tpnn", "tpnn-mains")
RIVAL = "ebm"


def version(maker: Maker) -> str | None:
    """Return the version of a model's library, None where it is not installed."""
    try:
        return str(import_module(maker.module).__version__)
    except ImportError:
        return None
