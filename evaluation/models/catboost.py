"""CatBoost, stopped early by the validation rows."""

from __future__ import annotations

from typing import Any

from evaluation.interface import Task
from evaluation.models.estimator import EarlyStopped


def catboost(task: Task, seed: int, patience: int, **settings: Any) -> EarlyStopped:
    """CatBoostRegressor or CatBoostClassifier, stopped ``patience`` rounds after the best.

    ``n_jobs`` is what scikit-learn's users call it; CatBoost says ``thread_count``.
    """
    from catboost import CatBoostClassifier, CatBoostRegressor

    kind = CatBoostRegressor if task.kind == "regression" else CatBoostClassifier
    threads = settings.pop("n_jobs", -1)
    model = kind(
        **settings,
        thread_count=threads,
        early_stopping_rounds=patience,
        random_seed=seed,
        verbose=False,
        allow_writing_files=False,
    )
    return EarlyStopped(model, task)
