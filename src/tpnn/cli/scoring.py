"""Scoring: scores by task, of models and of the best constant."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

import tpnn
from tpnn._typing import FloatArray
from tpnn.estimators.survival import checked_survival, concordance
from tpnn.report.scoring import held_out_scores

CHANCE = 0.5  # concordance of a constant


def scores_of(model: tpnn.AnovaModel, X: pd.DataFrame, y: Any) -> dict[str, float]:
    """Scores of a model on rows, by name; targets of survival are a frame of two columns."""
    if isinstance(y, pd.DataFrame):
        return {"C-index": concordance(*checked_survival(y), model.raw_scores(X))}
    return held_out_scores(model, X, y)


def constant_scores(model: tpnn.AnovaModel, X: pd.DataFrame, y: Any) -> dict[str, float]:
    """Scores of a model with the same link and no components, its intercept fitted to the rows."""
    if isinstance(y, pd.DataFrame):
        return {"C-index": CHANCE}
    known = model.offset_of(model.encoder.read(X))
    intercepts = _best_intercepts(model, y, np.zeros(len(y)) if known is None else known)
    return held_out_scores(replace(model.restrict(()), intercepts=intercepts), X, y)


def _best_intercepts(model: tpnn.AnovaModel, y: pd.Series[Any], offset: FloatArray) -> FloatArray:
    """Fit the intercepts, (n_outputs,), to the mean, the shares or the quantiles of y."""
    link = model.link
    if link.name == "quantiles":
        levels = [float(level) for level in model.output_names]
        return np.asarray(np.quantile(y - offset, levels))
    if link.name == "log":
        return link.forward(np.array([y.sum() / np.exp(offset).sum()]))
    if link.name == "identity":
        return np.array([np.mean(y - offset)])
    classes = list(model.classes or model.output_names) or sorted(y.unique())
    shares = np.array([np.mean(y == label) for label in classes])
    raw = link.forward(shares[1:] if link.name == "logit" else shares)
    return np.asarray(raw - offset.mean())
