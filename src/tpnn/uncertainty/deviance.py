"""Deviance: how well a fit describes its rows, and Akaike's criterion."""

from __future__ import annotations

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.loss.objectives import Objective
from tpnn.model.evidence import ComponentTests, FitStatistics
from tpnn.solvers.problem.problem import Problem

STEP_OF_RAW_SCORES = 1e-4  # of difference quotients; their error is its square


def fixes_variance(objective: Objective) -> bool:
    """Whether a loss says how far targets lie from their means: of events, classes and counts."""
    is_count = objective.dispersion is not None or objective.power == 1
    return objective.couples_rows or objective.kind == "classes" or is_count


def expected_curvature(objective: Objective, raw: FloatArray) -> FloatArray:
    """Return the expected second derivative of the loss of each row in its raw score, (n, 1).

    It is the derivative of the slope of a row whose target is its mean.
    """
    mean = objective.link.inverse(raw)
    up, down = (objective.slopes(mean, raw + s * STEP_OF_RAW_SCORES)[0] for s in (1, -1))
    return np.asarray((up - down) / (2 * STEP_OF_RAW_SCORES))


def with_statistics(
    tests: ComponentTests, objective: Objective, raw: FloatArray | None, problem: Problem
) -> ComponentTests:
    """Add deviance and AIC of raw scores (n, K), which took the degrees of all components.

    A loss without a likelihood has none; ``objective`` is in the user's unit.
    """
    is_partial = objective.couples_rows and objective.is_alone
    if raw is None or not (objective.predicts_means or is_partial):
        return tests
    y = problem.targets.y[problem.distinct.rows]
    masses = problem.distinct.weights[:, None] * problem.distinct.size
    n_scales = 0 if fixes_variance(objective) else raw.shape[1]
    degrees = float(sum(test.degrees for test in tests.components))
    degrees += 0 if is_partial else raw.shape[1] - objective.couples_outputs
    n_parameters = degrees + n_scales + (objective.dispersion is not None)
    with np.errstate(all="ignore"):  # of what overflows nothing is known
        is_relative = objective.power is not None or objective.dispersion is not None
        rows = objective.reported() if is_relative else objective
        deviance = float((masses * rows.losses(y, raw, masses)).sum()) * (1 if is_relative else 2)
        aic = minus_two_log_likelihood(objective, y, raw, masses) + 2 * n_parameters
    if not np.isfinite([deviance, degrees]).all() or np.isinf(aic):
        return tests
    return tests._replace(fit=FitStatistics(deviance, degrees, float(masses.sum()), aic))


def minus_two_log_likelihood(
    objective: Objective, y: FloatArray, raw: FloatArray, masses: FloatArray
) -> float:
    """Minus twice the log-likelihood of raw scores (n, K) with weights (n, 1).

    Unknown variances are those of the largest likelihood; of gamma the mean deviance is one. NaN
    for Tweedie's amounts, whose density has no closed form.
    """
    from scipy.special import gammaln

    n_rows, mean = float(masses.sum()), objective.link.inverse(raw)
    if objective.dispersion is not None:
        shape = 1 / objective.dispersion
        constants = gammaln(shape) - gammaln(y + shape) + gammaln(y + 1) + y * np.log(shape)
        return float(2 * (masses * (objective.losses(y, raw) + constants)).sum())
    if objective.power == 1:
        return float(2 * (masses * (mean - y * raw + gammaln(y + 1))).sum())
    if objective.power == 2:
        deviance = (masses * objective.reported().losses(y, raw)).sum()
        shape = n_rows / deviance
        logs = shape * np.log(shape * y / mean) - shape * y / mean - np.log(y) - gammaln(shape)
        return float(-2 * (masses * logs).sum())
    if objective.power is not None:
        return float("nan")
    if objective.kind == "numbers":
        squares = (masses * (y - raw) ** 2).sum(0)
        return float(n_rows * (np.log(2 * np.pi * squares / n_rows) + 1).sum())
    return float(2 * (masses * objective.losses(y, raw, masses)).sum())
