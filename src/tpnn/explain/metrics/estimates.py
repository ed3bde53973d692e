"""Scores of a model, each with the influence of every row, for standard errors and differences.

A score is a function of the distribution of the rows. Its influence psi_i is n times the change of
the score if row i gets a little more weight. Then sqrt(sum_i psi_i^2) / n is the standard error of
the score. Differences of influences give the standard error of the difference of two scores on the
same rows. For a mean this is the usual formula, for the area under the ROC curve DeLong's (1988).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.metrics import roc_curve

from tpnn._utils.arrays import BoolArray, FloatArray
from tpnn.anova.posterior import normal_quantile
from tpnn.explain.metrics.at_times import share_below
from tpnn.explain.metrics.curves import Metrics, Score, calibration_groups, is_mixed, roc_curves
from tpnn.explain.metrics.hazards import hazards, survival_curves
from tpnn.loss.objectives import tweedie
from tpnn.loss.risk_sets import died
from tpnn.loss.row_values import checked_offset
from tpnn.model.model import AnovaModel, offset_of
from tpnn.model.task import Task, unit_of
from tpnn.table.table import Table

TOP_SHARE = 0.1  # of rows, those with the highest predictions, whose lift is measured
N_NEWTON = 50
SMALLEST_STEP = 1e-12
R2_DECIMALS = 12  # rounding of sums is not a score


@dataclass(frozen=True, eq=False)
class Estimate:
    """A score, and how much each row counts in it."""

    name: str
    value: float
    influences: FloatArray  # (n_rows,)
    is_gain: bool | None  # whether larger is better; None where the best value is neither end

    @property
    def standard_error(self) -> float:
        """Standard error over samples of rows."""
        return standard_error(self.influences)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the ends of the normal confidence interval."""
        reach = normal_quantile((1 + level) / 2) * self.standard_error
        return self.value - reach, self.value + reach


def standard_error(influences: FloatArray) -> float:
    """Return the standard error of a score, or of a difference of scores, from influences.

    >>> round(standard_error(np.array([-1.0, 0.0, 1.0])), 4)  # of the mean of 1, 2, 3
    0.5774
    """
    n_rows = len(influences)
    return float(np.sqrt((influences**2).sum() / (n_rows * max(n_rows - 1, 1))))


def mean_estimate(name: str, losses: FloatArray, is_gain: bool | None = False) -> Estimate:
    """Mean of a number for each row."""
    value = float(losses.mean())
    return Estimate(name, value, losses - value, is_gain)


def ratio_estimate(
    name: str, above: FloatArray, below: FloatArray, is_gain: bool | None = None
) -> Estimate:
    """Ratio of two means: (mean of above) / (mean of below)."""
    value = float(above.mean() / below.mean())
    return Estimate(name, value, (above - value * below) / below.mean(), is_gain)


def root_estimate(name: str, squares: FloatArray) -> Estimate:
    """Root of a mean."""
    value = float(np.sqrt(squares.mean()))
    return Estimate(name, value, (squares - value**2) / (2 * value or 1.0), False)


def r2_estimate(name: str, actual: FloatArray, predicted: FloatArray) -> Estimate:
    """Share of the variance explained, 1 - sum (y - f)^2 / sum (y - mean)^2."""
    total, rest = (actual - actual.mean()) ** 2, (actual - predicted) ** 2
    lost = ratio_estimate(name, rest, total)
    return Estimate(name, round(1 - lost.value, R2_DECIMALS), -lost.influences, True)


def area_estimate(name: str, is_class: BoolArray, scores: FloatArray) -> Estimate:
    """Area under the ROC curve."""
    from scipy.stats import rankdata

    within = np.empty(len(scores))  # ranks among the rows of the same side
    for side in (is_class, ~is_class):
        within[side] = rankdata(scores[side])
    n_class, n_rows = int(is_class.sum()), len(scores)
    n_rest = n_rows - n_class
    # A rank among all rows, less the rank on the same side, counts rows of the other side below.
    n_below = rankdata(scores) - within
    beaten = np.where(is_class, n_below / n_rest, 1 - n_below / n_class)
    area = float(beaten[is_class].mean())
    weight = np.where(is_class, n_rows / n_class, n_rows / n_rest)
    return Estimate(name, area, weight * (beaten - area), True)


