"""Screen: pairs that rise above the noise in what deep trees have left.

Where features are many, trees do not come across a pair without main effects: its first question
gains nothing. Here every pair is seen at once. The residual is projected on products of orthonormal
functions of two features, which is one matrix product for all pairs. Random signs of the residual
say how large projections of noise are.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np

from tpnn._utils.arrays import CodeArray, Float32Array, FloatArray
from tpnn._utils.threads import ONE_BLAS_THREAD, Workers, split
from tpnn.anova.components import Component
from tpnn.anova.measure import Marginal
from tpnn.anova.terms import dictionary
from tpnn.solvers.problem.problem import Problem

MOST_FUNCTIONS = 4  # of a feature
MOST_PRODUCTS = 1e11  # of one screen: some seconds
MOST_COLUMNS = 2_000  # functions of all features whose pairs are seen
SIGN_DRAWS = 4
ROWS_PER_BLOCK = 4096
SMALLEST_RELATIVE_VARIANCE = 1e-10  # of a direction; a smaller one is rounding


class Ranking(NamedTuple):
    """All pairs of some features, best first."""

    pairs: list[Component]
    n_above: int  # pairs that score higher than any pair does by chance


def rank_pairs(
    problem: Problem,
    residual: FloatArray,  # (n, K): negative gradient times weight
    features: list[int],  # the most useful first
    n_threads: int | None,
) -> Ranking:
    """Rank the pairs of features by their share in a residual; the same input, the same bits."""
    rank = {feature: place for place, feature in enumerate(problem.features)}
    affordable = _affordable_columns(residual.size)
    among = sorted(features[:affordable], key=rank.__getitem__)
    if len(among) < 2:
        return Ranking([], 0)
    count = min(MOST_FUNCTIONS, affordable // len(among))
    bases = principal_bases(Marginal.of([problem.encoder.axes[1][j] for j in among]), count)
    codes = problem.codes.by_order[1][among]  # (p, n)
    largest = float(np.abs(residual).max(initial=0.0)) or 1.0
    groups = problem.distinct.groups  # whose rows may share what is left of them
    size = (SIGN_DRAWS, int(groups.max()) + 1)
    signs = np.random.default_rng(problem.seed).choice([-1, 1], size)[:, groups]
    draws = np.concatenate([np.ones((1, len(residual))), signs]).astype(np.float32)
    first, second = np.triu_indices(len(among), 1)
    scores = np.zeros((len(draws), len(first)), np.float32)
    with ONE_BLAS_THREAD, Workers(n_threads) as workers:
        for output in (residual / largest).T.astype(np.float32):
            scores += _scores(bases, codes, draws, output, workers)[:, first, second]
    best = np.argsort(-scores[0], kind="stable")
    pairs = [(min(pair), max(pair)) for pair in combinations(among, 2)]
    return Ranking([pairs[i] for i in best], int((scores[0] > scores[1:].max()).sum()))


def principal_bases(marginal: Marginal, count: int) -> Float32Array:
    """Orthonormal centred functions of every feature on its nodes, (p, M, count).

    A feature with m nodes has at most m - 1 such functions; the others are zero.
    """
    sigmoids = dictionary(marginal, 2).astype(np.float64)
    covariance = np.einsum("fmc,fm,fmd->fcd", sigmoids, marginal.weights, sigmoids, optimize=True)
    variances, directions = np.linalg.eigh(covariance)  # increasing
    variances, directions = variances[:, ::-1][:, :count], directions[..., ::-1][..., :count]
    largest = np.maximum(variances[:, :1], SMALLEST_RELATIVE_VARIANCE)
    real = variances > SMALLEST_RELATIVE_VARIANCE * largest
    scale = np.where(real, 1 / np.sqrt(np.where(real, variances, 1.0)), 0.0)
    bases: Float32Array = (sigmoids @ (directions * scale[:, None])).astype(np.float32)
    return bases


def _affordable_columns(size: int) -> int:
    """Functions of all features such that a screen of a residual (n, K) of this size is quick."""
    return min(max(int(np.sqrt(MOST_PRODUCTS / ((1 + SIGN_DRAWS) * size))), 2), MOST_COLUMNS)


def _scores(
    bases: Float32Array,  # (p, M, D)
    codes: CodeArray,  # (p, n)
    draws: Float32Array,  # (r, n)
    residual: Float32Array,  # (n,)
    workers: Workers,
) -> Float32Array:
    """Score of each pair for the residual times each draw (r, p, p): share of its variance.

    Workers take blocks of rows, whose products are added in the order of the rows.
    """
    p, _, n_functions = bases.shape
    of_feature = np.arange(p)[:, None]

    def products(block: tuple[int, int]) -> tuple[Float32Array, Float32Array]:
        rows = slice(*block)
        values = bases[of_feature, codes[:, rows]]  # (p, m, D)
        flat = values.transpose(0, 2, 1).reshape(p * n_functions, -1)
        energy = (values**2).sum(2)
        weighted = draws[:, rows] * residual[rows]
        sums = np.stack([(flat * one) @ flat.T for one in weighted])
        return sums, (energy * residual[rows] ** 2) @ energy.T

    pieces = split(len(residual), ROWS_PER_BLOCK)
    sums = np.zeros((len(draws), p * n_functions, p * n_functions), np.float32)
    variance = np.zeros((p, p), np.float32)
    for start in range(0, len(pieces), workers.n_threads):
        for product, energy in workers.map(products, pieces[start : start + workers.n_threads]):
            sums += product
            variance += energy
    squares = (sums**2).reshape(len(draws), p, n_functions, p, n_functions).sum((2, 4))
    scores: Float32Array = squares / np.where(variance > 0, variance, np.inf)
    return scores
