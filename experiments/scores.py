"""Numbers that judge models: test scores, component selection, ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, softmax
from scipy.stats import rankdata
from sklearn.metrics import accuracy_score, roc_auc_score

from experiments.baselines.interface import FloatArray, Task


def loss(task: Task, y: NDArray[Any], raw: FloatArray) -> float:
    """Mean squared error or mean logarithmic loss of raw scores (n, n_outputs)."""
    if task.kind == "regression":
        return float(np.mean((y - raw[:, 0]) ** 2))
    if task.kind == "binary":
        return float(np.mean(np.logaddexp(0, raw[:, 0]) - y * raw[:, 0]))
    return float(-log_softmax(raw, axis=1)[np.arange(len(y)), y].mean())


def prediction_scores(task: Task, y: NDArray[Any], raw: FloatArray) -> dict[str, float]:
    """RMSE, or AUROC (one against the rest, averaged) and accuracy."""
    if task.kind == "regression":
        return {"rmse": float(np.sqrt(loss(task, y, raw)))}
    if task.kind == "binary":
        return {
            "auroc": float(roc_auc_score(y, expit(raw[:, 0]))),
            "accuracy": float(accuracy_score(y, raw[:, 0] > 0)),
        }
    return {
        "auroc": float(roc_auc_score(y, softmax(raw, axis=1), multi_class="ovr")),
        "accuracy": float(accuracy_score(y, raw.argmax(1))),
    }


def selection_auroc(importance: FloatArray, signal: NDArray[np.bool_]) -> float:
    """AUROC of importance scores for telling signal components from the others."""
    return float(roc_auc_score(signal, importance))


def average_ranks(scores: FloatArray, higher_is_better: NDArray[np.bool_]) -> FloatArray:
    """Mean rank of each model, (data sets, models) -> (models,); ties share the smaller rank.

    >>> average_ranks(np.array([[0.5, 0.4], [0.9, 0.9]]), np.array([False, True]))
    array([1.5, 1. ])
    """
    signed = np.where(higher_is_better[:, None], -scores, scores)
    return np.asarray(rankdata(signed, method="min", axis=1).mean(0))
