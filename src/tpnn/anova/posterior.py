"""Posterior: how far the true component may be from the one that a model shows.

Around the shown component f the posterior of the truth has, on the nodes, mean and covariance

    m = f + Phi d,    C = Phi R R' Phi' + diag(v).

Phi are products of a few smooth functions of the features. Their coefficients have the mean d, and
R is a root of their covariance. v is the variance of the rough part. The band is f +- h with
P(|N(m - f, C)| <= h) = level at every node: 1.96 standard errors where m = f, more elsewhere. Over
many fits it covers the truth over that share of the data on average, as the bands of smoothing
splines do (Nychka, 1988). The simultaneous band f +- c h holds whole curves with that probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from numbers import Real
from statistics import NormalDist
from typing import Any

import numpy as np

from tpnn._utils.arrays import Float32Array, FloatArray, RealArray

POINTWISE, SIMULTANEOUS = "pointwise", "simultaneous"
LEVEL = 0.95  # default level of bands
FARTHEST_RATIO = 8.0  # of bias to standard error; beyond it only one tail counts
N_RATIOS, N_BISECTIONS = 400, 60
N_DRAWS, DRAWS_AT_ONCE = 1000, 100  # draws of whole curves
N_FREE = 8  # nu, degrees of freedom of the variances of whole curves
SMALLEST_ERROR = 1e-300
LARGEST_SHARE = 1 - 2.0**-53


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Posterior of the values of a component, or of differences of them, on all of its nodes."""

    functions: FloatArray  # (M_1, ..., M_d, k): smooth functions Phi
    shifts: FloatArray  # (k, n_outputs): mean d of their coefficients
    roots: FloatArray  # (n_outputs, k, k): root R of their covariance
    rough: FloatArray  # (M_1, ..., M_d, n_outputs): variance v of the rough part
    units: FloatArray  # (n_outputs,): the others are in this unit of the raw score

    def errors(self) -> FloatArray:
        """Return the standard errors, the roots of the diagonal of C, shape of ``rough``."""
        return self.units * self._errors()

    def _errors(self) -> FloatArray:
        """Return the standard errors in ``units``."""
        parts = np.tensordot(self.functions, self.roots, (-1, 1))
        return np.asarray(np.sqrt((parts**2).sum(-1) + self.rough))

    def minus(self, weights: FloatArray) -> Uncertainty:
        """Differences to a weighted mean over the nodes, such as the value at a reference.

        The errors of the rough part are independent. With weights u (M_1, ..., M_d) their
        differences have the variance v (1 - 2 u) + sum(u^2 v).
        """
        u, nodes = weights[..., None], tuple(range(weights.ndim))
        rough = self.rough * (1 - 2 * u) + (u**2 * self.rough).sum(nodes)
        functions = self.functions - (u * self.functions).sum(nodes)
        return replace(self, functions=functions, rough=rough.clip(0))

    def of_sum(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bias and variance, (n_outputs,) each, of a weighted sum of all nodes."""
        functions = np.tensordot(weights, self.functions, weights.ndim)  # (k,)
        smooth = ((functions @ self.roots) ** 2).sum(-1)
        rough = np.tensordot(weights**2, self.rough, weights.ndim)
        return self.units * (functions @ self.shifts), self.units**2 * (smooth + rough)

    def half_widths(self, level: float = LEVEL, kind: str = POINTWISE) -> FloatArray:
        """Half the width h of the band around the values that are shown, shape of ``rough``."""
        check_level(level)
        check_kind(kind)
        errors, bias = self._errors(), self.functions @ self.shifts
        ratio = np.abs(bias) / np.maximum(errors, SMALLEST_ERROR)
        widths = errors * folded_quantiles(ratio, level)
        if kind == SIMULTANEOUS:
            outputs = range(widths.shape[-1])
            widths = widths * [self._stretch(k, level, bias, widths) for k in outputs]
        return self.units * widths

    def _stretch(self, output: int, level: float, bias: FloatArray, widths: FloatArray) -> float:
        """Factor c >= 1 for which c h holds all nodes of an output with probability ``level``.

        Whole curves are drawn: m - f + g (Phi R z + sqrt(v) e), with normal z and e. The variances
        of the posterior are estimates; g^2 = nu / chi^2_nu, the same at all nodes of a curve, says
        how far they may be off. Errors e that are independent have the largest maximum, so
        neighbouring nodes whose errors are alike make the band too wide rather than too narrow.
        """
        width = np.maximum(widths[..., output].reshape(-1, 1), SMALLEST_ERROR)  # (M, 1)
        parts = (
            bias[..., output].reshape(-1, 1),
            self.functions.reshape(len(width), -1) @ self.roots[output],
            np.sqrt(self.rough[..., output].reshape(-1, 1)),
        )
        centre, smooth, rest = [(part / width).astype(np.float32) for part in parts]
        rng, largest = np.random.default_rng(0), []
        for _ in range(N_DRAWS // DRAWS_AT_ONCE):
            curves = smooth @ rng.standard_normal((smooth.shape[1], DRAWS_AT_ONCE), np.float32)
            curves += rest * rng.standard_normal(curves.shape, np.float32)
            curves *= np.sqrt(N_FREE / rng.chisquare(N_FREE, size=DRAWS_AT_ONCE))
            largest.append(np.abs(centre + curves).max(0))
        return float(max(np.quantile(np.concatenate(largest), level), 1.0))


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """Posterior of one component, with the smooth functions of each feature apart."""

    factors: tuple[Float32Array, ...]  # (M_j, k) each; their products are Phi
    shifts: Float32Array  # (k, n_outputs), as in Uncertainty
    roots: Float32Array  # (n_outputs, k, k)
    rough: Float32Array  # (M_1, ..., M_d, n_outputs)
    # (n_outputs,): the unit of the raw score in which shifts, roots and the roots of
    # ``rough`` are at most 1, so that single precision holds them whatever the target
    units: FloatArray

    def __repr__(self) -> str:
        return f"Posterior({len(self.shifts)} smooth functions, {self.rough.size} cells)"

    @classmethod
    def of(
        cls,
        factors: Sequence[FloatArray],
        shifts: FloatArray,
        roots: FloatArray,
        rough: FloatArray,
        scale: FloatArray,
    ) -> Posterior:
        """Posterior of numbers in the unit ``scale``, (n_outputs,) or (1,), of the raw score."""
        largest = [
            np.abs(shifts).max(0, initial=0.0),
            np.abs(roots).max((1, 2), initial=0.0),
            np.sqrt(rough.reshape(-1, rough.shape[-1]).max(0, initial=0.0)),
        ]
        unit = np.maximum(np.max(largest, axis=0), SMALLEST_ERROR)
        return cls(
            factors=tuple(factor.astype(np.float32) for factor in factors),
            shifts=(shifts / unit).astype(np.float32),
            roots=(roots / unit[:, None, None]).astype(np.float32),
            rough=(rough / unit / unit).astype(np.float32),
            units=scale * unit,
        )

    @classmethod
    def zero(cls, shape: tuple[int, ...]) -> Posterior:
        """Posterior of a component (M_1, ..., M_d, n_outputs) that is known without error."""
        *nodes, n_outputs = shape
        factors = tuple(np.zeros((size, 0), np.float32) for size in nodes)
        shifts = np.zeros((0, n_outputs), np.float32)
        roots = np.zeros((n_outputs, 0, 0), np.float32)
        return cls(factors, shifts, roots, np.zeros(shape, np.float32), np.ones(n_outputs))

    @property
    def arrays(self) -> tuple[RealArray, ...]:
        """All arrays."""
        return (*self.factors, self.shifts, self.roots, self.rough, self.units)

    def of_output(self, output: int) -> Posterior:
        """Posterior of one output."""
        k = slice(output, output + 1)
        shifts, roots, rough = self.shifts[:, k], self.roots[k], self.rough[..., k]
        return Posterior(self.factors, shifts, roots, rough, self.units[k])

    def uncertainty(self) -> Uncertainty:
        """Posterior on all nodes, in double precision."""
        *factors, shifts, roots, rough, units = (a.astype(np.float64) for a in self.arrays)
        functions = reduce(lambda one, two: one[..., None, :] * two, factors)
        return Uncertainty(functions, shifts, roots, rough, units)


def check_level(level: Any) -> None:
    """Refuse a level that is not a number between 0 and 1."""
    if not isinstance(level, Real) or not 0 < float(level) < 1:
        raise ValueError(
            f"level: must be a number above 0 and below 1, found {level!r}. "
            "Pass 0.95 for bands of 95 %."
        )


def check_kind(kind: Any) -> None:
    """Refuse an unknown kind of band."""
    if kind not in (POINTWISE, SIMULTANEOUS):
        raise ValueError(
            f"kind: must be 'pointwise' or 'simultaneous', found {kind!r}. Pass 'simultaneous' "
            "for bands that hold a whole curve."
        )


def folded_quantiles(ratio: FloatArray, level: float) -> FloatArray:
    """Reach c with P(|N(ratio, 1)| <= c) = level, for ratios of bias to standard error.

    >>> folded_quantiles(np.array([0.0, 20.0]), 0.95).round(3)
    array([ 1.96 , 21.645])
    """
    reaches = _reaches(float(level))
    near = np.interp(ratio, np.linspace(0, FARTHEST_RATIO, N_RATIOS), reaches)
    far = ratio + normal_quantile(level)
    return np.asarray(np.where(ratio < FARTHEST_RATIO, near, far))


@lru_cache(maxsize=64)
def _reaches(level: float) -> FloatArray:
    """Reaches at evenly spaced ratios, by bisection.

    They are few and kept, so the standard library is fast enough, and the runtime needs no scipy.
    """
    below = np.vectorize(NormalDist().cdf, otypes=[float])
    ratio = np.linspace(0, FARTHEST_RATIO, N_RATIOS)
    low, high = np.zeros(N_RATIOS), ratio + normal_quantile((1 + level) / 2)
    for _ in range(N_BISECTIONS):
        middle = (low + high) / 2
        is_short = below(middle - ratio) - below(-middle - ratio) < level
        low, high = np.where(is_short, middle, low), np.where(is_short, high, middle)
    return np.asarray((low + high) / 2)


def normal_quantile(share: float) -> float:
    """Quantile of the standard normal distribution, finite even for a share that rounds to 1.

    >>> round(normal_quantile(0.975), 4), round(normal_quantile(1.0), 1)
    (1.96, 8.2)
    """
    return NormalDist().inv_cdf(min(share, LARGEST_SHARE))
