"""Reliability: predictions of held-out rows beside their targets, in about ten groups."""

from __future__ import annotations

import numpy as np

from tpnn._typing import FloatArray
from tpnn.calibrate.held_out import HeldOutRows
from tpnn.model.calibration import Reliability

N_GROUPS = 10


def reliabilities(link: str, means: FloatArray, rows: HeldOutRows) -> tuple[Reliability, ...]:
    """Groups of each output, of predicted means (n, K).

    Rows with a log link are sorted by their rate, the mean without the offset, so that a large
    exposure is not taken for a large risk.
    """
    ranks = rows.raw - rows.offset[:, None] if link == "log" else means
    return tuple(
        reliability(predicted, actual, rows.weights, rank)
        for predicted, actual, rank in zip(means.T, rows.y.T, ranks.T, strict=True)
    )


def reliability(
    predicted: FloatArray, actual: FloatArray, weights: FloatArray, ranked: FloatArray
) -> Reliability:
    """Sort rows (n,) into about ten groups of equal mass; equal ranks stay together.

    >>> one = np.ones(4) / 4
    >>> reliability(np.array([1.0, 1, 3, 5]), np.array([0.0, 2, 3, 6]), one, np.array([1, 1, 2, 3]))
    Reliability(predicted=array([1., 3., 5.]), actual=array([1., 3., 6.]), masses=array([0.5 , 0.25, 0.25]))
    """
    order = np.argsort(ranked, kind="stable")
    below = np.cumsum(weights[order]) - weights[order] / 2
    number = np.minimum(np.floor(N_GROUPS * below / weights.sum()), N_GROUPS - 1)
    first = np.r_[True, np.diff(ranked[order]) > 0]
    number = number[np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))]
    _, group = np.unique(number, return_inverse=True)
    masses = np.bincount(group, weights[order])
    means = (np.bincount(group, (weights * v)[order]) / masses for v in (predicted, actual))
    return Reliability(*means, masses / masses.sum())
