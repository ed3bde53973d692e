"""Columns: the values of basis functions on blocks of rows, which a screen multiplies."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import CodeArray, Float32Array, FloatArray, IntArray
from tpnn._utils.threads import ONE_BLAS_THREAD, Workers, available_cores, split
from tpnn.anova.components import Component
from tpnn.anova.measure import Marginal
from tpnn.anova.terms import dictionary
from tpnn.solvers.solution import Limits


class Columns:
    """Values of basis functions, one block of rows at a time."""

    def __init__(
        self,
        codes: CodeArray,  # (n_features, n_rows)
        features: IntArray,  # (q,), those to screen
        bases: Float32Array,  # (q, M, D), on the nodes of these features
    ) -> None:
        self.codes, self.features, self.bases = codes, features, bases
        self.n_rows = codes.shape[1]

    def values(self, rows: slice, first: int) -> Float32Array:
        """Basis functions of the features from ``first`` on at some rows, (q - first, n, D)."""
        codes = self.codes[self.features[first:], rows]
        values: Float32Array = self.bases[np.arange(first, len(self.bases))[:, None], codes]
        return values


BlockScores = Callable[..., Float32Array]

MOST_BASES = {1: 4, 2: 4, 3: 2}  # functions per feature, by order; one for higher orders
MOST_PRODUCTS = {1: 6e11, 2: 6e11}  # per screen, by order: about ten seconds on two cores
MOST_PRODUCTS_OF_HIGHER_ORDERS = 2e11
SIGN_DRAWS = {1: 19}  # draws of random signs for the noise floor, by order
FEWEST_SIGN_DRAWS = 4  # for all other orders, where each draw costs more
MOST_SIGN_DRAWS = max(SIGN_DRAWS.values())
BLOCK_COLUMNS, BLOCK_ROWS = 1024, 4096  # of the matrix products
MOST_BYTES = 1 << 29  # of products of several blocks of rows, which threads compute at a time
SMALLEST_RELATIVE_VARIANCE = 1e-10  # of a direction; a smaller one is rounding


@dataclass(frozen=True)
class Ranking:
    """Candidates of one order, best first."""

    components: Sequence[Component]
    scores: Float32Array  # (n_components,), decreasing
    floor: float  # largest score that noise reaches among all candidates
    n_candidates: int  # that were scored
    is_cut: bool = False  # whether a time limit left candidates unscored

    @property
    def found(self) -> Sequence[Component]:
        """Interactions above the noise floor."""
        return self.components[: int((self.scores > self.floor).sum())]


def principal_bases(marginal: Marginal, count: int) -> Float32Array:
    """Orthonormal centred functions of every feature on its nodes, (n_features, M, count).

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


