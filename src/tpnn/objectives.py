"""Objectives: a loss, its gradient, its link, the targets it accepts and where it starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn.links import LINKS, Link

FloatArray = NDArray[Any]

SMALLEST_VARIANCE = 1e-3  # rows that are all but certain keep some weight


@dataclass(frozen=True)
class Objective:
    """What training minimises: sum of weight * loss(y, f(x)).

    Parameters
    ----------
    name : str
        Value of the estimator's ``objective``.
    link : Link
        Link between the raw score f(x) and the prediction.
    loss, gradient : callable (y, raw, xp=numpy) -> array
        Loss of each row and its derivative in the raw score; both broadcast over bags. ``xp`` is
        the library the arrays belong to, NumPy or torch.
    variance : callable mean -> array
        Second derivative of the loss in the raw score, as a function of the mean.
    curvature : float
        Upper bound of the second derivative of the loss in the raw score.
    reweightings : int
        Least squares problems that a second-order method solves one after the other.
    standardised : bool
        Whether training sees y shifted and scaled to mean 0 and standard deviation 1.
    """

    name: str
    link: Link
    loss: Callable[..., FloatArray]
    gradient: Callable[..., FloatArray]
    variance: Callable[[FloatArray], FloatArray]
    curvature: float
    reweightings: int
    standardised: bool

    def start(self, y: FloatArray, weights: FloatArray) -> float:
        """Raw score of the best constant prediction."""
        mean = np.array(np.average(y, weights=weights))
        return float(self.link.forward(mean))


def _squared_error(y: FloatArray, raw: FloatArray, xp: Any = np) -> FloatArray:
    return 0.5 * (raw - y) ** 2


def _squared_error_gradient(y: FloatArray, raw: FloatArray, xp: Any = np) -> FloatArray:
    return raw - y


def _logistic(y: FloatArray, raw: FloatArray, xp: Any = np) -> FloatArray:
    loss: FloatArray = raw.clip(min=0) + xp.log1p(xp.exp(-abs(raw))) - y * raw
    return loss


def _logistic_gradient(y: FloatArray, raw: FloatArray, xp: Any = np) -> FloatArray:
    decay = xp.exp(-abs(raw))
    gradient: FloatArray = xp.where(raw >= 0, 1.0, decay) / (1 + decay) - y
    return gradient


def _bernoulli_variance(mean: FloatArray) -> FloatArray:
    variance: FloatArray = np.maximum(mean * (1 - mean), SMALLEST_VARIANCE)
    return variance


OBJECTIVES = {
    objective.name: objective
    for objective in (
        Objective(
            "squared_error",
            LINKS["identity"],
            _squared_error,
            _squared_error_gradient,
            np.ones_like,
            1.0,
            1,
            True,
        ),
        Objective(
            "log_loss",
            LINKS["logit"],
            _logistic,
            _logistic_gradient,
            _bernoulli_variance,
            0.25,
            4,
            False,
        ),
    )
}
