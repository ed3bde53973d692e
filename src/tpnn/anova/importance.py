"""Importance of a component under the product of the marginals: its l1 norm, and its variance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.measure import product_mean
from tpnn.anova.posterior import LEVEL, Uncertainty, normal_quantile

N_DRAWS, DRAWS_AT_ONCE = 200, 50  # draws of whole components


def importance(table: FloatArray, weights: Sequence[FloatArray]) -> float:
    """E|f| of a grid (M_1, ..., M_d, n_outputs), the mean over the outputs."""
    return float(product_mean(np.abs(table), weights).mean())


def variance(table: FloatArray, weights: Sequence[FloatArray], unit: float = 1.0) -> float:
    """E f^2 of a grid that averages to zero, in the square of a unit; the mean over the outputs."""
    return float(product_mean((table / unit) ** 2, weights).mean())


def importance_interval(
    table: FloatArray, weights: Sequence[FloatArray], posterior: Uncertainty, level: float = LEVEL
) -> tuple[float, float]:
    """Interval of the importance of the truth g behind a grid f.

    With s = sign(f) the importance is at least E[s g], a normal variable, whose quantile is the
    lower end, or zero. The upper end is the quantile of E|g| over draws of the posterior. Like a
    band, the interval holds the importance that is shown.
    """
    shown, reach = importance(table, weights), normal_quantile((1 + level) / 2)
    # In this unit no square overflows.
    unit = max(float(np.abs(table).max()), float(posterior.units.max())) or 1.0
    table, posterior = table / unit, replace(posterior, units=posterior.units / unit)
    masses = reduce(np.multiply.outer, weights)
    mean = table + posterior.units * (posterior.functions @ posterior.shifts)
    least, error = _signed_mean(np.sign(table) * masses[..., None], mean, posterior)
    seeds = range(N_DRAWS // DRAWS_AT_ONCE)
    draws = [_drawn(masses, mean, posterior, seed, _mean_size) for seed in seeds]
    upper = float(np.quantile(np.concatenate(draws), (1 + level) / 2))
    return min(unit * max(least - reach * error, 0.0), shown), max(unit * upper, shown)


def variance_draws(
    table: FloatArray, weights: Sequence[FloatArray], posterior: Uncertainty, unit: float, seed: int
) -> FloatArray:
    """E g^2 of draws of the truth g behind a grid f, (N_DRAWS,), in the square of a unit."""
    table, posterior = table / unit, replace(posterior, units=posterior.units / unit)
    masses = reduce(np.multiply.outer, weights)
    mean = table + posterior.units * (posterior.functions @ posterior.shifts)
    seeds = [(seed, number) for number in range(N_DRAWS // DRAWS_AT_ONCE)]
    return np.concatenate([_drawn(masses, mean, posterior, each, _square) for each in seeds])


def _mean_size(curves: FloatArray, rough: FloatArray) -> FloatArray:
    """E|N(mean, v)| or a little more: exact where the mean is zero and where it is large."""
    return np.asarray(np.sqrt(curves**2 + 2 / np.pi * rough))


def _square(curves: FloatArray, rough: FloatArray) -> FloatArray:
    """E N(mean, v)^2."""
    return np.asarray(curves**2 + rough)


def _signed_mean(
    signs: FloatArray, mean: FloatArray, posterior: Uncertainty
) -> tuple[float, float]:
    """Mean and standard error of E[s g], averaged over the outputs.

    ``signs`` (M_1, ..., M_d, n_outputs) are signs times masses. The errors of the outputs are taken
    to agree, which makes the standard error too large rather than too small.
    """
    nodes = tuple(range(signs.ndim - 1))
    sums = np.tensordot(posterior.functions, signs, (nodes, nodes))  # (k, n_outputs)
    smooth = np.einsum("io,oij->oj", sums, posterior.roots)
    variances = (smooth**2).sum(-1) + (signs**2 * posterior.rough).sum(nodes)
    errors = posterior.units * np.sqrt(variances)
    return float((signs * mean).sum(nodes).mean()), float(errors.mean())


def _drawn(
    masses: FloatArray,
    mean: FloatArray,
    posterior: Uncertainty,
    seed: Any,
    size: Callable[[FloatArray, FloatArray], FloatArray],
) -> FloatArray:
    """Mean size of some draws of the smooth part, in the mean over the rough part, (n_draws,)."""
    rng, total = np.random.default_rng(seed), np.zeros(DRAWS_AT_ONCE)
    n_outputs = mean.shape[-1]
    for output in range(n_outputs):
        normal = rng.normal(size=(posterior.roots.shape[-1], DRAWS_AT_ONCE))
        curves = posterior.functions @ (posterior.roots[output] @ normal) * posterior.units[output]
        curves += mean[..., output, None]
        rough = posterior.units[output] ** 2 * posterior.rough[..., output, None]
        total += masses.ravel() @ size(curves, rough).reshape(masses.size, -1)
    return np.asarray(total / n_outputs)