class Screen:
    """Scores interactions over coded rows; the same input gives the same scores, bit for bit."""

    def __init__(
        self,
        codes: CodeArray,  # (n_features, n_rows)
        marginal: Marginal,
        residual: NDArray[np.floating[Any]],  # (n_rows, K): negative gradient times weight
        seed: int,  # of the random signs
        limits: Limits,  # also the device; an NVIDIA card needs torch
    ) -> None:
        self.codes, self.marginal = codes, marginal
        largest = float(np.abs(residual).max(initial=0.0)) or 1.0
        shape = (MOST_SIGN_DRAWS, 1, len(residual))
        signs = np.random.default_rng(seed).integers(0, 2, shape, np.int8)
        scaled = (residual.T / largest).astype(np.float32)
        self.residuals = np.concatenate([scaled[None], (2 * signs - 1) * scaled])
        self.block_scores: BlockScores = block_scores
        self.limits, self.n_threads = limits, limits.n_threads or available_cores()
        if limits.device == "cuda":
            card = import_module("tpnn.search.screen_cuda").CardScorer(codes, self.residuals)
            self.block_scores, self.n_threads = card.block_scores, 1

    def as_regression(self) -> tuple[FloatArray, FloatArray]:
        """Centred ranks of the features (n_rows, p), and the scaled residual (n_rows, K)."""
        ranks = np.take_along_axis(self.marginal.positions, self.codes.astype(np.intp), 1)
        return ranks.T - 0.5, self.residuals[0].T.astype(np.float64)

    def rank(self, order: int, most: int, features: Sequence[int] | None = None) -> Ranking:
        """Rank all interactions of one order among the given features; keep the best ``most``.

        Where the limits are reached, only the interactions scored by then are ranked; the first
        block is always scored.
        """
        among = np.arange(len(self.codes)) if features is None else np.sort(features)
        if len(among) < order:
            return Ranking([], np.empty(0, np.float32), 0.0, 0)
        n_bases = affordable_bases(len(among), order, self.residuals[0].size)
        bases = principal_bases(self.marginal, n_bases)[among]
        columns = Columns(self.codes, among, bases)
        parents = np.array(list(combinations(range(len(among) - 1), order - 1)), np.intp)
        last = parents.max(1, initial=-1)
        residuals = self.residuals[: 1 + SIGN_DRAWS.get(order, FEWEST_SIGN_DRAWS)]
        longest = max(BLOCK_COLUMNS // n_bases ** (order - 1), 1)

        def best(piece: tuple[int, int]) -> tuple[IntArray, Float32Array, float, int]:
            if piece[0] > 0 and self.limits.are_reached():
                return np.empty((0, order), np.intp), np.empty(0, np.float32), 0.0, 0
            block = parents[slice(*piece)]
            first = int(last[slice(*piece)].min()) + 1
            scores = self.block_scores(columns, block, first, residuals, of_rows)
            new = last[slice(*piece), None] < np.arange(first, len(among))
            noise = float(scores[1:, new].max(initial=0.0))
            parent, feature = np.nonzero(new & (scores[0] >= _nth_largest(scores[0][new], most)))
            found = np.column_stack([block[parent], feature + first])
            return found, scores[0, parent, feature], noise, int(new.sum())

        pieces, n_threads = split(len(parents), longest), self.n_threads
        share = (n_threads, 1) if len(pieces) >= n_threads else (1, n_threads)
        with ONE_BLAS_THREAD, Workers(share[0]) as workers, Workers(share[1]) as of_rows:
            blocks = workers.map(best, pieces)
        found = np.concatenate([block[0] for block in blocks])
        scores = np.concatenate([block[1] for block in blocks])
        top = np.argsort(-scores, kind="stable")[:most]
        components = [tuple(s) for s in among[found[top]].tolist()]
        floor = max(block[2] for block in blocks)
        n_scored = sum(block[3] for block in blocks)
        is_cut = n_scored < math.comb(len(among), order)
        return Ranking(components, scores[top], floor, n_scored, is_cut)


def affordable_bases(n_features: int, order: int, n_rows: int) -> int:
    """Functions per feature that a screen of all interactions of one order can afford."""
    n_draws = 1 + SIGN_DRAWS.get(order, FEWEST_SIGN_DRAWS)
    products = math.comb(n_features, order) * n_rows * n_draws
    most = MOST_PRODUCTS.get(order, MOST_PRODUCTS_OF_HIGHER_ORDERS)
    count = MOST_BASES.get(order, 1)
    while count > 1 and products * count**order > most:
        count //= 2
    return count


def affordable_features(order: int, n_rows: int, share: float = 1.0) -> int:
    """Return how many features a screen can afford whose interactions of one order are all seen.

    ``share`` is that of the largest screen.
    """
    n_draws = 1 + SIGN_DRAWS.get(order, FEWEST_SIGN_DRAWS)
    most = share * MOST_PRODUCTS.get(order, MOST_PRODUCTS_OF_HIGHER_ORDERS) / (n_rows * n_draws)
    count = order
    while math.comb(count + 1, order) <= most:
        count += 1
    return count


def _nth_largest(values: Float32Array, count: int) -> float:
    """Value that ``count`` of the values reach, or -inf if there are not more than that."""
    if len(values) <= count:
        return -math.inf
    return float(np.partition(values, len(values) - count)[len(values) - count])


def block_scores(
    columns: Columns,
    parents: IntArray,
    first: int,
    residuals: Float32Array,
    workers: Workers,
) -> Float32Array:
    """Scores of parents (m, order - 1) extended by each feature from ``first`` on.

    The result has shape (r, m, q - first), with one entry for each of the residuals (r, K, n_rows).
    Workers take blocks of rows, whose products are added in the order of the rows.
    """
    n_features, _, n_bases = columns.bases.shape
    n_parents, n_new = len(parents), n_features - first
    width = n_bases ** parents.shape[1]
    shape = (*residuals.shape[:2], n_parents * width, n_new * n_bases)
    coefficients = np.zeros(shape, np.float32)
    variance = np.zeros((n_parents, n_new), np.float32)
    blocks = [slice(*block) for block in split(columns.n_rows, BLOCK_ROWS)]
    work = partial(_block_products, columns, parents, first, residuals)
    at_a_time = max(min(MOST_BYTES // max(coefficients.nbytes, 1), workers.n_threads), 1)
    for start in range(0, len(blocks), at_a_time):
        for products, energy in workers.map(work, blocks[start : start + at_a_time]):
            coefficients += products
            variance += energy
    by_function = (*shape[:2], n_parents, width, n_new, n_bases)
    squares = (coefficients**2).reshape(by_function).sum((1, 3, 5))
    scores: Float32Array = np.divide(squares, np.where(variance > 0, variance, np.inf))
    return scores


def _block_products(
    columns: Columns, parents: IntArray, first: int, residuals: Float32Array, rows: slice
) -> tuple[Float32Array, Float32Array]:
    """Coefficients (r, K, m * width, new * D) and variances (m, new) of a block of rows."""
    n_new, lowest = len(columns.bases) - first, int(parents.min(initial=first))
    values = columns.values(rows, lowest)
    products = row_products(values, parents - lowest)  # (m, width, n)
    added = values[len(values) - n_new :]
    n_rows = values.shape[1]
    new = added.transpose(1, 0, 2).reshape(n_rows, -1)
    some = residuals[:, :, rows]
    coefficients = np.empty((*some.shape[:2], products.size // n_rows, new.shape[1]), np.float32)
    for index in np.ndindex(some.shape[:2]):
        weighted = products * some[index]
        coefficients[index] = weighted.reshape(-1, n_rows) @ new
    energy = (products**2).sum(1) * (some[0] ** 2).sum(0)
    return coefficients, energy @ (added**2).sum(2).T


def row_products(values: Float32Array, parents: IntArray) -> Float32Array:
    """All products (m, D^d, n) of the parents' functions at each row, from values (q, n, D)."""
    along: Float32Array = values.transpose(0, 2, 1)
    n_parents, n_rows = len(parents), values.shape[1]
    products: Float32Array = np.ones((n_parents, 1, n_rows), np.float32)
    for column in parents.T:
        wider: Float32Array = products[:, :, None] * along[column][:, None]
        products = wider.reshape(n_parents, -1, n_rows)
    return products
