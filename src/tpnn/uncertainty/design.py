"""Design: the smooth functions of some components on the rows.

X has a row for each row of the table and a column for each function, in units of its prior standard
deviation. It is never held as a whole: values and sums go through the grids of the components, the
Gram matrix through blocks of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array

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
FEWER_AT_ONCE = 16  # times fewer functions that are not zero at a node, for which sparse rows pay
MOST_SPARSE = 2  # columns of sparse rows for each function
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

    @cached_property
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
        return self._centred(precision)[0]

    def square(self, weights: FloatArray, centre: FloatArray) -> FloatArray:
        """(X - c)' W (X - c), (K, K), about a centre c (K,)."""
        square, means, total = self._centred(weights)
        gap = means - centre
        return np.asarray(square + total * np.outer(gap, gap))

    def _centred(self, weights: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """X' W X with X centred under the weights W (n,), the centre, and their sum."""
        n_sums = min(N_SUMS, -(-len(weights) // ROWS_PER_BLOCK))
        ranges, parts = split(len(weights), -(-len(weights) // n_sums)), self._parts
        sums = self.workers.map(lambda rows: parts.square(weights, *rows), ranges)
        square = parts.turned(np.sum(sums, axis=0))  # of X with a column of ones
        # The Schur complement of the column of ones is that of centred columns.
        edge, total = square[-1, :-1], max(float(square[-1, -1]), SMALLEST_MASS)
        return square[:-1, :-1] - np.outer(edge, edge) / total, edge / total, total

    @cached_property
    def _parts(self) -> _Parts:
        numbers = range(len(self.spans))
        sparse = [number for number in numbers if self.spans[number].sparse is not None]
        dense = [number for number in numbers if self.spans[number].sparse is None]
        places = [*(self.places[number] for number in sparse + dense), np.array([self.size])]
        return _Parts(self.of(sparse), self.of(dense), np.concatenate(places))

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
class _Parts:
    """The spans of a design that have sparse rows, and the others."""

    sparse: Design
    dense: Design
    places: IntArray  # (K + 1,) in the design, first those of the sparse spans

    @cached_property
    def _rows(self) -> list[SparseRows]:
        return [span.sparse for span in self.sparse.spans if span.sparse is not None]

    @cached_property
    def _ends(self) -> list[int]:
        """Where the columns of each sparse span end among those of its rows, from 0 on."""
        return [0, *np.cumsum([rows.size for rows in self._rows], dtype=int).tolist()]

    def square(self, precision: FloatArray, start: int, stop: int) -> FloatArray:
        """[B Z 1]' P [B Z 1] over rows: sparse ones B, others Z and ones; see ``turned``."""
        n_sparse = self._ends[-1]
        total = np.zeros((n_sparse + self.dense.size + 1,) * 2)
        for low in range(start, stop, ROWS_PER_BLOCK):
            high = min(low + ROWS_PER_BLOCK, stop)
            roots = np.sqrt(precision[low:high, None])
            block = np.column_stack([self.dense.block(low, high), np.ones(high - low)]) * roots
            total[n_sparse:, n_sparse:] += block.T @ block
            if n_sparse:
                rows = self._rows_of(low, high, roots)
                self._add_squares(rows, total)
                total[:n_sparse, n_sparse:] += self._matrix(rows).T @ block
        total[n_sparse:, :n_sparse] = total[:n_sparse, n_sparse:].T
        return total

    def _rows_of(self, low: int, high: int, roots: FloatArray) -> list[tuple[IntArray, FloatArray]]:
        """Columns, within its rows, and values times roots (n, 1) of each sparse span."""
        design = self.sparse
        taken = slice(low * design.step, (high - 1) * design.step + 1, design.step)
        spans = zip(design.components, self._rows, strict=True)
        found = [rows.rows(design.codes.cells(component, taken)) for component, rows in spans]
        return [(places, values * roots) for places, values in found]

    def _add_squares(self, found: list[tuple[IntArray, FloatArray]], total: FloatArray) -> None:
        """Add B' P B, to which every row adds few products."""
        ends = [*pairwise(self._ends)]
        for (start, stop), (rows, one) in zip(ends, found, strict=True):
            for (left, right), (columns, other) in zip(ends, found, strict=True):
                if left > start:
                    break
                width = right - left
                cells = rows[:, :, None] * width + columns[:, None, :]
                products = one[:, :, None] * other[:, None, :]
                sums = np.bincount(cells.ravel(), products.ravel(), (stop - start) * width)
                total[start:stop, left:right] += sums.reshape(-1, width)
                if left < start:
                    total[left:right, start:stop] = total[start:stop, left:right].T

    def _matrix(self, found: list[tuple[IntArray, FloatArray]]) -> csr_array:
        """B of some rows."""
        places = np.hstack([at + start for (at, _), start in zip(found, self._ends, strict=False)])
        values = np.hstack([values for _, values in found])
        starts = np.arange(len(places) + 1) * places.shape[1]
        shape = len(places), self._ends[-1]
        return csr_array((values.ravel(), places.ravel(), starts), shape)

    def turned(self, square: FloatArray) -> FloatArray:
        """[X 1]' P [X 1] (K + 1, K + 1), given what ``square`` returns."""
        if not self._rows:
            return square
        for _ in range(2):  # rows become columns, and these rows again
            parts = zip(self._rows, pairwise(self._ends), strict=True)
            turned = [rows.turned(square[slice(*ends)]) for rows, ends in parts]
            square = np.concatenate([*turned, square[self._ends[-1] :]]).T
        found = np.empty_like(square)
        found[np.ix_(self.places, self.places)] = square
        return found


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Rows B, mostly zero, of which X = B R are the functions of a span.

    Every node of one feature, say every level, has columns of its own, U of them.
    """

    feature: int  # place of that feature in the component
    others: tuple[FloatArray, ...]  # (M_j, U): functions of the other features, each once
    own: FloatArray  # (M, k): functions of this feature times deviations
    which: IntArray  # (k,): place of each function among the U of the others

    @classmethod
    def of(cls, span: Span) -> SparseRows | None:
        """Sparse rows of a span, if they are so sparse that they pay."""
        if span.size < FEWER_AT_ONCE:
            return None
        for feature, own in enumerate(span.factors):
            if len(own) > MOST_SPARSE * span.size:
                continue
            factors = [f for place, f in enumerate(span.factors) if place != feature]
            stacked = np.concatenate([np.ones((1, span.size)), *factors])
            once, which = np.unique(stacked, axis=1, return_inverse=True)
            size = once.shape[1]
            if max(FEWER_AT_ONCE, len(own) / MOST_SPARSE) * size <= span.size:
                ends = np.cumsum([1, *map(len, factors)])
                others = tuple(once[start:end] for start, end in pairwise(ends))
                return cls(feature, others, own * span.deviations, which)
        return None

    @property
    def size(self) -> int:
        """Number of columns of B, M * U."""
        return len(self.own) * (int(self.which.max()) + 1)

    def turned(self, square: FloatArray) -> FloatArray:
        """R' A, (k, n), of A (M * U, n)."""
        by_node = square.reshape(len(self.own), -1, square.shape[1])
        turned = np.empty((len(self.which), square.shape[1]))
        for other in range(by_node.shape[1]):
            chosen = self.which == other
            turned[chosen] = self.own[:, chosen].T @ by_node[:, other]
        return turned

    def rows(self, cells: Sequence[CodeArray]) -> tuple[IntArray, FloatArray]:
        """Columns (n, U) of what is not zero, and its values."""
        own, others = cells[self.feature], [*cells[: self.feature], *cells[self.feature + 1 :]]
        values = [factor[at] for factor, at in zip(self.others, others, strict=True)]
        n_values = values[0].shape[1] if values else 1
        places = own.astype(np.intp)[:, None] * n_values + np.arange(n_values)
        return places, reduce(np.multiply, values, np.ones(places.shape))


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

    @cached_property
    def sparse(self) -> SparseRows | None:
        """Its functions on rows that are mostly zero, where that pays."""
        return SparseRows.of(self)

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
