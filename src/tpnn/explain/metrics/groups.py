"""Groups: means of predictions and targets from the smallest to the largest prediction."""

from __future__ import annotations

import math
import sys

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.explain.metrics.records import Groups

N_GROUPS = 10


def grouped(
    output: str, actual: FloatArray, predicted: FloatArray, rank_by: FloatArray | None = None
) -> Groups:
    """Sort rows by prediction into about ten groups of equal size; equal predictions stay together.

    Parameters
    ----------
    output : str
        The class or target.
    actual, predicted : array of shape (n_rows,)
        Targets and predictions.
    rank_by : array of shape (n_rows,), optional
        What to sort by instead of the prediction.

    Examples
    --------
    >>> grouped("", np.array([0.0, 1.0, 1.0]), np.array([0.2, 0.2, 0.7])).actual
    array([0.5, 1. ])
    """
    ranked = predicted if rank_by is None else rank_by
    counts = -(-np.arange(1, N_GROUPS) * len(ranked) // N_GROUPS)  # rows up to each inner edge
    edges = np.sort(ranked)[counts - 1]
    _, number = np.unique(np.searchsorted(edges, ranked), return_inverse=True)
    n_rows = np.bincount(number)
    unit = unit_of(actual, predicted)
    means = [
        unit * (np.bincount(number, values / unit) / n_rows)  # sums of huge numbers overflow
        for values in (predicted, actual)
    ]
    return Groups(output, means[0], means[1], n_rows)


def unit_of(*arrays: FloatArray) -> float:
    """Power of two in which no sum of squares of these numbers overflows, and no bit is lost.

    >>> unit_of(np.array([0.3, -5.0]))
    8.0
    """
    largest = max(float(np.abs(array).max(initial=0.0)) for array in arrays)
    return math.ldexp(1.0, min(math.frexp(largest)[1], sys.float_info.max_exp - 1))
