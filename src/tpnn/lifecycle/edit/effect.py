"""held_out_loss: the loss of a model on rows that it has not seen, by what it predicts."""

from __future__ import annotations

from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.loss import formulas
from tpnn.loss.offset import refuse_masked
from tpnn.loss.times import checked_survival
from tpnn.model.model import AnovaModel
from tpnn.table.values import array_of

POWERS = {"poisson": 1.0, "gamma": 2.0}  # of the Tweedie deviance, by objective


def held_out_loss(model: AnovaModel, X: Any, y: Any, offset: Any = None) -> tuple[str, float]:
    """Name and mean of the loss that suits a model, on the rows given.

    The name is that of an objective, whose loss it is: "squared_error", "log_loss", "quantile",
    "poisson", "gamma", "tweedie" or "cox". The model knows its link, its provenance the rest.
    """
    raw = model.raw_scores(X, offset)
    if len(raw) == 0:
        raise ValueError("X: at least one row is needed, found none. Pass held-out rows.")
    name, losses = _losses(model, raw, y)
    return name, float(np.mean(losses))


def _losses(model: AnovaModel, raw: FloatArray, y: Any) -> tuple[str, FloatArray]:
    refuse_masked("y", y)
    task = None if model.provenance is None else model.provenance.task
    link = model.link.name
    if model.baseline is not None or task == "survival":
        times, events = checked_survival(y)
        _check_rows(times, raw)
        pairs, ones = np.column_stack([times, events]), np.ones((len(raw), 1))
        return "cox", formulas.cox_loss(pairs, raw[:, None], ones, np)
    if link in ("logit", "softmax"):
        codes = _codes(model, array_of(y).ravel().tolist())
        _check_rows(codes, raw)
        if link == "logit":
            return "log_loss", formulas.logistic_loss(codes, raw, None, np)
        return "log_loss", formulas.softmax_loss(np.eye(raw.shape[1])[codes], raw, None, np)
    truth = np.asarray(y, np.float64)
    truth = truth[:, 0] if truth.ndim == 2 and truth.shape[1] == 1 else truth
    _check_rows(truth, raw)
    return _number_losses(model, raw, truth)


def _number_losses(model: AnovaModel, raw: FloatArray, y: FloatArray) -> tuple[str, FloatArray]:
    settings = {} if model.provenance is None else model.provenance.settings
    objective: Any = settings.get("objective", "")
    named = dict(objective) if isinstance(objective, dict) else {"name": objective}
    name = named.get("name", "")
    if model.link.name == "log":
        power = named.get("power", POWERS.get(name, 1.0))
        loss = name if name in (*POWERS, "tweedie") else "poisson"
        return loss, formulas.tweedie_loss(y, raw, None, np, power)
    if model.link.name == "quantiles" or name in ("quantile", "absolute_error"):
        levels = np.array([float(n) for n in model.output_names] or [_level(named)])
        columns = model.link.inverse(raw).reshape(len(raw), -1)
        return "quantile", formulas.pinball_loss(y[:, None], columns, None, np, levels)
    return "squared_error", (y - raw) ** 2


def _level(named: dict[str, Any]) -> float:
    return float(np.ravel(named.get("levels", 0.5))[0])


def _codes(model: AnovaModel, labels: list[Any]) -> Any:
    classes = model.classes or tuple(range(max(model.n_outputs, 2)))
    numbers = {label: place for place, label in enumerate(classes)}
    codes = [numbers.get(label) for label in labels]
    if None in codes:
        raise ValueError(
            f"y: labels must be those of fit, {list(classes)[:5]}, found "
            f"{labels[codes.index(None)]!r}. Label the rows like those."
        )
    return np.array(codes, np.intp)


def _check_rows(y: Any, raw: FloatArray) -> None:
    if len(y) != len(raw) or (y.ndim == 2 and y.shape != raw.shape):
        raise ValueError(
            f"y: targets like those of fit are needed, one per row of X, found shape {y.shape} "
            f"for {len(raw)} rows. Pass X and y of the same length."
        )
