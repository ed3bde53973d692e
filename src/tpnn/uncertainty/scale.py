"""Scales: additive models of the logarithm of residuals, or of standard errors.

    log s_i = sum_j g_j(x_ij) + h(f(x_i)) + noise

The functions have the prior of bands, with variances that the evidence chooses, so a feature on
which the scale does not depend gets a g_j of about zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tpnn._utils.arrays import CodeArray, FloatArray, IntArray
from tpnn.loss.objectives import weighted_quantiles
from tpnn.table.axis import Axis
from tpnn.uncertainty.design import Span, eigenfunctions
from tpnn.uncertainty.equations import ByFunctions, Coefficients
from tpnn.uncertainty.variances import Blocks, variances

SMALLEST_SHARE = 0.01  # of the largest prior variance that are kept: a scale is smooth
N_PASSES = 2  # of the scale of residuals
N_KNOTS = 64  # of the raw score
LARGEST_LEVERAGE = 0.9
SMALLEST_SCALE = 1e-9  # of the largest residual; residuals may all be zero
SMALLEST_VARIANCE = 1e-12  # of logarithms


@dataclass(frozen=True, eq=False)
class FittedScale:
    """Scale of the rows it was fitted to, and as functions."""

    at_rows: FloatArray  # (n,): scale of each row, by the other rows
    tables: list[FloatArray]  # (M_j,): g_j of each feature on its nodes
    knots: FloatArray  # (N_KNOTS,), raw scores
    heights: FloatArray  # (N_KNOTS,): h and the constant at the knots


def fit_scale(
    axes: Sequence[Axis],
    codes: Sequence[CodeArray],
    raw: FloatArray,
    logs: FloatArray,
    weights: FloatArray,
) -> FittedScale:
    """Fit logarithms (n,) to nodes of features, (n,) each, and to raw scores (n,)."""
    score_axis, score_codes = _score_axis(raw, weights)
    spans = [_span(axis) for axis in (*axes, score_axis)]
    places: list[IntArray | CodeArray] = [*codes, score_codes]
    X = np.hstack([s.factors[0][c] * s.deviations for s, c in zip(spans, places, strict=True)])
    means, constant = weights @ X, float(weights @ logs)
    centred = X - means
    variance = max(float(weights @ (logs - constant) ** 2), SMALLEST_VARIANCE)
    precision = weights * len(weights) / variance
    posterior = _posterior(centred, logs - constant, precision, spans)
    fitted = constant + centred @ posterior.mean
    tables, start = [], 0
    for span in spans:
        columns = slice(start, start + span.size)
        effect = span.factors[0] @ (span.deviations * posterior.mean[columns])
        tables.append(effect - means[columns] @ posterior.mean[columns])
        start += span.size
    return FittedScale(
        at_rows=np.exp(_left_out(centred, logs, fitted, precision, posterior)),
        tables=tables[:-1],
        knots=score_axis.values,
        heights=constant + tables[-1],
    )


def residual_scale(
    axes: Sequence[Axis],
    codes: Sequence[CodeArray],
    raw: FloatArray,
    residuals: FloatArray,
    weights: FloatArray,
) -> FittedScale:
    """Fit the scale of residuals (n,).

    Small residuals say little about large ones, and large ones decide an interval. So residuals
    below the median are raised to it; the second pass does so relative to the scale of the first.
    """
    sizes = np.abs(residuals)
    sizes = np.maximum(sizes, SMALLEST_SCALE * (sizes.max() or 1.0))
    scale = np.ones(len(sizes))
    for _ in range(N_PASSES):
        floor = float(weighted_quantiles(sizes / scale, weights, 0.5))
        fitted = fit_scale(axes, codes, raw, np.log(np.maximum(sizes, floor * scale)), weights)
        scale = fitted.at_rows
    return fitted


def _posterior(
    X: FloatArray, response: FloatArray, precision: FloatArray, spans: Sequence[Span]
) -> Coefficients:
    blocks, weighted = Blocks.of(spans), X * precision[:, None]
    equations = ByFunctions(X.T @ weighted, weighted.T @ response)
    return equations.solved(blocks.repeated(1 / variances(equations, blocks)))


def _left_out(
    X: FloatArray,
    response: FloatArray,
    fitted: FloatArray,
    precision: FloatArray,
    posterior: Coefficients,
) -> FloatArray:
    """Fit of each row by all others: z - (z - fit) / (1 - leverage)."""
    leverage = precision * posterior.covariance.squares(X) + precision / precision.sum()
    kept = 1 - np.minimum(leverage, LARGEST_LEVERAGE)
    return np.asarray(response - (response - fitted) / kept)


def _span(axis: Axis) -> Span:
    functions, shares = eigenfunctions(axis, 1)
    kept = shares > SMALLEST_SHARE * shares.max(initial=0.0)
    return Span((functions[:, kept],), shares[kept], (axis.weights,))


def _score_axis(raw: FloatArray, weights: FloatArray) -> tuple[Axis, IntArray]:
    """Quantiles of the raw score as nodes, and the nearest one of each row."""
    levels = np.linspace(0, 1, N_KNOTS)
    knots = np.unique(weighted_quantiles(raw, weights, levels))
    nearest = np.searchsorted((knots[1:] + knots[:-1]) / 2, raw)
    masses = np.bincount(nearest, weights, len(knots)).astype(np.float64)
    return Axis(knots, masses), nearest