def distance_estimate(name: str, is_class: BoolArray, scores: FloatArray) -> Estimate:
    """Kolmogorov-Smirnov distance, at the threshold where it is largest."""
    false_positive, true_positive, thresholds = roc_curve(is_class, scores)
    best = int(np.argmax(true_positive - false_positive))
    above = (scores >= thresholds[best]).astype(float)
    rates = np.where(is_class, true_positive[best], false_positive[best])
    shares = np.where(is_class, is_class.mean(), -(~is_class).mean())
    value = float(true_positive[best] - false_positive[best])
    return Estimate(name, value, (above - rates) / shares, True)


def lift_estimate(name: str, actual: FloatArray, predicted: FloatArray) -> Estimate:
    """Mean target of the tenth of rows with the highest predictions, over the mean of all."""
    edge = np.quantile(predicted, 1 - TOP_SHARE)
    top = (predicted >= edge).astype(float)
    share, mean = top.mean(), actual.mean()
    in_top = float((top * actual).mean() / share)
    influences = top * (actual - in_top) / (share * mean) - in_top * (actual - mean) / mean**2
    return Estimate(name, in_top / mean, influences, True)


def slope_estimate(name: str, actual: FloatArray, raw: FloatArray) -> Estimate:
    """Slope of the logistic regression of labels on raw scores; 1 where these are calibrated."""
    design = np.column_stack([np.ones_like(raw), raw])
    coefficients = np.zeros(2)  # from scores that are far off, Newton's steps would run away
    for _ in range(N_NEWTON):
        means = 1 / (1 + np.exp(-np.clip(design @ coefficients, -500, 500)))
        scores = design * (actual - means)[:, None]  # (n_rows, 2)
        hessian = design.T @ (design * (means * (1 - means))[:, None]) / len(raw)
        step = np.linalg.lstsq(hessian, scores.mean(0), rcond=None)[0]
        coefficients = coefficients + step
        if np.abs(step).max() < SMALLEST_STEP:
            break
    influences = np.linalg.lstsq(hessian, scores.T, rcond=None)[0][1]
    return Estimate(name, float(coefficients[1]), influences, None)


def concordance_estimate(name: str, target: FloatArray, risk: FloatArray) -> Estimate:
    """C-index: share of comparable pairs of rows in which the higher risk has the earlier event.

    Rows with an event are compared with those of their stratum that are at risk then, and with
    those that had a competing event before.
    """
    times, happened = target[:, 0], target[:, 1]
    agreed, comparable = np.zeros(len(times)), np.zeros(len(times))
    for row in np.flatnonzero(happened == 1):
        later = (times > times[row]) | ((times == times[row]) & (happened != 1)) | (happened == 2)
        if target.shape[1] > 2:
            later &= (target[:, 2] < times[row]) & (target[:, 3] == target[row, 3])
        right = later * share_below(risk, risk[row])
        agreed += right
        comparable += later
        agreed[row] += right.sum()
        comparable[row] += later.sum()
    if not comparable.any():
        return Estimate(name, 0.5, np.zeros(len(times)), True)
    ratio = ratio_estimate(name, agreed, comparable, True)
    return Estimate(name, ratio.value, 2 * ratio.influences, True)  # every pair has two rows


def estimate(task: Task, y: Any, raw: FloatArray) -> list[Estimate]:
    """Scores of raw scores with their offset, (n_rows[, n_outputs]); the loss of the task first.

    ``y`` has targets of the same shape, or times and events of a survival model.
    """
    task = task.told(y)
    return _estimates(task, task.targets(y, len(raw)), raw)


