"""Measure: the metrics that suit a model's task, on rows that it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.explain.metrics.classes import class_metrics
from tpnn.explain.metrics.numbers import number_metrics, quantile_metrics, rate_metrics
from tpnn.explain.metrics.records import Metrics
from tpnn.explain.metrics.survival import survival_metrics
from tpnn.loss.offset import checked_offset, refuse_masked
from tpnn.loss.times import checked_survival
from tpnn.model.files import Label, storable_labels
from tpnn.model.model import AnovaModel
from tpnn.table.values import array_of


def measure(
    model: AnovaModel,
    X: Any,
    y: Any,
    offset: Any = None,
    *,
    power: float | None = None,
) -> Metrics:
    """Measure a model on held-out rows, beside the constant that fits these rows best.

    A frozen model knows its link but not its loss. Without ``power`` a model with a log link is
    scored by the Poisson deviance, or as a survival model where it has a baseline or ``y`` holds
    times and events.

    Parameters
    ----------
    model : AnovaModel
        The model.
    X : table
        Held-out rows.
    y : array of shape (n_rows,) or (n_rows, n_outputs)
        Their targets, with the labels of fit; times and events of a survival model.
    offset : array of shape (n_rows,), optional
        Known part of the raw score of each row. A column of X that is the offset counts by itself.
    power : float, optional
        Power of the Tweedie deviance that was fitted.

    Examples
    --------
    >>> from tpnn import TPNNRegressor, datasets
    >>> X, y = datasets.load("abalone")
    >>> model = TPNNRegressor(order=1, n_bags=2, random_state=0).fit(X[500:], y[500:])
    >>> [score.name for score in measure(model.model_, X[:500], y[:500]).scores]
    ['R2', 'RMSE']
    """
    table = model.encoder.read(X)
    raw = model.raw_scores(table, offset)
    in_rows = None if model.encoder.offset_column is None else model.offset_of(table)
    known = checked_offset(offset if in_rows is None else in_rows, len(raw))
    predicted = model.link.inverse(raw)
    truth = checked_truth(y, len(predicted))
    if len(truth) == 0:
        return Metrics()
    if model.link.name in ("logit", "softmax"):
        shares = predicted if predicted.ndim == 2 else np.column_stack([1 - predicted, predicted])
        codes, classes = coded(model, truth, shares.shape[1])
        return class_metrics(codes, classes, shares, known)
    times = model.link.name == "log" and truth.shape == (len(predicted), 2) != predicted.shape
    if model.baseline is not None or times:
        return survival_metrics(*checked_survival(y), raw, model.baseline)
    return _number_metrics(model, truth, predicted, known, power)


def checked_truth(y: Any, n_rows: int) -> NDArray[Any]:
    """Targets as an array, one column as (n_rows,)."""
    refuse_masked("y", y)
    truth = array_of(y)
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


def _number_metrics(
    model: AnovaModel,
    truth: NDArray[Any],
    predicted: FloatArray,
    offset: FloatArray,
    power: float | None,
) -> Metrics:
    quantiles = model.link.name == "quantiles"
    expected = predicted.shape[:1] if quantiles else predicted.shape
    if truth.shape != expected:
        raise ValueError(
            f"y: targets like those of fit are needed, of shape {expected}, found shape "
            f"{truth.shape}. Pass the same columns as to fit."
        )
    actual = truth.astype(np.float64)
    if quantiles:
        return quantile_metrics(actual, predicted, offset, [*map(float, model.output_names)])
    if model.link.name == "log":
        return rate_metrics(actual, predicted, offset, power)
    return number_metrics(actual, predicted, offset, model.output_names)


def coded(
    model: AnovaModel, truth: NDArray[Any], n_classes: int
) -> tuple[IntArray, Sequence[Label]]:
    """Find the number of each row's class, and the classes, which an older file does not know.

    Equal numbers are equal labels; a number never equals a string.
    """
    labels = storable_labels(truth)
    classes: Sequence[Label] = model.classes
    if not classes and n_classes > 2:
        labels, classes = [str(label) for label in truth], model.output_names
    classes = classes or storable_labels(np.unique(truth))
    number = {label: place for place, label in enumerate(classes)}
    unknown = dict.fromkeys(label for label in labels if label not in number)
    if unknown or len(classes) != n_classes:
        raise ValueError(
            f"y: labels must be those of fit, {_listed(classes, n_classes)}, found "
            f"{list(unknown or classes)[:5]}. Label the held-out rows like those of fit."
        )
    return np.array([number[label] for label in labels], np.intp), classes


def _listed(classes: Sequence[Label], n_classes: int) -> str:
    """Name the labels of fit where they are known, else their number."""
    return str(list(classes)[:5]) if len(classes) == n_classes else f"{n_classes} classes"
