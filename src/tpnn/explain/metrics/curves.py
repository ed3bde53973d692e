"""Curves: ROC of classes, calibration by group, and survival, beside the scores of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sklearn.metrics import auc, roc_curve

from tpnn._utils.arrays import BoolArray, FloatArray, IntArray
from tpnn.explain.doubt import REACH, share_interval
from tpnn.loss.objectives import OBJECTIVES
from tpnn.model.task import Task, unit_of


def score_words(name: str) -> str:
    """Write the name of a score for people: a loss has the name of an objective.

    >>> score_words("log_loss"), score_words("poisson"), score_words("cox"), score_words("RMSE")
    ('Log loss', 'Poisson deviance', 'Cox loss', 'RMSE')
    """
    if name not in OBJECTIVES:
        return name
    kind = " loss" if OBJECTIVES[name].power is None else " deviance"
    end = "" if name.endswith(("loss", "error")) else kind
    return name.replace("_", " ").capitalize() + end


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
    lower, upper : array of shape (n_groups,)
        Interval of 95 % of the mean target: Wilson's for classes; NaN for a number of one row.
    """

    output: str
    predicted: FloatArray
    actual: FloatArray
    n_rows: IntArray
    lower: FloatArray
    upper: FloatArray


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


MAX_CURVE_POINTS = 200


def roc_curves(task: Task, target: FloatArray, raw: FloatArray) -> tuple[Roc, ...]:
    """ROC curves of the second of two classes, or of each of several; none for other tasks.

    A class without rows, or with all of them, has none.
    """
    if task.kind != "classes":
        return ()
    shares = task.shares(raw)[:, -target.shape[1] :]
    columns = zip(_outputs(task), target.T > 0, shares.T, strict=True)
    return tuple(
        roc(output, is_class, share) for output, is_class, share in columns if is_mixed(is_class)
    )


def is_mixed(is_class: BoolArray) -> bool:
    """Whether there are rows of the class and others."""
    return 0 < int(is_class.sum()) < len(is_class)


def calibration_groups(
    task: Task, target: FloatArray, raw: FloatArray, offset: FloatArray
) -> tuple[Groups, ...]:
    """Mean predictions beside mean targets of classes, numbers and rates, for each output."""
    if task.kind not in ("classes", "numbers", "rates"):
        return ()
    raw, ones = raw.reshape(len(raw), -1), np.ones(len(raw))
    groups = task.groups(target, raw, offset, ones)
    unit = unit_of(target)
    squares = task.groups((target / unit) ** 2, raw, offset, ones)
    found = []
    for output, means, second in zip(_outputs(task), groups, squares, strict=True):
        n_rows = means.masses
        if task.kind == "classes":
            ends = share_interval(means.actual, n_rows)
        else:
            variance = (second.actual - (means.actual / unit) ** 2).clip(0)
            with np.errstate(divide="ignore", invalid="ignore"):
                reach = REACH * unit * np.sqrt(variance / (n_rows - 1))
            ends = means.actual - reach, means.actual + reach
        found.append(Groups(output, means.predicted, means.actual, n_rows.astype(np.intp), *ends))
    return tuple(found)


def _outputs(task: Task) -> tuple[str, ...]:
    """Names of the outputs; of two classes, the second one."""
    if task.kind == "classes":
        shown = task.classes if task.objective.n_outputs > 1 else task.classes[1:]
        return tuple(map(str, shown))
    return task.outputs or ("",)


def roc(output: str, is_class: BoolArray, scores: FloatArray) -> Roc:
    """ROC curve of one class, thinned out to ``MAX_CURVE_POINTS`` after it was measured."""
    false_positive, true_positive, _ = roc_curve(is_class, scores)
    kept = np.unique(np.linspace(0, len(false_positive) - 1, MAX_CURVE_POINTS).astype(np.intp))
    return Roc(
        output=output,
        area=float(auc(false_positive, true_positive)),
        ks=float(np.max(true_positive - false_positive)),
        false_positive=false_positive[kept],
        true_positive=true_positive[kept],
    )
