"""Numbers that judge models: test scores, component selection, ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, softmax
from scipy.stats import rankdata
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

from benchmarks.common.interface import Task
from tpnn._utils.arrays import FloatArray


def loss(task: Task, y: NDArray[Any], raw: FloatArray) -> float:
    """Mean squared error or mean logarithmic loss of raw scores (n, n_outputs)."""
    if task.kind == "regression":
        return float(np.mean((y - raw[:, 0]) ** 2))
    if task.kind == "binary":
        return float(np.mean(np.logaddexp(0, raw[:, 0]) - y * raw[:, 0]))
    return float(-log_softmax(raw, axis=1)[np.arange(len(y)), y].mean())


def rmse(y: Any, predicted: Any) -> float:
    """Root mean squared error."""
    return float(np.sqrt(np.mean((np.asarray(y) - np.asarray(predicted)) ** 2)))


def prediction_scores(task: Task, y: NDArray[Any], raw: FloatArray) -> dict[str, float]:
    """RMSE, or AUROC (one against the rest, averaged) and accuracy."""
    if task.kind == "regression":
        return {"rmse": rmse(y, raw[:, 0])}
    if task.kind == "binary":
        return {
            "auroc": float(roc_auc_score(y, expit(raw[:, 0]))),
            "accuracy": float(accuracy_score(y, raw[:, 0] > 0)),
        }
    return {
        "auroc": float(roc_auc_score(y, softmax(raw, axis=1), multi_class="ovr")),
        "accuracy": float(accuracy_score(y, raw.argmax(1))),
    }


def predictive_scores(task: Task, y: NDArray[Any], predicted: FloatArray) -> dict[str, float]:
    """RMSE of predicted numbers, or log loss and AUROC of predicted probabilities.

    Probabilities are those of class 1, shape (n,), or of every class, shape (n, n_classes).
    """
    if task.kind == "regression":
        return {"rmse": rmse(y, predicted)}
    return {
        "log_loss": float(log_loss(y, predicted)),
        "auroc": float(roc_auc_score(y, predicted, multi_class="ovr")),
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
