"""Records of metrics: scores, ROC curves, calibration and survival on held-out rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tpnn._utils.arrays import FloatArray, IntArray


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
    """The metrics of a model on held-out rows; those that do not suit the task are empty.

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
