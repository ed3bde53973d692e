"""Calibration: whether the targets of some rows have the mean and slope that a model predicts.

If the model is right, neither a constant nor a multiple of the raw score added to it makes the
targets much more likely. Twice the gain in log-likelihood is about chi-squared with two degrees of
freedom then, so that the p-value is exp(-gain). For a constant alone this is Chernoff's bound,
which holds for rare events, too: no event where E are expected has the p-value exp(-E).

Counts, times and labels have the variance that the model says. The variance of amounts and numbers
is estimated twice: over all rows, as a function of the prediction, and from the tested rows alone.
A few rows without any event vary too little, and a single large amount says little about the model.
So the larger of the two p-values counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.explain.metrics.hazards import hazards
from tpnn.loss.links import LINKS
from tpnn.loss.objectives import LOG_LOSS, POISSON, SQUARED_ERROR, Objective
from tpnn.loss.risk_sets import died
from tpnn.model.task import Task

MEAN_OR_SLOPE = "mean or slope"
N_STEPS = 60
LONGEST_STEP = 2.0  # of any raw score
SMALLEST_STEP = 1e-4  # of a raw score, in which its second derivative is measured
SMALLEST_SPREAD = 1e-9  # of raw scores, over the largest of them; less is rounding
SMALLEST_GAIN = 1e-9  # of the log-likelihood
N_GROUPS, LEAST_ROWS = 10, 50  # of similar predictions, whose errors have one variance
ALL_ROWS = slice(None)


@dataclass(frozen=True, eq=False, kw_only=True)
class CalibrationTest:
    """Test of one output of a model on any choice of rows."""

    name: str
    actual: FloatArray  # (n_rows,), as people read it; of survival events, of quantiles rows below
    expected: FloatArray
    objective: Objective  # half the deviance, in units of its dispersion
    target: FloatArray  # as the objective takes it
    raw: FloatArray
    tilt: FloatArray  # raw score whose slope is tested
    has_known_variance: bool

    def means(self, rows: Any = ALL_ROWS) -> tuple[float, float]:
        """Mean of what was observed on these rows, and of what the model expects."""
        return float(self.actual[rows].mean()), float(self.expected[rows].mean())

    def p_value(self, rows: Any = ALL_ROWS) -> float:
        """p-value of the test that the model is right on these rows."""
        design, target, raw = _design(self.tilt[rows]), self.target[rows], self.raw[rows]
        p_value = likelihood_p_value(self.objective, target, raw, design)
        if self.has_known_variance:
            return p_value
        errors, _ = self.objective.slopes(target[:, None], raw[:, None])
        return max(p_value, mean_p_value(errors * design))


def calibration_tests(task: Task, target: FloatArray, raw: FloatArray) -> list[CalibrationTest]:
    """Make a test of every output; none for a survival model without baseline.

    Targets are (n_rows, n_columns), as ``task.targets`` returns them. Raw scores contain the
    offset.
    """
    columns = raw.reshape(len(raw), -1)
    if task.objective.levels is not None:
        return _quantile_tests(task, target, columns)
    tests = {
        "classes": _class_tests,
        "rates": _rate_tests,
        "survival": _survival_tests,
        "numbers": _number_tests,
    }
    return tests[task.kind](task, target, columns)


def _class_tests(task: Task, target: FloatArray, raw: FloatArray) -> list[CalibrationTest]:
    """Test the probability of each class, of two classes of the second one."""
    shares = task.link.inverse(raw)
    names = task.classes if shares.shape[1] > 1 else ()
    return [
        _label_test(_name(names, k), target[:, k], share, LINKS["logit"].forward(share))
        for k, share in enumerate(shares.T)
    ]


def _quantile_tests(task: Task, target: FloatArray, raw: FloatArray) -> list[CalibrationTest]:
    """Test the share of rows up to each quantile."""
    quantiles = task.link.inverse(raw).T
    below = (target[:, 0] <= quantiles).astype(np.float64)
    return [
        _label_test(_name(task.outputs, k), below[k], np.full(len(target), level), quantiles[k])
        for k, level in enumerate(task.levels)
    ]


def _label_test(
    name: str, is_class: FloatArray, share: FloatArray, tilt: FloatArray
) -> CalibrationTest:
    return CalibrationTest(
        name=name,
        actual=is_class,
        expected=share,
        objective=LOG_LOSS,
        target=is_class,
        raw=LINKS["logit"].forward(share),
        tilt=tilt,
        has_known_variance=True,
    )


def _rate_tests(task: Task, target: FloatArray, raw: FloatArray) -> list[CalibrationTest]:
    ones = np.ones(len(raw))
    return [
        CalibrationTest(
            name=_name(task.outputs, k),
            actual=y,
            expected=task.link.inverse(score),
            objective=task.objective.in_units_of_dispersion(y[:, None], score[:, None], ones),
            target=y,
            raw=score,
            tilt=score,
            has_known_variance=False,
        )
        for k, (y, score) in enumerate(zip(target.T, raw.T, strict=True))
    ]


def _survival_tests(task: Task, target: FloatArray, raw: FloatArray) -> list[CalibrationTest]:
    """Test events, which are as likely as counts whose means are the cumulative hazards.

    Those of shares in the presence of competing events are no such counts.
    """
    if task.baseline is None or not task.objective.is_alone:
        return []
    events, expected = died(target)[:, 0], hazards(task.baseline, target, raw[:, 0])
    test = CalibrationTest(
        name=MEAN_OR_SLOPE,
        actual=events,
        expected=expected,
        objective=POISSON,
        target=events,
        raw=LINKS["log"].forward(expected),
        tilt=raw[:, 0],
        has_known_variance=True,
    )
    return [test]


def _number_tests(task: Task, target: FloatArray, raw: FloatArray) -> list[CalibrationTest]:
    """Test errors; of a loss that is not quadratic, its slopes."""
    errors = -task.slopes(target, raw)
    return [
        CalibrationTest(
            name=_name(task.outputs, k),
            actual=y,
            expected=score,
            objective=SQUARED_ERROR,
            target=error / _sizes(error, score),
            raw=np.zeros(len(y)),
            tilt=score,
            has_known_variance=False,
        )
        for k, (y, score, error) in enumerate(zip(target.T, raw.T, errors.T, strict=True))
    ]


def _name(outputs: Any, number: int) -> str:
    """Name the test of one output."""
    return f"{MEAN_OR_SLOPE} of {outputs[number]}" if len(outputs) > 1 else MEAN_OR_SLOPE


def _sizes(errors: FloatArray, predicted: FloatArray) -> FloatArray:
    """Root mean square of the errors of rows with similar predictions, 1 where it is zero."""
    n_groups = min(max(len(errors) // LEAST_ROWS, 1), N_GROUPS)
    edges = np.quantile(predicted, np.arange(1, n_groups) / n_groups)
    group = np.searchsorted(edges, predicted)
    counts = np.maximum(np.bincount(group), 1)
    sizes = np.sqrt(np.bincount(group, errors**2) / counts)[group]
    return np.where(sizes > 0, sizes, 1.0)


def _design(tilt: FloatArray) -> FloatArray:
    """Ones and, where it varies, the standardised raw score, (n_rows, 1 or 2)."""
    ones, spread = np.ones((len(tilt), 1)), np.ptp(tilt)
    if spread <= SMALLEST_SPREAD * np.abs(tilt).max():
        return ones
    unit = tilt / spread  # squares of large scores could overflow
    return np.column_stack([ones, (unit - unit.mean()) / unit.std()])


def likelihood_p_value(
    objective: Objective, target: FloatArray, raw: FloatArray, design: FloatArray
) -> float:
    """p-value of raw scores against raw scores plus any combination of the design's columns.

    >>> ones = np.ones((330, 1))
    >>> round(likelihood_p_value(POISSON, np.zeros(330), np.log(0.01 * ones[:, 0]), ones), 3)
    0.037
    """
    y, start, coefficients = target[:, None], raw[:, None], np.zeros(design.shape[1])
    for _ in range(N_STEPS):
        moved = start + (design @ coefficients)[:, None]
        slopes, beyond = (objective.slopes(y, at)[0] for at in (moved, moved + SMALLEST_STEP))
        gradient = design.T @ slopes[:, 0]
        hessian = design.T @ (design * (beyond - slopes)) / SMALLEST_STEP
        step = np.linalg.pinv(hessian, hermitian=True) @ gradient
        if gradient @ step < SMALLEST_GAIN:
            break
        coefficients -= step * min(1.0, LONGEST_STEP / np.abs(design @ step).max())
    gain = (objective.losses(y, start) - objective.losses(y, moved)).sum()
    return float(np.exp(-max(gain, 0.0)))


def mean_p_value(columns: FloatArray) -> float:
    """p-value of the test that all columns (n_rows, n_columns) have mean zero, by Hotelling.

    >>> round(mean_p_value(np.array([[-1.0], [0.0], [4.0]])), 3)  # of Student's test
    0.58
    """
    from scipy.stats import f

    n_rows, ones = len(columns), np.ones(len(columns))
    coefficients, _, rank, _ = np.linalg.lstsq(columns, ones, rcond=None)
    if rank == 0:
        return 1.0
    explained = float(ones @ columns @ coefficients)
    n_left = n_rows - int(rank)
    with np.errstate(divide="ignore"):
        ratio = np.divide(explained, max(n_rows - explained, 0.0))
    return float(f.sf(ratio * n_left / rank, rank, n_left))