def _estimates(task: Task, target: FloatArray, raw: FloatArray) -> list[Estimate]:
    others = {
        "classes": _class_estimates,
        "numbers": _number_estimates,
        "quantiles": _quantile_estimates,
        "rates": _rate_estimates,
        "survival": _survival_estimates,
    }
    losses, further = task.losses(target, raw), others[task.kind](task, target, raw)
    if not np.isfinite(losses).all():
        return further
    loss = mean_estimate(task.objective.name, losses)
    if task.objective.couples_rows:
        # A row counts in the risk sets of others, too: by the events that are expected of it.
        slope, _ = task.objective.slopes(target, raw[:, None], np.ones((len(raw), 1)))
        expected = slope[:, 0] + died(target)[:, 0]
        loss = replace(loss, influences=loss.influences + expected - expected.mean())
    return [loss, *further]


def _class_estimates(task: Task, target: FloatArray, raw: FloatArray) -> list[Estimate]:
    """Accuracy, areas and, of two classes, distance, lift and calibration."""
    shares = task.shares(raw)
    codes = target.argmax(1) if target.shape[1] > 1 else target[:, 0].astype(np.intp)
    right = (task.decisions(raw) == codes).astype(float)
    scores = [mean_estimate("Accuracy", right, True)]
    if shares.shape[1] > 2:
        is_class = [codes == number for number in range(shares.shape[1])]
        return scores + [
            area_estimate(f"AUROC of {label}", rows, share)
            for label, rows, share in zip(task.classes, is_class, shares.T, strict=True)
            if is_mixed(rows)
        ]
    second, actual, is_class = shares[:, 1], target[:, 0], codes == 1
    if is_mixed(is_class):
        scores += [area_estimate("AUROC", is_class, raw), distance_estimate("KS", is_class, raw)]
    scores.append(mean_estimate("Brier score", (actual - second) ** 2))
    if is_mixed(is_class):
        scores += [
            lift_estimate("Lift of the top tenth", actual, second),
            ratio_estimate("Actual over expected", actual, second),
        ]
        scores += [slope_estimate("Calibration slope", actual, raw)] if np.ptp(raw) else []
    return scores


def _number_estimates(task: Task, target: FloatArray, raw: FloatArray) -> list[Estimate]:
    """R2, RMSE, mean absolute error and mean error of each output."""
    predicted = task.link.inverse(raw).reshape(target.shape)
    return [
        score
        for output, actual, mean in zip(task.outputs or ("",), target.T, predicted.T, strict=True)
        for score in _squares(f" of {output}" if output else "", actual, mean)
    ]


def _squares(of: str, actual: FloatArray, predicted: FloatArray) -> list[Estimate]:
    """Scores of errors, in a unit in which squares do not overflow; R2 where targets vary."""
    unit = unit_of(actual, predicted)
    actual, predicted = actual / unit, predicted / unit
    errors = actual - predicted
    in_unit = [
        root_estimate(f"RMSE{of}", errors**2),
        mean_estimate(f"Mean absolute error{of}", np.abs(errors)),
        mean_estimate(f"Mean of actual less predicted{of}", errors, None),
    ]
    scaled = [
        replace(one, value=unit * one.value, influences=unit * one.influences) for one in in_unit
    ]
    return ([r2_estimate(f"R2{of}", actual, predicted)] if np.ptp(actual) else []) + scaled


def _rate_estimates(task: Task, target: FloatArray, raw: FloatArray) -> list[Estimate]:
    """Actual over expected and lift, where targets are those of a rate, and scores of numbers."""
    squares = _number_estimates(task, target, raw)
    if target.shape[1] > 1 or not task.objective.accepts(target):
        return squares
    actual, predicted = target[:, 0], task.link.inverse(raw)
    return [
        ratio_estimate("Actual over expected", actual, predicted),
        lift_estimate("Lift of the top tenth", actual, predicted),
        *squares,
    ]


def _quantile_estimates(task: Task, target: FloatArray, raw: FloatArray) -> list[Estimate]:
    """Share of the rows up to each quantile."""
    is_below = target <= task.link.inverse(raw)  # (n_rows, n_levels)
    return [
        mean_estimate(f"Share of rows up to quantile {level:g}", rows.astype(float), None)
        for level, rows in zip(task.levels, is_below.T, strict=True)
    ]


