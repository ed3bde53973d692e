"""Design: the smooth functions of some components on the rows.

X has a row for each row of the table and a column for each function, in units of its prior standard
deviation. It is never held as a whole: values and sums go through the grids of the components, the
Gram matrix through blocks of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise

import numpy as np

from tpnn._utils.arrays import CodeArray, FloatArray, IntArray
from tpnn._utils.threads import Workers, split
from tpnn.anova.components import Component
from tpnn.loss.objectives import Objective
from tpnn.solvers.problem.coded import Codes
from tpnn.table.axis import Axis

ROWS_PER_BLOCK = 2048
N_SUMS = 4  # parts of a sum; fixed, so that the number of threads changes no bit
N_SIGMOIDS = {1: 24, 2: 12, 3: 8}  # of a feature, by order
SIGMOID_WIDTHS = {1: 0.05, 2: 0.08, 3: 0.12}  # gamma on the scale of the positions, by order
SMALLEST_SHARES = {1: 5e-5, 2: 2e-4, 3: 2e-3}  # of the largest prior variance, by order
MOST_FUNCTIONS = 300  # per component; of many levels the most frequent ones have one
HIGHEST_ORDER = 3  # with settings of its own; higher orders share them
SMALLEST_MASS = 1e-300  # keeps a feature that is always missing from dividing by zero
LARGEST_LOGIT = 60.0
SMALLEST_CURVATURE = 1e-3
SMALLEST_DISPERSION = 1e-12
QUARTILE_RANGE = 1.349  # of a normal distribution with variance one


@dataclass(frozen=True, eq=False)
class Design:
    """Functions of some components on coded rows, X of shape (n, K)."""

    components: Sequence[Component]
    spans: Sequence[Span]  # functions of each component
    codes: Codes
    workers: Workers
    step: int = 1  # every ``step``-th row of the table is a row of X

    @property
    def size(self) -> int:
        """Number of functions K."""
        return sum(span.size for span in self.spans)

    @property
    def places(self) -> list[IntArray]:
        """Columns of each component."""
        ends = np.cumsum([0, *(span.size for span in self.spans)])
        return [np.arange(start, end) for start, end in pairwise(ends)]

    @property
    def rows(self) -> slice:
        """Rows of the table."""
        return slice(None, None, self.step)

    def of(self, numbers: Sequence[int]) -> Design:
        """Design of some of the components."""
        chosen = [self.components[number] for number in numbers]
        return replace(self, components=chosen, spans=[self.spans[number] for number in numbers])

    def values(self, coefficients: FloatArray) -> FloatArray:
        """X beta, (n,)."""
        tables = [
            span.tables(span.deviations * coefficients[place])
            for span, place in zip(self.spans, self.places, strict=True)
        ]
        n_rows = len(self.codes.rows[self.rows])

        def total(rows: tuple[int, int]) -> FloatArray:
            values = np.zeros(rows[1] - rows[0])
            for component, table in zip(self.components, tables, strict=True):
                self.codes.add_values(component, table, rows[0], self.step, values)
            return values

        return np.concatenate(self.workers.map(total, split(n_rows, -(-n_rows // N_SUMS))))

    def sums(self, values: FloatArray) -> FloatArray:
        """X' v, (K,), of a value for each row."""

        def of_component(number: int) -> FloatArray:
            span = self.spans[number]
            table = self.codes.sums(self.components[number], span.shape, self.step, values)
            return span.deviations * span.sums(table)

        sums = self.workers.map(of_component, range(len(self.spans)))
        return np.concatenate([np.empty(0), *sums])

    def gram(self, precision: FloatArray) -> FloatArray:
        """X' P X (K, K), with X centred under the precisions P (n,).

        Centring takes the intercept out: it has a flat prior.
        """
        n_sums = min(N_SUMS, -(-len(precision) // ROWS_PER_BLOCK))
        ranges = split(len(precision), -(-len(precision) // n_sums))
        sums = self.workers.map(lambda rows: self._square(precision, *rows), ranges)
        square: FloatArray = np.sum(sums, axis=0)  # of X with a column of ones
        # The Schur complement of the column of ones is the Gram matrix of centred columns.
        edge = square[-1, :-1]
        centred: FloatArray = square[:-1, :-1] - np.outer(edge, edge) / square[-1, -1]
        return centred

    def _square(self, precision: FloatArray, start: int, stop: int) -> FloatArray:
        """[X 1]' P [X 1] over the rows from start to stop, (K + 1, K + 1)."""
        total = np.zeros((self.size + 1, self.size + 1))
        for low in range(start, stop, ROWS_PER_BLOCK):
            high = min(low + ROWS_PER_BLOCK, stop)
            block = np.column_stack([self.block(low, high), np.ones(high - low)])
            block *= np.sqrt(precision[low:high, None])
            total += block.T @ block
        return total

    def scaled_rows(self, precision: FloatArray) -> FloatArray:
        """P^(1/2) X (n, K), with X centred under the precisions P (n,)."""
        values = self.block(0, len(precision))
        centred = values - np.average(values, axis=0, weights=precision)
        return np.asarray(np.sqrt(precision)[:, None] * centred)

    def block(self, low: int, high: int) -> FloatArray:
        """Rows of X from low to high."""
        rows = slice(low * self.step, (high - 1) * self.step + 1, self.step)
        nothing = np.empty((high - low, 0))
        parts = (
            span.rows(self.codes.cells(component, rows))
            for component, span in zip(self.components, self.spans, strict=True)
        )
        return np.concatenate([nothing, *parts], axis=1)


@dataclass(frozen=True, eq=False)
class Span:
    """Orthonormal functions phi_i(x) = prod_j phi_ij(x_j) of one component, and their prior."""

    factors: tuple[FloatArray, ...]  # (M_j, k): phi_ij of each feature on its nodes
    variances: FloatArray  # (k,), of the prior; their sum is at most one
    weights: tuple[FloatArray, ...]  # (M_j,), masses of the nodes

    @property
    def size(self) -> int:
        """Number of functions."""
        return len(self.variances)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of nodes of each feature."""
        return tuple(len(factor) for factor in self.factors)

    @property
    def deviations(self) -> FloatArray:
        """Prior standard deviation of each coefficient, (k,)."""
        return np.sqrt(self.variances)

    def rows(self, cells: Sequence[CodeArray]) -> FloatArray:
        """Functions times prior standard deviations on rows, (n, k)."""
        scaled = [self.factors[0] * self.deviations, *self.factors[1:]]
        values = [f[c] for f, c in zip(scaled, cells, strict=True)]
        return reduce(np.multiply, values)

    def coefficients(self, tables: FloatArray) -> FloatArray:
        """Coefficients <phi_i, f> under the product of the masses, (k, ...), of grids."""
        masses = reduce(np.multiply.outer, self.weights)
        return self.sums(tables * masses.reshape(masses.shape + (1,) * (tables.ndim - masses.ndim)))

    def sums(self, tables: FloatArray) -> FloatArray:
        """Sum phi_i times grids (M_1, ..., M_d, ...) over all nodes, (k, ...)."""
        sums = np.tensordot(self.factors[0], tables, (0, 0))
        for factor in self.factors[1:]:
            sums = np.einsum("mi,im...->i...", factor, sums)
        return np.asarray(sums)

    def tables(self, coefficients: FloatArray) -> FloatArray:
        """Grids sum_i c_i phi_i, (M_1, ..., M_d, ...), of coefficients (k, ...)."""
        values = coefficients
        for factor in self.factors[:0:-1]:
            values = np.einsum("mi,i...->im...", factor, values)
        return np.asarray(np.tensordot(self.factors[0], values, (1, 0)))


def eigenfunctions(axis: Axis, order: int) -> tuple[FloatArray, FloatArray]:
    """Eigenfunctions (M, k) of the prior of one feature, and their shares of its variance (k,).

    With the bases S (M, D) centred under the masses, W^(1/2) S = U D V' and phi = W^(-1/2) U.
    So the columns of V are the eigenvectors of S' W S, and D^2 its eigenvalues.
    """
    bases = _bases(axis, min(order, HIGHEST_ORDER))
    bases -= axis.weights @ bases
    squares, right = np.linalg.eigh((axis.weights[:, None] * bases).T @ bases)
    squares, right = squares[::-1].clip(0.0), right.T[::-1]
    scales, shares = np.sqrt(squares), squares / max(squares.sum(), SMALLEST_MASS)
    kept = shares > SMALLEST_SHARES[min(order, HIGHEST_ORDER)] * shares.max(initial=0.0)
    return bases @ right[kept].T / scales[kept], shares[kept]


def _bases(axis: Axis, order: int) -> FloatArray:
    """Sigmoids of positions, or indicators of levels, and an indicator of missing values."""
    if axis.is_nominal:
        frequent = np.sort(np.argsort(-axis.weights, kind="stable")[:MOST_FUNCTIONS])
        return np.asarray(np.arange(axis.n_nodes)[:, None] == frequent, np.float64)
    count = min(N_SIGMOIDS[order], axis.n_nodes)
    centres = (np.arange(count) + 0.5) / count
    logits = (axis.blended_positions[:, None] - centres) / SIGMOID_WIDTHS[order]
    bases: FloatArray = 1 / (1 + np.exp(-logits.clip(-LARGEST_LOGIT, LARGEST_LOGIT)))
    if axis.has_missing:
        # Sigmoids must say nothing about missing values, so they have their means there.
        masses = axis.weights[axis.regular]
        bases[axis.missing] = masses @ bases[axis.regular] / max(masses.sum(), SMALLEST_MASS)
        bases = np.column_stack([bases, np.eye(axis.n_nodes)[:, axis.missing]])
    return bases


def spans(components: Sequence[Component], axes: Mapping[int, Sequence[Axis]]) -> list[Span]:
    """Return the span of every component."""
    wanted = {(len(component), feature) for component in components for feature in component}
    functions = {(order, j): eigenfunctions(axes[order][j], order) for order, j in sorted(wanted)}
    return [
        _product(
            [functions[len(component), feature] for feature in component],
            tuple(axes[len(component)][feature].weights for feature in component),
        )
        for component in components
    ]


def _product(
    by_feature: Sequence[tuple[FloatArray, FloatArray]], weights: tuple[FloatArray, ...]
) -> Span:
    """Span of the products of one function of each feature that have the largest variances."""
    variances = reduce(np.multiply.outer, [shares for _, shares in by_feature])
    smallest = SMALLEST_SHARES[min(len(by_feature), HIGHEST_ORDER)] * variances.max(initial=0.0)
    if np.count_nonzero(variances > smallest) > MOST_FUNCTIONS:
        smallest = np.sort(variances, axis=None)[-MOST_FUNCTIONS - 1]
    kept = np.nonzero(variances > smallest)
    factors = tuple(functions[:, at] for (functions, _), at in zip(by_feature, kept, strict=True))
    return Span(factors, variances[kept], weights)


@dataclass(frozen=True, eq=False)
class WorkingRows:
    """Targets of rows and their loss."""

    objective: Objective
    y: FloatArray  # (n, T)
    masses: FloatArray  # (n,): number of rows that each row stands for

    def slopes(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Slope g and curvature h, (n, K) each, of raw scores (n, K).

        Losses of an identity link have the mean curvature of all rows. It is 1 for squared error.
        For quantiles, whose rows have no curvature, it is the density of the target there. The
        scores of K classes sum to zero: if one rises by t, the others fall by t / (K - 1), and so
        g = (p - y) K / (K - 1) and h = p (1 - p) (K / (K - 1))^2.
        """
        slope, curvature = (part.astype(np.float64) for part in self._row_slopes(scores))
        if self.objective.couples_outputs:
            factor = scores.shape[1] / (scores.shape[1] - 1)
            slope, curvature = slope * factor, curvature * factor**2 / 2  # it was 2 p (1 - p)
        elif self.objective.kind in ("numbers", "quantiles"):
            curvature = np.broadcast_to(self._mean_curvature(scores, slope), slope.shape)
        return slope, np.maximum(curvature, SMALLEST_CURVATURE)

    def dispersion(self, scores: FloatArray, masses: FloatArray) -> FloatArray:
        """Pearson's statistic phi of each output, (K,), on rows with held-out scores.

        ``masses`` (n,) are those of these rows, zero elsewhere.
        """
        slope, curvature = self.slopes(scores)
        pearson: FloatArray = masses @ slope**2 / (masses @ curvature)
        return np.maximum(pearson, SMALLEST_DISPERSION)

    def _row_slopes(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.objective.slopes(self.y, scores, self.masses[:, None])

    def _mean_curvature(self, scores: FloatArray, slope: FloatArray) -> FloatArray:
        """Difference quotient of the mean slope as all scores of an output move, (K,)."""
        residual = self.y - scores if self.y.shape[1] in (1, scores.shape[1]) else slope
        lower, upper = np.quantile(residual, [0.25, 0.75], axis=0)
        scale = np.minimum(residual.std(0), (upper - lower) / QUARTILE_RANGE)
        step = np.maximum(scale, 1e-6) * len(scores) ** -0.2
        above, below = (self.masses @ self._row_slopes(scores + s)[0] for s in (step, -step))
        return np.asarray((above - below) / (2 * step * self.masses.sum()))
