"""Evidence: how large a ridge of the smooth start the table itself asks for.

The ridge says that the coefficients c of the dictionary are independent, N(0, phi / t), with t in
rows and the noise phi. Linearised at the best constant, with working responses r and precisions P
of the rows, H = X' P X and q(t) = r' P r - r' P X (H + t I)^-1 X' P r, the log evidence is

    -n / 2 log q(t) - 1 / 2 log det(I + H / t),

with phi at its best. Tables whose features say much the same ask for a ridge of many rows, under
which these features share an effect; tables whose correlated features have opposite effects ask for
a small one.
"""

from __future__ import annotations

import numpy as np

from tpnn._utils.arrays import Float32Array, FloatArray
from tpnn.anova.measure import Marginal
from tpnn.solvers.problem.problem import Problem

MOST_ROWS, MOST_FUNCTIONS = 10_000, 1_000  # that the evidence looks at
SMALLEST_VARIANCE_SHARE = 1e-3  # of the largest prior variance of a function
STEPS_PER_DECADE = 8  # of the ridges to choose from; so coarse that rounding decides nothing
LARGEST_RIDGE = 0.1  # as a share of the rows


def evident_ridge(problem: Problem, bases: Float32Array, marginal: Marginal, least: float) -> float:
    """Ridge in rows, at least ``least``, that maximises the evidence of main effects.

    ``bases`` (n_features, M, D) are those of the main effects of the problem, and ``marginal`` is
    the measure of all features on the same nodes.
    """
    decades = np.log10(max(LARGEST_RIDGE * problem.distinct.size / least, 1.0))
    ridges = least * 10 ** (np.arange(int(decades * STEPS_PER_DECADE) + 1) / STEPS_PER_DECADE)
    rows = slice(MOST_ROWS)  # in random order
    masses = problem.distinct.weights[rows, None] * problem.distinct.size
    raw = problem.rows.offset[rows] + problem.start.astype(np.float32)
    design = _design(problem, bases, marginal, rows)
    with np.errstate(all="ignore"):  # of extreme offsets or a custom loss; NaN is never best
        slope, hessian = problem.objective.slopes(
            problem.rows.y[rows], raw, masses.astype(np.float32)
        )
        evidence = sum(
            _log_evidence(design, masses[:, 0], slope[:, k], hessian[:, k], ridges)
            for k in range(slope.shape[1])
        )
    return float(ridges[np.argmax(np.nan_to_num(evidence, nan=-np.inf))])


def _design(problem: Problem, bases: Float32Array, marginal: Marginal, rows: slice) -> Float32Array:
    """Principal functions of the dictionary on rows, (n, k), each in units of its prior."""
    part = problem.coded[0]
    features = part.features[:, 0]
    roots = np.sqrt(marginal.weights[features])[:, :, None]
    deviations, right = np.linalg.svd(roots * bases, full_matrices=False)[1:]
    variances = deviations**2
    smallest = SMALLEST_VARIANCE_SHARE * variances.max(initial=0.0)
    if variances.size > MOST_FUNCTIONS:
        smallest = max(smallest, np.sort(variances, axis=None)[-MOST_FUNCTIONS - 1])
    columns = [
        (own @ directions[kept].T)[codes]
        for own, directions, kept, codes in zip(
            bases, right, variances > smallest, part.codes[features, rows], strict=True
        )
    ]
    return np.concatenate(columns, axis=1)


def _log_evidence(
    design: Float32Array, masses: FloatArray, slope: FloatArray, hessian: FloatArray,
    ridges: FloatArray,
) -> FloatArray:  # fmt: skip
    """Log evidence of every ridge, up to a constant, for one output."""
    precision = masses * hessian
    total = precision.sum()
    if not total > 0:
        return np.full(len(ridges), np.nan)
    pulls = -masses * slope  # precision times working response
    scaled = design * np.sqrt(precision)[:, None].astype(np.float32)
    means, pull = precision @ design / total, pulls.sum() / total
    square = (scaled.T @ scaled).astype(np.float64) - total * np.outer(means, means)
    sums = design.T @ (pulls - pull * precision)
    known = precision > 0
    whole = (pulls[known] ** 2 / precision[known]).sum() - total * pull**2
    values, vectors = np.linalg.eigh(square)
    values, parts = values.clip(0.0), (vectors.T @ sums) ** 2
    left = whole - (parts / (values + ridges[:, None])).sum(1)
    volume = np.log1p(values / ridges[:, None]).sum(1)
    evidence: FloatArray = -0.5 * masses.sum() * np.log(left) - 0.5 * volume
    return evidence