def _survival_estimates(task: Task, target: FloatArray, raw: FloatArray) -> list[Estimate]:
    """C-index and, with a baseline, events over their expected number (Breslow)."""
    scores = [concordance_estimate("C-index", target, raw)]
    if task.baseline is not None and task.objective.is_alone:
        expected = hazards(task.baseline, target, raw)
        scores.append(ratio_estimate("Events over expected", died(target)[:, 0], expected))
    return scores


def measure(
    model: AnovaModel, X: Any, y: Any, offset: Any = None, *, power: float | None = None
) -> Metrics:
    """Measure a model on held-out rows, beside the constant that fits these rows best.

    The first score is the loss that the model was fitted by, in the unit of y, under its name. A
    model that no estimator of this library fitted has the loss of its link: squared error, log-loss
    or the Poisson deviance. It is scored as a survival model if it has a baseline or ``y`` holds
    times and events.

    Parameters
    ----------
    model : AnovaModel
        The model.
    X : table
        Held-out rows.
    y : array of shape (n_rows,) or (n_rows, n_outputs)
        Their targets, with the labels of fit; times and events of a survival model.
    offset : array of shape (n_rows,), optional
        Known part of the raw score of each row. A column of X that is the offset counts by itself.
    power : float, optional
        Score by the Tweedie deviance of this power instead.

    Examples
    --------
    >>> from tpnn import TPNNRegressor, datasets
    >>> X, y = datasets.load("abalone")
    >>> model = TPNNRegressor(order=1, n_bags=2, random_state=0).fit(X[500:], y[500:])
    >>> [score.name for score in measure(model.model_, X[:500], y[:500]).scores][:3]
    ['squared_error', 'R2', 'RMSE']
    """
    table = model.encoder.read(X)
    raw, added = model.raw_scores(table, offset), known_offset(model, table, offset)
    task = with_power(model.task, power).told(y)
    target = task.targets(y, len(raw))
    if len(raw) == 0:
        return Metrics()
    return Metrics(
        scores=tuple(beside_constant(task, target, raw, added)),
        rocs=roc_curves(task, target, raw),
        groups=calibration_groups(task, target, raw, added),
        survival=survival_curves(task, target, raw),
    )


def known_offset(model: AnovaModel, table: Table, offset: Any) -> FloatArray:
    """Known part of the raw score of each row, (n_rows,), from its column or as it was passed."""
    in_rows = None if model.encoder.offset_column is None else offset_of(model, table)
    return checked_offset(offset if in_rows is None else in_rows, table.n_rows)


def explained_share(
    task: Task,
    target: FloatArray,
    raw: FloatArray,
    offset: FloatArray,
    weights: FloatArray | None = None,
) -> float:
    """Share of the loss that the model explains beyond the constant that fits these rows best.

    The constant has the offset of each row, so that an exposure is no skill of the model.
    """
    constant = task.constant(target, offset, weights)
    loss, of_constant = (
        float(np.average(task.losses(target, scores), weights=weights))
        for scores in (raw, constant)
    )
    return 1 - loss / of_constant if of_constant else 0.0


def with_power(task: Task, power: float | None) -> Task:
    """Judge a task by the Tweedie deviance of a power, if there is one."""
    return task if power is None else replace(task, objective=tweedie(power))


def beside_constant(
    task: Task, target: FloatArray, raw: FloatArray, offset: FloatArray
) -> list[Score]:
    """Scores beside those of the best constant; none for targets that a fit would refuse."""
    estimates = _estimates(task, target, raw)
    if not task.objective.accepts(target):
        return [Score(one.name, one.value) for one in estimates]
    constants = _estimates(task, target, task.constant(target, offset))
    constant = {one.name: one.value for one in constants}
    scores = [Score(one.name, one.value, constant.get(one.name)) for one in estimates]
    if task.kind == "rates" and scores[0].name == task.objective.name:
        share = explained_share(task, target, raw, offset)
        scores.insert(1, Score("Share of the deviance explained", share, 0.0))
    return scores
