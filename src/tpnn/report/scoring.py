"""Scoring: how well a frozen model does on rows that it has not seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import (
    accuracy_score,
    log_loss,
    mean_pinball_loss,
    r2_score,
    roc_auc_score,
    root_mean_squared_error,
)

from tpnn.model import AnovaModel


def held_out_scores(model: AnovaModel, X: Any, y: Any) -> dict[str, float]:
    """Scores that suit the model's task, by name.

    Parameters
    ----------
    model : AnovaModel
        The model.
    X : table
        Held-out rows.
    y : array of shape (n_rows,) or (n_rows, n_outputs)
        Their targets; of two classes the second in sorted order is the one predicted.
    """
    truth, predicted = np.asarray(y), model.predict(X)
    if model.link.name == "softmax":
        return _class_scores(np.char.mod("%s", truth), np.array(model.output_names), predicted)
    if model.link.name == "logit":
        shares = np.column_stack([1 - predicted, predicted])
        return _class_scores(truth, np.unique(truth), shares)
    if model.link.name == "quantiles":
        levels = map(float, model.output_names)
        losses = [
            mean_pinball_loss(truth, q, alpha=a) for a, q in zip(levels, predicted.T, strict=True)
        ]
        return {"Mean pinball loss": float(np.mean(losses))}
    if predicted.shape != truth.shape:
        return {}  # times and events of survival
    return {
        "R2": float(r2_score(truth, predicted)),
        "RMSE": float(root_mean_squared_error(truth, predicted)),
    }


def _class_scores(
    truth: NDArray[Any], classes: NDArray[Any], shares: NDArray[np.float64]
) -> dict[str, float]:
    unknown = np.setdiff1d(truth, classes)
    if len(unknown) or shares.shape[1] != len(classes):
        raise ValueError(
            f"y: labels must be those of fit, {shares.shape[1]} classes, found "
            f"{np.unique(truth)[:5].tolist()}. Pass held-out rows of all classes, labelled as then."
        )
    best = classes[shares.argmax(1)]
    scores = {
        "Accuracy": float(accuracy_score(truth, best)),
        "Log-loss": float(log_loss(truth, shares, labels=classes)),
    }
    if len(classes) == 2:
        scores["AUROC"] = float(roc_auc_score(truth == classes[1], shares[:, 1]))
    return scores
