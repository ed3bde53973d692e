"""LightGBM, stopped early by the validation rows."""

from __future__ import annotations

from typing import Any

from evaluation.interface import Task
from evaluation.models.estimator import EarlyStopped


def lightgbm(task: Task, seed: int, patience: int, **settings: Any) -> EarlyStopped:
    """LGBMRegressor or LGBMClassifier that stops after ``patience`` rounds without improvement."""
    from lightgbm import LGBMClassifier, LGBMRegressor

    kind = LGBMRegressor if task.kind == "regression" else LGBMClassifier
    model = kind(**settings, early_stopping_round=patience, random_state=seed, verbose=-1)
    return EarlyStopped(model, task)
