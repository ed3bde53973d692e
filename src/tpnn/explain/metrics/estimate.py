"""estimate: the scores that suit a model's task, each with the influence of every row."""

from __future__ import annotations

from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.explain.metrics.estimates import (
    Estimate,
    class_estimates,
    concordance_estimate,
    lift_estimate,
    mean_estimate,
    number_estimates,
    ratio_estimate,
    several_class_estimates,
)
from tpnn.explain.metrics.measure import checked_truth, coded
from tpnn.explain.metrics.numbers import GAMMA_POWER, POISSON_POWER, deviance_name
from tpnn.loss.times import checked_survival
from tpnn.model.model import AnovaModel


def estimate(
    model: AnovaModel, y: Any, raw: FloatArray, *, power: float | None = None
) -> list[Estimate]:
    """Scores of raw scores on rows with targets.

    Parameters
    ----------
    model : AnovaModel
        Whose raw scores these are: its link, classes and outputs say what the task is.
    y : array of shape (n_rows,) or (n_rows, n_outputs)
        Targets; times and events of a survival model.
    raw : array of shape (n_rows,) or (n_rows, n_outputs)
        Raw scores, with their offset.
    power : float, optional
        Power of the Tweedie deviance of a log link; by default Poisson's.
    """
    truth, predicted = checked_truth(y, len(raw)), model.link.inverse(raw)
    name = model.link.name
    if name in ("logit", "softmax"):
        codes, classes = coded(model, truth, predicted.shape[1] if predicted.ndim == 2 else 2)
        if predicted.ndim == 1:
            return class_estimates(codes, predicted, raw)
        return several_class_estimates(codes, predicted, tuple(classes))
    if name == "log" and (model.baseline is not None or truth.shape == (len(raw), 2)):
        return _survival_estimates(model, y, raw)
    if name == "quantiles":
        return _quantile_estimates(model, truth.astype(float), predicted)
    if name == "log":
        asked = POISSON_POWER if power is None else power
        return _rate_estimates(truth.astype(float), predicted, asked)
    if predicted.ndim == 1:
        return number_estimates("", truth.astype(float), predicted)
    return [
        found
        for place, output in enumerate(model.output_names)
        for found in number_estimates(output, truth[:, place].astype(float), predicted[:, place])
    ]


def _survival_estimates(model: AnovaModel, y: Any, raw: FloatArray) -> list[Estimate]:
    """C-index and, with a baseline, events over their expected number (Breslow)."""
    times, events = checked_survival(y)
    found = [concordance_estimate("C-index", times, events, raw)]
    if model.baseline is not None:
        found.append(ratio_estimate("Events over expected", events, hazards(model, times, raw)))
    return found


def hazards(model: AnovaModel, times: FloatArray, raw: FloatArray) -> FloatArray:
    """Cumulative hazard of each row at its own time, H_0(t_i) exp(f(x_i)), shape (n_rows,)."""
    assert model.baseline is not None
    steps = np.searchsorted(model.baseline.times, times, side="right")
    log_hazard = np.append(-np.inf, model.baseline.log_hazard)[steps]
    return model.link.inverse(raw + log_hazard) * (steps > 0)


def _rate_estimates(actual: FloatArray, predicted: FloatArray, power: float) -> list[Estimate]:
    """Deviance and actual over expected; scores of numbers where targets have no deviance."""
    lowest = actual.min()
    if lowest < 0 or (lowest == 0 and power >= GAMMA_POWER):
        return number_estimates("", actual, predicted)
    return [
        mean_estimate(f"Mean {deviance_name(power)} deviance", deviances(actual, predicted, power)),
        ratio_estimate("Actual over expected", actual, predicted),
        lift_estimate("Lift of the top tenth", actual, predicted),
    ]


def deviances(actual: FloatArray, mean: FloatArray, power: float) -> FloatArray:
    """Tweedie deviance of each row, (n_rows,).

    >>> deviances(np.array([0.0, 2.0]), np.array([1.0, 2.0]), 1.0)
    array([2., 0.])
    """
    from scipy.special import xlogy

    if power == POISSON_POWER:
        rows = xlogy(actual, actual / mean) - actual + mean
    elif power == GAMMA_POWER:
        rows = np.log(mean / actual) + actual / mean - 1
    else:
        one, two = 1 - power, 2 - power
        rows = actual**two / (one * two) - actual * mean**one / one + mean**two / two
    return np.asarray(2 * rows)


def _quantile_estimates(
    model: AnovaModel, actual: FloatArray, predicted: FloatArray
) -> list[Estimate]:
    levels = np.array([float(name) for name in model.output_names])
    errors = actual[:, None] - predicted  # (n_rows, n_levels)
    pinball = np.asarray(np.maximum(levels * errors, (levels - 1) * errors).mean(1), np.float64)
    below = [
        mean_estimate(
            f"Share of rows up to quantile {level:g}", (errors[:, k] <= 0).astype(float), None
        )
        for k, level in enumerate(levels)
    ]
    return [mean_estimate("Mean pinball loss", pinball), *below]
