"""Estimates: scores with the influence of every row, for standard errors and paired differences.

A score is a function of the distribution of the rows. Its influence psi_i is n times the change of
the score if row i gets a little more weight; then sqrt(sum_i psi_i^2) / n is the standard error of
the score and, with the difference of two influences, that of the difference of two scores on the
same rows. For a mean it is the usual one, for the area under the ROC curve that of DeLong (1988).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import roc_curve

from tpnn._utils.arrays import BoolArray, FloatArray, IntArray

TOP_SHARE = 0.1  # of rows, those with the highest predictions, whose lift is measured
N_NEWTON = 50
SMALLEST_STEP = 1e-12


@dataclass(frozen=True, eq=False)
class Estimate:
    """A score, and how much each row counts in it.

    Parameters
    ----------
    name : str
        Name of the score.
    value : float
        The score.
    influences : array of shape (n_rows,)
        Influence of each row.
    is_gain : bool or None
        Whether larger is better; None where the best value is neither end.
    """

    name: str
    value: float
    influences: FloatArray
    is_gain: bool | None

    @property
    def standard_error(self) -> float:
        """Standard error over samples of rows."""
        return standard_error(self.influences)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the ends of the normal confidence interval."""
        from scipy.special import ndtri

        reach = float(ndtri((1 + level) / 2)) * self.standard_error
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
    return Estimate(name, 1 - lost.value, -lost.influences, True)


def area_estimate(name: str, is_class: BoolArray, scores: FloatArray) -> Estimate:
    """Area under the ROC curve."""
    from scipy.stats import rankdata

    among_all = rankdata(scores)
    among_own = np.empty(len(scores))
    for own in (is_class, ~is_class):
        among_own[own] = rankdata(scores[own])
    n_class, n_rows = int(is_class.sum()), len(scores)
    n_rest = n_rows - n_class
    beaten = np.where(is_class, (among_all - among_own) / n_rest,
                      1 - (among_all - among_own) / n_class)  # fmt: skip
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
    found = np.array([0.0, 1.0])
    for _ in range(N_NEWTON):
        means = 1 / (1 + np.exp(-np.clip(design @ found, -500, 500)))
        scores = design * (actual - means)[:, None]  # (n_rows, 2)
        hessian = design.T @ (design * (means * (1 - means))[:, None]) / len(raw)
        step = np.linalg.lstsq(hessian, scores.mean(0), rcond=None)[0]
        found = found + step
        if np.abs(step).max() < SMALLEST_STEP:
            break
    influences = np.linalg.lstsq(hessian, scores.T, rcond=None)[0][1]
    return Estimate(name, float(found[1]), influences, None)


def concordance_estimate(
    name: str, times: FloatArray, events: FloatArray, risk: FloatArray
) -> Estimate:
    """C-index: share of comparable pairs of rows in which the higher risk has the earlier event."""
    agreed, comparable = np.zeros(len(times)), np.zeros(len(times))
    for row in np.flatnonzero(events > 0):
        later = (times > times[row]) | ((times == times[row]) & (events == 0))
        right = later * ((risk < risk[row]) + 0.5 * (risk == risk[row]))
        agreed += right
        comparable += later
        agreed[row] += right.sum()
        comparable[row] += later.sum()
    if not comparable.any():
        return Estimate(name, 0.5, np.zeros(len(times)), True)
    ratio = ratio_estimate(name, agreed, comparable, True)
    return Estimate(name, ratio.value, 2 * ratio.influences, True)  # every pair has two rows


def class_estimates(codes: IntArray, shares: FloatArray, raw: FloatArray) -> list[Estimate]:
    """Scores of two classes: log-loss, area, distance, lift and calibration.

    Parameters
    ----------
    codes : array of shape (n_rows,)
        1 for rows of the second class, else 0.
    shares : array of shape (n_rows,)
        Predicted probability of the second class.
    raw : array of shape (n_rows,)
        Its log-odds.
    """
    actual, is_class = codes.astype(float), codes == 1
    losses = np.maximum(raw, 0) + np.log1p(np.exp(-np.abs(raw))) - actual * raw
    found = [
        mean_estimate("Log-loss", losses),
        mean_estimate("Brier score", (actual - shares) ** 2),
        mean_estimate("Accuracy", ((raw > 0) == is_class).astype(float), True),
    ]
    if 0 < codes.sum() < len(codes):
        found += [
            area_estimate("AUROC", is_class, raw),
            distance_estimate("KS", is_class, raw),
            lift_estimate("Lift of the top tenth", actual, shares),
            ratio_estimate("Actual over expected", actual, shares),
            slope_estimate("Calibration slope", actual, raw),
        ]
    return found


def several_class_estimates(
    codes: IntArray, shares: FloatArray, classes: tuple[Any, ...]
) -> list[Estimate]:
    """Log-loss and accuracy of several classes, and the area of each against the rest."""
    own = shares[np.arange(len(codes)), codes]
    found = [
        mean_estimate("Log-loss", -np.log(np.maximum(own, np.finfo(float).tiny))),
        mean_estimate("Accuracy", (shares.argmax(1) == codes).astype(float), True),
    ]
    for number, label in enumerate(classes):
        is_class = codes == number
        if 0 < is_class.sum() < len(codes):
            found.append(area_estimate(f"AUROC of {label}", is_class, shares[:, number]))
    return found


def number_estimates(name: str, actual: FloatArray, predicted: FloatArray) -> list[Estimate]:
    """RMSE, mean absolute error, R2 and mean error of numbers."""
    of = f" of {name}" if name else ""
    errors = actual - predicted
    found = [
        root_estimate(f"RMSE{of}", errors**2),
        mean_estimate(f"Mean absolute error{of}", np.abs(errors)),
        mean_estimate(f"Mean of actual less predicted{of}", errors, None),
    ]
    varies = len(actual) > 1 and np.ptp(actual) > 0
    return [*found, r2_estimate(f"R2{of}", actual, predicted)] if varies else found
