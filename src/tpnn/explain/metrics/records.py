"""Groups: means of predictions and targets from the smallest to the largest prediction."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray

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


class Score(NamedTuple):
    """One number that says how good the predictions are.

    Parameters
    ----------
    name : str
        Name of the score.
    value : float
        The score of the model.
    constant : float or None
        The score of the constant that fits these rows best; None where it has none.
    """

    name: str
    value: float
    constant: float | None = None


class Roc(NamedTuple):
    """Receiver operating characteristic of one class against the rest.

    Parameters
    ----------
    output : str
        The class.
    area : float
        Area under the curve.
    ks : float
        Kolmogorov-Smirnov distance, the largest of ``true_positive - false_positive``.
    false_positive, true_positive : array of shape (n_points,)
        Shares of the other rows and of the rows of the class that are above each threshold.
    """

    output: str
    area: float
    ks: float
    false_positive: FloatArray
    true_positive: FloatArray


class Groups(NamedTuple):
    """Rows in about ten groups of equal size, from the smallest to the largest prediction.

    Parameters
    ----------
    output : str
        The class or target; empty where there is one only.
    predicted, actual : array of shape (n_groups,)
        Mean prediction and mean target of each group.
    n_rows : array of shape (n_groups,)
        Number of rows of each group.
    """

    output: str
    predicted: FloatArray
    actual: FloatArray
    n_rows: IntArray


class SurvivalCurve(NamedTuple):
    """Share of rows that survive, as observed and as predicted.

    Parameters
    ----------
    rows : str
        Which rows these are.
    times : array of shape (n_times,)
        Times, increasing.
    observed : array of shape (n_times,)
        Kaplan-Meier estimate at these times.
    predicted : array of shape (n_times,)
        Mean of the predicted survival functions.
    """

    rows: str
    times: FloatArray
    observed: FloatArray
    predicted: FloatArray


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """What ``measure`` finds; what does not suit the task is empty.

    Parameters
    ----------
    scores : tuple of Score
        Scores beside those of the best constant.
    rocs : tuple of Roc
        For classes: one, or one for each of several classes.
    groups : tuple of Groups
        For classes and numbers: calibration, one for each output.
    survival : tuple of SurvivalCurve
        For survival: of all rows, then of thirds by predicted risk.
    """

    scores: tuple[Score, ...] = ()
    rocs: tuple[Roc, ...] = ()
    groups: tuple[Groups, ...] = ()
    survival: tuple[SurvivalCurve, ...] = ()
