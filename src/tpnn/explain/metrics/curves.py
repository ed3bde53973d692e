"""Curves: ROC of classes, calibration by group, and survival, beside the scores of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sklearn.metrics import auc, roc_curve

from tpnn._utils.arrays import BoolArray, FloatArray, IntArray
from tpnn.anova.posterior import LEVEL, normal_quantile
from tpnn.explain.doubt import share_interval
from tpnn.model.evidence import Baseline
from tpnn.model.task import Task, unit_of
from tpnn.table.encoder import whole_counts


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
                reach = normal_quantile((1 + LEVEL) / 2) * unit * np.sqrt(variance / (n_rows - 1))
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


MAX_TIMES = 100  # of a curve
RISK_THIRDS = ("lowest third of risk", "middle third of risk", "highest third of risk")
MIN_ROWS_OF_A_THIRD = 10


def breslow(
    times: FloatArray, events: FloatArray, raw: FloatArray, weights: FloatArray | None = None
) -> Baseline:
    """Breslow's estimate: at each event, deaths over the summed risk of the rows still alive.

    No bit depends on the order of the rows, on their copies or on the unit of the weights.
    """
    mass = np.ones_like(times) if weights is None else weights
    order = np.lexsort((mass, events, raw, times))
    order = order[mass[order] > 0]
    keys = np.stack([times, events, raw])[:, order]
    starts = np.flatnonzero(np.r_[True, (keys[:, 1:] != keys[:, :-1]).any(0)])
    merged, (moments, died, scores) = np.add.reduceat(mass[order], starts), keys[:, starts]
    counts = whole_counts(merged)
    if counts is None:  # in single precision, which hides how the sums were rounded
        counts = (merged / merged.sum()).astype(np.float32).astype(np.float64)
    log_alive = np.logaddexp.accumulate((np.log(counts) + scores)[::-1])[::-1]
    first = np.flatnonzero(np.r_[True, np.diff(moments) > 0])
    deaths = np.add.reduceat(counts * died, first)
    first, deaths = first[deaths > 0], deaths[deaths > 0]
    log_hazard = np.logaddexp.accumulate(np.log(deaths) - log_alive[first])
    return Baseline(moments[first], log_hazard)


def kaplan_meier(times: FloatArray, events: FloatArray, asked: FloatArray) -> FloatArray:
    """Share that survives beyond the times asked for: product of (1 - deaths / alive).

    >>> times, events = np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.0, 1.0])
    >>> kaplan_meier(times, events, np.array([0.5, 1.0, 3.0]))
    array([1.        , 0.66666667, 0.        ])
    """
    moments, number = np.unique(times, return_inverse=True)
    deaths = np.bincount(number, events)
    alive = len(times) - np.searchsorted(np.sort(times), moments)
    lived = np.append(1.0, np.cumprod(1 - deaths / alive))
    survived: FloatArray = lived[np.searchsorted(moments, asked, side="right")]
    return survived


def survival_curves(task: Task, target: FloatArray, raw: FloatArray) -> tuple[SurvivalCurve, ...]:
    """Survival of all rows and of thirds by risk; none for other tasks.

    A model without a baseline hazard gets the baseline of these rows.
    """
    times, events = target[:, 0], target[:, -1]
    if task.kind != "survival" or (task.baseline is None and not events.any()):
        return ()
    hazard = task.baseline or breslow(times, events, raw)
    third = np.searchsorted(np.quantile(raw, [1 / 3, 2 / 3]), raw)
    chosen = [("all rows", np.ones(len(times), bool))]
    if np.bincount(third, minlength=3).min() >= MIN_ROWS_OF_A_THIRD:
        chosen += [(name, third == k) for k, name in enumerate(RISK_THIRDS)]
    return tuple(_curve(name, times[s], events[s], raw[s], hazard) for name, s in chosen)


def _curve(
    name: str, times: FloatArray, events: FloatArray, raw: FloatArray, baseline: Baseline
) -> SurvivalCurve:
    asked = np.linspace(0.0, times.max(), MAX_TIMES)
    predicted = baseline.survival(raw, asked).mean(0)
    return SurvivalCurve(name, asked, kaplan_meier(times, events, asked), predicted)
