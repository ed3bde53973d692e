"""Reliability: predictions of held-out rows beside their targets, in about ten groups."""

from __future__ import annotations

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.model.calibration import Reliability
from tpnn.uncertainty.calibration_rows import HeldOutRows

N_GROUPS = 10


def reliabilities(link: str, means: FloatArray, rows: HeldOutRows) -> tuple[Reliability, ...]:
    """Compare predicted means (n, K) with targets in groups, for each output.

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

    >>> means = np.array([1.0, 1.0, 3.0, 5.0])
    >>> reliability(means, np.array([0.0, 2.0, 3.0, 6.0]), np.ones(4), means).actual
    array([1., 3., 6.])
    """
    order = np.argsort(ranked, kind="stable")
    below = np.cumsum(weights[order]) - weights[order] / 2
    number = np.minimum(np.floor(N_GROUPS * below / weights.sum()), N_GROUPS - 1)
    first = np.r_[True, np.diff(ranked[order]) > 0]
    number = number[np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))]
    _, group = np.unique(number, return_inverse=True)
    masses = np.bincount(group, weights[order])
    sums = [np.bincount(group, (weights * values)[order]) for values in (predicted, actual)]
    return Reliability(sums[0] / masses, sums[1] / masses, masses / masses.sum())
