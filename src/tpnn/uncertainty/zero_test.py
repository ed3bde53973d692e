"""Zero test: whether a component is zero, and how many coefficients the data determine.

The coefficients of a component, in units of their prior standard deviations, have the posterior
N(b, S) under the prior N(0, D^-1). With the other components averaged over their posterior, the
evidence of the rows alone is the score and its information

    u = S^-1 b,    A = S^-1 - D,    u ~ N(0, A) if the component is zero,

whatever the prior precision D of the component itself is. With A = E diag(a) E' the statistic

    Q = sum_i (e_i' u)^2 / (a_i + d),    d = max(a) / 10,

is that of a score test of a variance (Lin, 1997), close to the most powerful one for components
that can just be detected. If the component is zero, it is distributed as the sum of
a_i / (a_i + d) times independent squares of standard normal variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.uncertainty.equations import Coefficients

DETECTABLE = 10.0  # information of the best known coefficient, relative to its prior precision
SMALLEST_SHARE = 1e-9  # of the largest information; less is rounding
SMALLEST_P_VALUE = 1e-300
LARGEST_VALUE = 1e6  # in units of the largest weight; the probability beyond it is zero
N_STEPS, SMALLEST_STEP = 50, 1e-14  # of Newton's method, and relative to where it stands
NEAR_MEAN = 1e-4  # distance from the mean, in standard deviations, at which the tail has a limit


class ZeroTest(NamedTuple):
    """Whether a component is zero."""

    degrees: float  # effective degrees of freedom, summed over the outputs
    p_value: float  # the smallest of the outputs, times their number

    @classmethod
    def of(cls, outputs: Sequence[Coefficients]) -> ZeroTest:
        """Test of the coefficients of each output of a component."""
        smallest = min(map(p_value, outputs))
        return cls(sum(map(degrees_of_freedom, outputs)), min(len(outputs) * smallest, 1.0))


def degrees_of_freedom(posterior: Coefficients) -> float:
    """Effective degrees of freedom: trace(I - S D), the coefficients that the data determine."""
    return float((1 - posterior.covariance.variances * posterior.precision).sum())


def p_value(posterior: Coefficients) -> float:
    """Probability of a Q at least as large if the component is zero; 1 without information."""
    if not len(posterior.mean):
        return 1.0
    inverse = np.linalg.inv(posterior.covariance.matrix)
    information = inverse - np.diag(posterior.precision)
    a, vectors = np.linalg.eigh((information + information.T) / 2)
    kept = a > SMALLEST_SHARE * max(a[-1], 0.0)
    if not kept.any():
        return 1.0
    a, score = a[kept], (inverse @ posterior.mean) @ vectors[:, kept]
    weights = 1 / (a + a[-1] / DETECTABLE)
    return chi_square_tail(a * weights, float(weights @ score**2))


def chi_square_tail(weights: FloatArray, value: float) -> float:
    """P(sum_i w_i z_i^2 >= value) for standard normal z, by the saddlepoint of Kuonen (1999).

    With K(t) = -sum_i log(1 - 2 w_i t) / 2 and K'(t) = value,

        P = 1 - Phi(r + log(v / r) / r),  r = sign(t) sqrt(2 (t value - K)),  v = t sqrt(K'').

    >>> round(chi_square_tail(np.array([1.0]), 3.841), 2), chi_square_tail(np.ones(2), 0.0)
    (0.05, 1.0)
    """
    from scipy.special import ndtr

    if value <= 0:
        return 1.0
    value, w = value / weights.max(), weights / weights.max()
    if value > LARGEST_VALUE:
        return SMALLEST_P_VALUE
    deviation = float(np.sqrt(2 * (w**2).sum()))
    if abs(value - w.sum()) < NEAR_MEAN * deviation:  # the formula is 0 / 0 at the mean
        sides = (w.sum() + side * NEAR_MEAN * deviation for side in (-2.0, 2.0))
        return float(np.mean([chi_square_tail(w, side) for side in sides]))
    t = _saddlepoint(w, value)
    cumulant = -0.5 * np.log1p(-2 * w * t).sum()
    curvature = (2 * (w / (1 - 2 * w * t)) ** 2).sum()
    r = np.sign(t) * np.sqrt(2 * (t * value - cumulant))
    v = t * np.sqrt(curvature)
    return float(np.clip(ndtr(-(r + np.log(v / r) / r)), SMALLEST_P_VALUE, 1.0))


def _saddlepoint(w: FloatArray, value: float) -> float:
    """Solve sum_i w_i / (1 - 2 w_i t) = value for weights of at most one, the largest of one.

    One over the left side is concave and falls, and it is nearly a line: Newton's method, started
    above the solution, comes down to it in a few steps.
    """
    t = (1 - 1 / value) / 2
    for _ in range(N_STEPS):
        terms = w / (1 - 2 * w * t)
        step = terms.sum() * (1 - terms.sum() / value) / (2 * (terms**2).sum())
        t += min(step, 0.0)
        if step > -SMALLEST_STEP * abs(t):
            break
    return float(t)
