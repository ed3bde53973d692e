"""Scoring: how well a frozen model does on rows that it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
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

from tpnn._typing import FloatArray
from tpnn.model.files import Label, storable_labels
from tpnn.model.model import AnovaModel


def held_out_scores(model: AnovaModel, X: Any, y: Any, offset: Any = None) -> dict[str, float]:
    """Scores that suit the model's task, by name.

    Scores that need more rows or classes than there are, and all of survival, are left out.

    Parameters
    ----------
    model : AnovaModel
        The model.
    X : table
        Held-out rows.
    y : array of shape (n_rows,) or (n_rows, n_outputs)
        Their targets, with the labels of fit.
    offset : array of shape (n_rows,), optional
        Known part of the raw score of each row.
    """
    predicted = model.predict(X, offset)
    truth = _checked_truth(y, len(predicted))
    if model.link.name == "softmax":
        if model.classes:
            return _class_scores(storable_labels(truth), model.classes, predicted)
        return _class_scores([str(label) for label in truth], model.output_names, predicted)
    if model.link.name == "logit":
        shares = np.column_stack([1 - predicted, predicted])
        classes = model.classes or storable_labels(np.unique(truth))  # an older file has no labels
        return _class_scores(storable_labels(truth), classes, shares)
    if model.link.name == "log" and truth.shape == (len(predicted), 2) != predicted.shape:
        return {}  # times and events of survival
    return _number_scores(model, truth, predicted)


def _checked_truth(y: Any, n_rows: int) -> NDArray[Any]:
    """Targets as an array, one column as (n_rows,)."""
    truth = np.asarray(y)
    if truth.dtype.names:  # times and events as fields
        truth = np.column_stack([truth[name] for name in truth.dtype.names])
    if truth.ndim == 2 and truth.shape[1] == 1:
        truth = truth[:, 0]
    if truth.shape[:1] != (n_rows,):
        raise ValueError(
            f"y: one value per row of X is needed, found shape {truth.shape} for {n_rows} rows. "
            "Pass X and y of the same length."
        )
    return truth


def _number_scores(
    model: AnovaModel, truth: NDArray[Any], predicted: FloatArray
) -> dict[str, float]:
    quantiles = model.link.name == "quantiles"
    expected = predicted.shape[:1] if quantiles else predicted.shape
    if truth.shape != expected:
        raise ValueError(
            f"y: targets like those of fit are needed, of shape {expected}, found shape "
            f"{truth.shape}. Pass the same columns as to fit."
        )
    if quantiles:
        levels = map(float, model.output_names)
        losses = [
            mean_pinball_loss(truth, q, alpha=a) for a, q in zip(levels, predicted.T, strict=True)
        ]
        return {"Mean pinball loss": float(np.mean(losses))}
    scores = {"R2": float(r2_score(truth, predicted))} if len(truth) > 1 else {}
    return {**scores, "RMSE": float(root_mean_squared_error(truth, predicted))}


def _class_scores(
    truth: Sequence[Label], classes: Sequence[Label], shares: FloatArray
) -> dict[str, float]:
    """Scores of labels; equal numbers are equal labels, a number never equals a string."""
    number = {label: place for place, label in enumerate(classes)}
    unknown = dict.fromkeys(label for label in truth if label not in number)
    if unknown or len(classes) != shares.shape[1]:
        raise ValueError(
            f"y: labels must be those of fit, {_listed(classes, shares.shape[1])}, found "
            f"{list(unknown or classes)[:5]}. Label the held-out rows like those of fit."
        )
    codes = np.array([number[label] for label in truth])
    scores = {
        "Accuracy": float(accuracy_score(codes, shares.argmax(1))),
        "Log-loss": float(log_loss(codes, shares, labels=range(len(classes)))),
    }
    if len(classes) == 2 and len(set(truth)) == 2:
        scores["AUROC"] = float(roc_auc_score(codes, shares[:, 1]))
    return scores


def _listed(classes: Sequence[Label], n_classes: int) -> str:
    """Name the labels of fit where they are known, else their number."""
    return str(list(classes)[:5]) if len(classes) == n_classes else f"{n_classes} classes"
