"""Calibration: whether targets still have the mean that the model predicts.

A score test: under the hypothesis that the model is right, the sums of z_i e_i over the rows, with
errors e_i and z_i = (1, raw score less its mean), are normal around zero. So it notices predictions
that are too high or too low, and raw scores that are too steep or too flat.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.explain.metrics.estimate import hazards
from tpnn.explain.metrics.measure import checked_truth, coded
from tpnn.loss.links import CLASS_LINKS
from tpnn.loss.times import checked_survival
from tpnn.model.model import AnovaModel


def calibration_p_value(model: AnovaModel, y: Any, raw: FloatArray) -> float | None:
    """Chance of such errors if the model is right; None for a survival model without baseline.

    Parameters
    ----------
    model : AnovaModel
        The model.
    y : array
        Targets of the rows, like those of fit.
    raw : array of shape (n_rows,) or (n_rows, n_outputs)
        Their raw scores, with the offset.
    """
    from scipy.stats import chi2, f

    found = _sums(model, y, raw)
    if found is None:
        return None
    sums, covariance = found
    statistic = float(sums @ np.linalg.pinv(covariance, hermitian=True) @ sums)
    rank = max(int(np.linalg.matrix_rank(covariance, hermitian=True)), 1)
    if model.link.name in CLASS_LINKS:
        return float(chi2.sf(statistic, rank))
    n_left = len(raw) - rank  # Hotelling's test, because rows show the covariance
    return float(f.sf(statistic * n_left / (rank * (len(raw) - 1)), rank, n_left))


def _sums(model: AnovaModel, y: Any, raw: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Return the sums of z_i e_i, and their covariance."""
    truth, mean = checked_truth(y, len(raw)), model.link.inverse(raw)
    if model.link.name in CLASS_LINKS:
        return _class_sums(model, truth, mean, raw)
    if model.baseline is not None:
        times, events = checked_survival(y)
        return _robust(_tilted(events - hazards(model, times, raw), raw))
    if model.link.name == "log" and truth.shape == (len(raw), 2):
        return None
    if model.link.name == "quantiles":
        levels = np.array([float(name) for name in model.output_names])
        return _robust((truth[:, None] <= mean) - levels)
    errors = truth.astype(np.float64) - mean
    if errors.ndim == 1:
        return _robust(_tilted(errors, raw))
    return _robust(np.hstack([_tilted(e, r) for e, r in zip(errors.T, raw.T, strict=True)]))


def _class_sums(
    model: AnovaModel, truth: Any, mean: FloatArray, raw: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Errors of labels, whose variance the predicted probabilities say."""
    codes, classes = coded(model, truth, mean.shape[1] if mean.ndim == 2 else 2)
    if mean.ndim == 1:
        z = np.column_stack([np.ones(len(raw)), raw - raw.mean()])
        return z.T @ (codes - mean), z.T @ (z * (mean * (1 - mean))[:, None])
    errors = np.eye(len(classes))[codes] - mean
    return errors.sum(0), np.diag(mean.sum(0)) - mean.T @ mean


def _tilted(errors: FloatArray, raw: FloatArray) -> FloatArray:
    """Columns e_i and (raw_i - mean) e_i."""
    return np.column_stack([errors, (raw - raw.mean()) * errors])


def _robust(parts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return sums of columns, and their covariance as the rows show it."""
    scale = np.sqrt((parts**2).mean(0))
    unit = parts / np.where(scale > 0, scale, 1.0)
    return unit.sum(0), len(unit) * np.atleast_2d(np.cov(unit.T))
