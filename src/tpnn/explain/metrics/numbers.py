"""Numbers: R2, RMSE and deviance, pinball loss of quantiles, and calibration by decile."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.metrics import (
    mean_pinball_loss,
    mean_tweedie_deviance,
    r2_score,
    root_mean_squared_error,
)

from tpnn._utils.arrays import FloatArray
from tpnn.explain.metrics.groups import grouped, unit_of
from tpnn.explain.metrics.records import Metrics, Score
from tpnn.loss.losses import quantiles, tweedie

POISSON_POWER, GAMMA_POWER = 1.0, 2.0
R2_DECIMALS = 12  # rounding of sums is not a score


def number_metrics(
    actual: FloatArray, predicted: FloatArray, offset: FloatArray, outputs: Sequence[str]
) -> Metrics:
    """R2 and RMSE of numbers, and their calibration by decile of the prediction.

    R2 needs two rows; it is left out where there is one.

    Parameters
    ----------
    actual, predicted : array of shape (n_rows,) or (n_rows, n_targets)
        Targets and predictions.
    offset : array of shape (n_rows,)
        Known part of the predictions.
    outputs : sequence of str
        Names of several targets.
    """
    known = offset if actual.ndim == 1 else offset[:, None]
    constant = known + (actual - known).mean(0)
    groups = [grouped(name, actual[:, k], predicted[:, k]) for k, name in enumerate(outputs)] or [
        grouped("", actual, predicted)
    ]
    return Metrics(scores=tuple(_squares(actual, predicted, constant)), groups=tuple(groups))


def rate_metrics(
    actual: FloatArray, predicted: FloatArray, offset: FloatArray, power: float | None
) -> Metrics:
    """Deviance, and actual over expected, of predictions exp(raw score).

    Deciles are those of the prediction per unit of exposure exp(offset).

    Parameters
    ----------
    actual, predicted : array of shape (n_rows,)
        Targets and predictions.
    offset : array of shape (n_rows,)
        Logarithm of the exposure.
    power : float or None
        Power of the Tweedie deviance that was fitted; None, where it is not known, is Poisson.
    """
    asked = POISSON_POWER if power is None else power
    group = grouped("", actual, predicted, np.log(predicted) - offset)
    lowest = actual.min()
    if lowest < 0 or (lowest == 0 and asked >= GAMMA_POWER) or not actual.any():
        constant = np.full_like(actual, actual.mean())
        return Metrics(scores=tuple(_squares(actual, predicted, constant)), groups=(group,))
    known = offset[:, None]
    raw = known + tweedie(asked).start(actual[:, None], known, np.ones(len(actual)))
    constant = np.exp(raw[:, 0])
    both = predicted, constant
    deviances = [mean_tweedie_deviance(actual, p, power=asked) for p in both]
    explained = [1 - deviance / deviances[1] if deviances[1] else 0.0 for deviance in deviances]
    scores = [
        Score(f"Mean {deviance_name(asked)} deviance", *map(float, deviances)),
        Score("Share of the deviance explained", *map(float, explained)),
        Score(
            "Actual over expected", *(float(actual.sum() / p.sum()) for p in (predicted, constant))
        ),
    ]
    squares = _squares(actual, predicted, constant)
    return Metrics(scores=(*scores, *squares), groups=(group,))


def quantile_metrics(
    actual: FloatArray, predicted: FloatArray, offset: FloatArray, levels: Sequence[float]
) -> Metrics:
    """Pinball loss of predicted quantiles (n_rows, n_levels), and the share of rows below each."""
    start = quantiles(levels).start(actual[:, None], offset[:, None], np.ones(len(actual)))
    constant = offset[:, None] + start  # (n_rows, n_levels)
    both = predicted, constant
    losses = [
        float(np.mean([mean_pinball_loss(actual, p[:, k], alpha=a) for k, a in enumerate(levels)]))
        for p in both
    ]
    below = [
        Score(
            f"Share of rows up to quantile {level:g}",
            *(float((actual <= p[:, k]).mean()) for p in both),
        )
        for k, level in enumerate(levels)
    ]
    return Metrics(scores=(Score("Mean pinball loss", *losses), *below))


def _squares(actual: FloatArray, predicted: FloatArray, constant: FloatArray) -> list[Score]:
    """R2 and RMSE in a unit in which squares do not overflow."""
    unit = unit_of(actual, predicted)
    truth, both = actual / unit, (predicted / unit, constant / unit)
    errors = [unit * float(root_mean_squared_error(truth, values)) for values in both]
    rmse = Score("RMSE", *errors)
    if len(truth) == 1:
        return [rmse]
    return [Score("R2", *(round(float(r2_score(truth, p)), R2_DECIMALS) for p in both)), rmse]


def deviance_name(power: float) -> str:
    """Name of the deviance of a Tweedie power."""
    known = {POISSON_POWER: "Poisson", GAMMA_POWER: "gamma"}
    return known.get(power, f"Tweedie (power {power:g})")
