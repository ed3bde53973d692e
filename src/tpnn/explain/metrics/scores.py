"""Estimates: scores with the influence of every row, for standard errors and paired differences.

A score is a function of the distribution of the rows. Its influence psi_i is n times the change of
the score if row i gets a little more weight; then sqrt(sum_i psi_i^2) / n is the standard error of
the score and, with the difference of two influences, that of the difference of two scores on the
same rows. For a mean it is the usual one, for the area under the ROC curve that of DeLong (1988).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_curve

from tpnn._utils.arrays import BoolArray, FloatArray, IntArray
from tpnn.explain.metrics.by_task import (
    GAMMA_POWER,
    POISSON_POWER,
    class_metrics,
    deviance_name,
    number_metrics,
    quantile_metrics,
    rate_metrics,
    survival_metrics,
)
from tpnn.explain.metrics.records import Metrics
from tpnn.loss.targets import checked_offset, checked_survival, refuse_masked
from tpnn.model.codec import Label, storable_labels
from tpnn.model.model import AnovaModel, offset_of
from tpnn.table.columns import array_of

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


def estimate(
    model: AnovaModel, y: Any, raw: FloatArray, *, power: float | None = None
) -> list[Estimate]:
    """Scores of raw scores on rows with targets.

    Parameters
    ----------
    model : AnovaModel
        Whose raw scores these are: its link, classes and outputs say what the task is.
    y : array of shape (n_rows,) or (n_rows, n_outputs)
        Targets; times and events of a survival model.
    raw : array of shape (n_rows,) or (n_rows, n_outputs)
        Raw scores, with their offset.
    power : float, optional
        Power of the Tweedie deviance of a log link; by default Poisson's.
    """
    truth, predicted = checked_truth(y, len(raw)), model.link.inverse(raw)
    name = model.link.name
    if name in ("logit", "softmax"):
        codes, classes = coded(model, truth, predicted.shape[1] if predicted.ndim == 2 else 2)
        if predicted.ndim == 1:
            return class_estimates(codes, predicted, raw)
        return several_class_estimates(codes, predicted, tuple(classes))
    if name == "log" and (model.evidence.baseline is not None or truth.shape == (len(raw), 2)):
        return _survival_estimates(model, y, raw)
    if name == "quantiles":
        return _quantile_estimates(model, truth.astype(float), predicted)
    if name == "log":
        asked = POISSON_POWER if power is None else power
        return _rate_estimates(truth.astype(float), predicted, asked)
    if predicted.ndim == 1:
        return number_estimates("", truth.astype(float), predicted)
    return [
        found
        for place, output in enumerate(model.output_names)
        for found in number_estimates(output, truth[:, place].astype(float), predicted[:, place])
    ]


def _survival_estimates(model: AnovaModel, y: Any, raw: FloatArray) -> list[Estimate]:
    """C-index and, with a baseline, events over their expected number (Breslow)."""
    times, events = checked_survival(y)
    found = [concordance_estimate("C-index", times, events, raw)]
    if model.evidence.baseline is not None:
        found.append(ratio_estimate("Events over expected", events, hazards(model, times, raw)))
    return found


def hazards(model: AnovaModel, times: FloatArray, raw: FloatArray) -> FloatArray:
    """Cumulative hazard of each row at its own time, H_0(t_i) exp(f(x_i)), shape (n_rows,)."""
    assert model.evidence.baseline is not None
    steps = np.searchsorted(model.evidence.baseline.times, times, side="right")
    log_hazard = np.append(-np.inf, model.evidence.baseline.log_hazard)[steps]
    return model.link.inverse(raw + log_hazard) * (steps > 0)


def _rate_estimates(actual: FloatArray, predicted: FloatArray, power: float) -> list[Estimate]:
    """Deviance and actual over expected; scores of numbers where targets have no deviance."""
    lowest = actual.min()
    if lowest < 0 or (lowest == 0 and power >= GAMMA_POWER):
        return number_estimates("", actual, predicted)
    return [
        mean_estimate(f"Mean {deviance_name(power)} deviance", deviances(actual, predicted, power)),
        ratio_estimate("Actual over expected", actual, predicted),
        lift_estimate("Lift of the top tenth", actual, predicted),
    ]


def deviances(actual: FloatArray, mean: FloatArray, power: float) -> FloatArray:
    """Tweedie deviance of each row, (n_rows,).

    >>> deviances(np.array([0.0, 2.0]), np.array([1.0, 2.0]), 1.0)
    array([2., 0.])
    """
    from scipy.special import xlogy

    if power == POISSON_POWER:
        rows = xlogy(actual, actual / mean) - actual + mean
    elif power == GAMMA_POWER:
        rows = np.log(mean / actual) + actual / mean - 1
    else:
        one, two = 1 - power, 2 - power
        rows = actual**two / (one * two) - actual * mean**one / one + mean**two / two
    return np.asarray(2 * rows)


def _quantile_estimates(
    model: AnovaModel, actual: FloatArray, predicted: FloatArray
) -> list[Estimate]:
    levels = np.array([float(name) for name in model.output_names])
    errors = actual[:, None] - predicted  # (n_rows, n_levels)
    pinball = np.asarray(np.maximum(levels * errors, (levels - 1) * errors).mean(1), np.float64)
    below = [
        mean_estimate(
            f"Share of rows up to quantile {level:g}", (errors[:, k] <= 0).astype(float), None
        )
        for k, level in enumerate(levels)
    ]
    return [mean_estimate("Mean pinball loss", pinball), *below]


def measure(
    model: AnovaModel,
    X: Any,
    y: Any,
    offset: Any = None,
    *,
    power: float | None = None,
) -> Metrics:
    """Measure a model on held-out rows, beside the constant that fits these rows best.

    A frozen model knows its link but not its loss. Without ``power`` a model with a log link is
    scored by the Poisson deviance, or as a survival model where it has a baseline or ``y`` holds
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
        Power of the Tweedie deviance that was fitted.

    Examples
    --------
    >>> from tpnn import TPNNRegressor, datasets
    >>> X, y = datasets.load("abalone")
    >>> model = TPNNRegressor(order=1, n_bags=2, random_state=0).fit(X[500:], y[500:])
    >>> [score.name for score in measure(model.model_, X[:500], y[:500]).scores]
    ['R2', 'RMSE']
    """
    table = model.encoder.read(X)
    raw = model.raw_scores(table, offset)
    in_rows = None if model.encoder.offset_column is None else offset_of(model, table)
    known = checked_offset(offset if in_rows is None else in_rows, len(raw))
    predicted = model.link.inverse(raw)
    truth = checked_truth(y, len(predicted))
    if len(truth) == 0:
        return Metrics()
    if model.link.name in ("logit", "softmax"):
        shares = predicted if predicted.ndim == 2 else np.column_stack([1 - predicted, predicted])
        codes, classes = coded(model, truth, shares.shape[1])
        return class_metrics(codes, classes, shares, known)
    times = model.link.name == "log" and truth.shape == (len(predicted), 2) != predicted.shape
    if model.evidence.baseline is not None or times:
        return survival_metrics(*checked_survival(y), raw, model.evidence.baseline)
    return _number_metrics(model, truth, predicted, known, power)


def checked_truth(y: Any, n_rows: int) -> NDArray[Any]:
    """Targets as an array, one column as (n_rows,)."""
    refuse_masked("y", y)
    truth = array_of(y)
    if truth.dtype.names:  # times and events as fields
        truth = np.column_stack([truth[name] for name in truth.dtype.names])
    if truth.ndim == 2 and truth.shape[1] == 1:
        truth = truth[:, 0]
    if truth.shape[:1] != (n_rows,):
        raise ValueError(
            f"y: one value per row of X is needed, found shape {truth.shape} for {n_rows} rows. "
            "Pass X and y of the same length."
        )
    return truth


def _number_metrics(
    model: AnovaModel,
    truth: NDArray[Any],
    predicted: FloatArray,
    offset: FloatArray,
    power: float | None,
) -> Metrics:
    quantiles = model.link.name == "quantiles"
    expected = predicted.shape[:1] if quantiles else predicted.shape
    if truth.shape != expected:
        raise ValueError(
            f"y: targets like those of fit are needed, of shape {expected}, found shape "
            f"{truth.shape}. Pass the same columns as to fit."
        )
    actual = truth.astype(np.float64)
    if quantiles:
        return quantile_metrics(actual, predicted, offset, [*map(float, model.output_names)])
    if model.link.name == "log":
        return rate_metrics(actual, predicted, offset, power)
    return number_metrics(actual, predicted, offset, model.output_names)


def coded(
    model: AnovaModel, truth: NDArray[Any], n_classes: int
) -> tuple[IntArray, Sequence[Label]]:
    """Find the number of each row's class, and the classes, which an older file does not know.

    Equal numbers are equal labels; a number never equals a string.
    """
    labels = storable_labels(truth)
    classes: Sequence[Label] = model.classes
    if not classes and n_classes > 2:
        labels, classes = [str(label) for label in truth], model.output_names
    classes = classes or storable_labels(np.unique(truth))
    number = {label: place for place, label in enumerate(classes)}
    unknown = dict.fromkeys(label for label in labels if label not in number)
    if unknown or len(classes) != n_classes:
        raise ValueError(
            f"y: labels must be those of fit, {_listed(classes, n_classes)}, found "
            f"{list(unknown or classes)[:5]}. Label the held-out rows like those of fit."
        )
    return np.array([number[label] for label in labels], np.intp), classes


def _listed(classes: Sequence[Label], n_classes: int) -> str:
    """Name the labels of fit where they are known, else their number."""
    return str(list(classes)[:5]) if len(classes) == n_classes else f"{n_classes} classes"
