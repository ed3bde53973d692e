"""Balance: predictions that add up, over the training rows, to what was observed.

An intercept moves until the weighted sum of the predictions is that of the targets,

    sum_i w_i g^-1(c + f(x_i) + offset_i) = sum_i w_i y_i,

for each class or target where there are several. Bags, selection and shapes leave sums a little off
where the link is not the identity; this makes them exact, as they are in a fitted linear model.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.model.model import AnovaModel
from tpnn.solvers.problem.interpolated import training_scores
from tpnn.solvers.problem.problem import Problem

N_STEPS = 100
LONGEST_NEWTON_STEP = 2.0  # in units of the raw score; longer ones overshoot
CLOSE_ENOUGH = 1e-12  # relative distance of a sum from what it must be


def balanced(model: AnovaModel, problem: Problem) -> AnovaModel:
    """Move the intercepts of a model, all of whose features are there, to balance its predictions.

    A model that does not predict means is returned as it is: quantiles, relative risks, and losses
    that few outliers must not move.
    """
    if not problem.objective.predicts_means:
        return model
    rows, weights = problem.distinct.rows, problem.distinct.weights
    y, offset = problem.targets.y[rows], problem.targets.offset[rows, None]
    raw = training_scores(model.by_component(), model.intercepts, problem) + offset
    with np.errstate(all="ignore"):  # where nothing can be done, nothing is
        shift = SHIFTS[model.link.name](raw, y, weights)
    if not np.isfinite(shift).all():
        return model
    return replace(model, intercepts=model.intercepts + shift)


def mean_shift(raw: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    """Shift of every target (K,) that balances means."""
    return np.asarray(weights @ (y - raw))


def log_mean_shift(raw: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    """Shift (1,) that balances means of a log link: the logarithm of actual over expected."""
    largest = raw.max()
    expected = np.log(weights @ np.exp(raw - largest)) + largest
    return np.asarray(np.log(weights @ y) - expected)


def logit_shift(raw: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    """Shift (1,) that balances probabilities of the second of two classes."""
    both = np.column_stack([np.zeros(len(raw)), raw])
    shift = softmax_shift(both, np.column_stack([1 - y, y]), weights)
    return shift[1:] - shift[:1]


def softmax_shift(raw: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
    """Shifts (K,), of sum zero, that balance the probabilities of each class.

    They minimise sum_i w_i log sum_k exp(raw_ik + c_k) - sum_k c_k ybar_k, a convex function of c.
    Steps are Newton's where these bring the sums closer, else c_k += log(ybar_k / pbar_k), which
    never increases it.
    """
    target, shift = weights @ y, np.zeros(raw.shape[1])
    means, curvature = _class_means(raw, weights)
    for _ in range(N_STEPS):
        if _distance(means, target) <= CLOSE_ENOUGH:
            break
        step = np.linalg.lstsq(curvature, target - means, rcond=None)[0]
        tried = _class_means(raw + shift + step, weights)
        is_near = np.abs(step).max() <= LONGEST_NEWTON_STEP
        if not is_near or _distance(tried[0], target) > _distance(means, target) / 2:
            step = np.log(target / means)
            tried = _class_means(raw + shift + step, weights)
        shift, (means, curvature) = shift + step, tried
    return np.asarray(shift - shift.mean())


def _distance(means: FloatArray, target: FloatArray) -> float:
    """Largest relative distance of a class's sum from its target."""
    return float(np.abs(means / target - 1).max())


def _class_means(raw: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean probability of each class (K,), and its derivative in the shifts (K, K)."""
    odds = np.exp(raw - raw.max(1, keepdims=True))
    shares = odds / odds.sum(1, keepdims=True)
    means = weights @ shares
    return means, np.diag(means) - (shares * weights[:, None]).T @ shares


SHIFTS = {
    "identity": mean_shift,
    "log": log_mean_shift,
    "logit": logit_shift,
    "softmax": softmax_shift,
}
