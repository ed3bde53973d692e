"""Evidence: the posterior of the coefficients, with prior variances that the data choose.

    beta_b ~ N(0, tau_b I) for each block b,   z = X beta + noise,   noise_i ~ N(0, 1 / p_i)
    S = (G + diag(1 / tau))^-1,   beta_hat = S r,   with G = X' P X and r = X' P z

MacKay's update makes the evidence of tau larger: tau_b <- |beta_b|^2 / free_b, where
free_b = size_b - trace(S_bb) / tau_b counts the coefficients that the data determine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.linalg import lapack

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.uncertainty.design import HIGHEST_ORDER, Design, Span

LOW_SHARE = 0.03  # of the largest prior variance; functions above it are the low block
N_POOLED = 1.0  # weight, in coefficients, of the variance that other blocks suggest
N_UPDATES, N_LATER_UPDATES = 8, 2  # from the start, and from those of a similar problem
SMALLEST_VARIANCE, SMALLEST_SEEN = 1e-7, 1e-4
LARGEST_MEAN = 1e100  # of a coefficient, whose square is a number
SMALLEST_FREE = 1e-3  # coefficients
SMALLEST_INFORMATION = 1e-30
N_STANDARD_ERRORS_ADDED = {1: 0.0, 2: 0.4, 3: 0.15}  # to the variances of an order
START_VARIANCES = {1: 0.1, 2: 0.02, 3: 0.005}  # on the training scale, by order


@dataclass(frozen=True, eq=False)
class Blocks:
    """Coefficients that share a prior variance."""

    places: list[IntArray]  # of the coefficients of each block
    orders: IntArray  # (n_blocks,), of the block's component
    kinds: IntArray  # (n_blocks,): 2 * order, plus one for low blocks
    lows: IntArray  # (n_blocks,): low block of the same component

    @classmethod
    def of(cls, spans: Sequence[Span]) -> Blocks:
        """Two blocks for each component: functions of large and of small prior variance."""
        places, orders, kinds, start = [], [], [], 0
        lows: list[int] = []
        for span in spans:
            order = min(len(span.factors), HIGHEST_ORDER)
            low = span.variances > LOW_SHARE * span.variances.max(initial=0.0)
            for is_low in (True, False):
                chosen = start + np.flatnonzero(low == is_low)
                if len(chosen):
                    places.append(chosen)
                    orders.append(order)
                    kinds.append(2 * order + is_low)
                    lows.append(len(lows) if is_low else len(lows) - 1)
            start += span.size
        numbers = (np.array(values, np.intp) for values in (orders, kinds, lows))
        return cls(places, *numbers)

    @cached_property
    def sizes(self) -> IntArray:
        """Number of coefficients of each block."""
        return np.array([len(place) for place in self.places], np.intp)

    @cached_property
    def numbers(self) -> IntArray:
        """Number of the block of each coefficient, (K,)."""
        numbers = np.empty(self.sizes.sum(), np.intp)
        for number, place in enumerate(self.places):
            numbers[place] = number
        return numbers

    def sums(self, values: FloatArray) -> FloatArray:
        """Sum over the coefficients (K,) of each block."""
        return np.bincount(self.numbers, values, len(self.places)).astype(np.float64)

    def repeated(self, values: FloatArray) -> FloatArray:
        """Value of its block for each coefficient, (K,)."""
        return values[self.numbers]

    def suggested(self, values: FloatArray) -> FloatArray:
        """Variance that the other blocks suggest for each, from the variances (n_blocks,).

        It is the geometric mean over the blocks of the same kind. A high block is as far from that
        mean as the low block of its component: where smooth functions have an effect, rougher ones
        have it too.
        """
        counts = np.maximum(np.bincount(self.kinds), 1)
        means: FloatArray = np.exp(np.bincount(self.kinds, np.log(values)) / counts)[self.kinds]
        is_high = self.lows != np.arange(len(self.lows))
        return means * np.where(is_high, (values / means)[self.lows], 1.0)

    def start(self) -> FloatArray:
        """Variances to start from."""
        return np.array([START_VARIANCES[order] for order in self.orders])


def variances(equations: Equations, blocks: Blocks, start: FloatArray | None = None) -> FloatArray:
    """Variances (n_blocks,) that the evidence chooses, each pulled to what the others suggest.

    ``start`` are the variances of a similar problem.
    """
    tau = blocks.start() if start is None else start
    for _ in range(N_UPDATES if start is None else N_LATER_UPDATES):
        found = equations.solved(blocks.repeated(1 / tau))
        free = blocks.sizes - blocks.sums(found.covariance.variances) / tau
        mean = found.mean.clip(-LARGEST_MEAN, LARGEST_MEAN)
        squares = blocks.sums(mean**2) + N_POOLED * blocks.suggested(tau)
        tau = np.maximum(squares / (free.clip(SMALLEST_FREE) + N_POOLED), SMALLEST_VARIANCE)
    return tau


def widened(equations: Equations, blocks: Blocks, tau: FloatArray) -> FloatArray:
    """Variances plus a share of their standard errors, because weak effects may go unseen.

    Given all other components a block is seen with information A = (S_bb)^-1 - I / tau. With the
    eigenvalues s of S_bb those of A are a = u / s with u = 1 - s / tau, and the information on tau
    is sum_i (a_i / (1 + tau a_i))^2 / 2.
    """
    seen = np.maximum(tau, SMALLEST_SEEN)
    covariance = equations.solved(blocks.repeated(1 / seen)).covariance
    wider = tau.copy()
    for number, (place, order) in enumerate(zip(blocks.places, blocks.orders, strict=True)):
        share = N_STANDARD_ERRORS_ADDED[order]
        if share:
            left = np.linalg.eigvalsh(covariance.of(place).matrix).clip(0, seen[number])
            u = 1 - left / seen[number]
            information = ((u / (left + tau[number] * u)) ** 2).sum() / 2
            wider[number] += share / np.sqrt(max(information, SMALLEST_INFORMATION))
    return wider


RELATIVE_JITTER = 1e-10
RELATIVE_ROUNDING = 1e-5  # of Gram matrices whose functions may be copies of each other
SMALLEST_LEFT = 1e-3  # share of the information that is left without some rows


class Covariance(Protocol):
    """Posterior covariance S of K coefficients."""

    @property
    def variances(self) -> FloatArray:
        """Diagonal, (K,)."""

    @property
    def matrix(self) -> FloatArray:
        """All of it, (K, K)."""

    def of(self, places: IntArray) -> Covariance:
        """Covariance of some coefficients."""

    def times(self, values: FloatArray) -> FloatArray:
        """S v, (K,)."""

    def squares(self, rows: FloatArray) -> FloatArray:
        """Variance x' S x of each row x of (n, K)."""

    def without(self, seen: Seen, values: FloatArray) -> FloatArray:
        """(S^-1 - A' A)^-1 v, (K,): S as if it had not seen some scaled rows A (n, K).

        Raises LinAlgError where these claim more than all of the information.
        """


@dataclass(frozen=True, eq=False)
class Seen:
    """Some rows A = W^(1/2) (X - c) that a posterior has seen."""

    design: Design
    weights: FloatArray  # (n,)
    centre: FloatArray  # (K,)

    @property
    def square(self) -> FloatArray:
        """A' A, (K, K)."""
        return self.design.square(self.weights, self.centre)

    @property
    def rows(self) -> FloatArray:
        """A, (n, K)."""
        centred = self.design.block(0, len(self.weights)) - self.centre
        return np.asarray(np.sqrt(self.weights)[:, None] * centred)


@dataclass(frozen=True, eq=False)
class Factored:
    """S = V' V, with V (N, K)."""

    whitened: FloatArray
    inverse: Callable[[], FloatArray] | None = None  # S^-1, of all coefficients

    @property
    def variances(self) -> FloatArray:
        """Diagonal, (K,)."""
        return column_squares(self.whitened)

    @property
    def matrix(self) -> FloatArray:
        """All of it, (K, K)."""
        square: FloatArray = self.whitened.T @ self.whitened
        return square

    def of(self, places: IntArray) -> Factored:
        """Covariance of some coefficients."""
        return Factored(self.whitened[:, places])

    def times(self, values: FloatArray) -> FloatArray:
        """S v, (K,)."""
        return np.asarray(self.whitened.T @ (self.whitened @ values))

    def squares(self, rows: FloatArray) -> FloatArray:
        """Variance x' S x of each row x of (n, K)."""
        return column_squares(self.whitened @ rows.T)

    def without(self, seen: Seen, values: FloatArray) -> FloatArray:
        """(S^-1 - A' A)^-1 v, (K,)."""
        if self.inverse is None:
            raise ValueError("without: the inverse of a part of the covariance is not known.")
        return _solved((1 + SMALLEST_LEFT) * self.inverse() - seen.square, values)


@dataclass(frozen=True, eq=False)
class Reduced:
    """S = diag(d) - H' H, what rows leave of the prior variances d (K,), with H (N, K)."""

    prior: FloatArray
    reduction: FloatArray

    @property
    def variances(self) -> FloatArray:
        """Diagonal, (K,)."""
        return self.prior - column_squares(self.reduction)

    @property
    def matrix(self) -> FloatArray:
        """All of it, (K, K)."""
        square: FloatArray = np.diag(self.prior) - self.reduction.T @ self.reduction
        return square

    def of(self, places: IntArray) -> Reduced:
        """Covariance of some coefficients."""
        return Reduced(self.prior[places], self.reduction[:, places])

    def times(self, values: FloatArray) -> FloatArray:
        """S v, (K,)."""
        return np.asarray(self.prior * values - self.reduction.T @ (self.reduction @ values))

    def squares(self, rows: FloatArray) -> FloatArray:
        """Variance x' S x of each row x of (n, K)."""
        squares = rows**2 @ self.prior - column_squares(self.reduction @ rows.T)
        return np.maximum(squares, 0.0)

    def without(self, seen: Seen, values: FloatArray) -> FloatArray:
        """(S^-1 - A' A)^-1 v, (K,): S v + S A' (I - A S A')^-1 A S v."""
        rows = seen.rows
        times = rows * self.prior - (rows @ self.reduction.T) @ self.reduction  # A S
        left = (1 + SMALLEST_LEFT) * np.eye(len(rows)) - times @ rows.T
        return self.times(values) + times.T @ _solved(left, times @ values)


def _solved(matrix: FloatArray, values: FloatArray) -> FloatArray:
    """Solution of a symmetric system; the matrix must be positive."""
    if len(matrix) == 0:  # LAPACK refuses an empty matrix
        return values
    solution, failed = lapack.dposv(matrix.T, values, lower=1, overwrite_a=1)[1:]
    if failed:
        raise np.linalg.LinAlgError("the Gram matrix is not positive")
    return np.asarray(solution)


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Posterior of K coefficients."""

    mean: FloatArray  # (K,)
    covariance: Covariance
    precision: FloatArray  # (K,): 1 / tau of the prior
    # (K, K): covariance where the scores of rows have another one than their precisions say
    robust: FloatArray | None = None

    def of(self, places: IntArray) -> Coefficients:
        """Posterior of some coefficients."""
        robust = None if self.robust is None else self.robust[np.ix_(places, places)]
        covariance = self.covariance.of(places)
        return Coefficients(self.mean[places], covariance, self.precision[places], robust)

    def root(self) -> FloatArray:
        """Lower triangle R with covariance = R R'; the robust one, where it is known."""
        covariance = self.covariance.matrix if self.robust is None else self.robust
        size = len(self.mean)
        jitter = RELATIVE_JITTER * np.trace(covariance) / max(size, 1)
        root: FloatArray = np.linalg.cholesky(covariance + jitter * np.eye(size))
        return root


class Equations(Protocol):
    """A linear model of which the prior precisions are still to be chosen."""

    def solved(self, precision: FloatArray) -> Coefficients:
        """Posterior for prior precisions (K,)."""

    def scaled(self, factor: float) -> Equations:
        """Equations of ``factor`` times as many rows."""


@dataclass(frozen=True, eq=False)
class ByFunctions:
    """Equations with the Gram matrix G (K, K) and the right-hand side r (K,)."""

    gram: FloatArray
    right: FloatArray

    def scaled(self, factor: float) -> ByFunctions:
        """Equations of ``factor`` times as many rows."""
        return ByFunctions(factor * self.gram, factor * self.right)

    def solved(self, precision: FloatArray) -> Coefficients:
        """Posterior for prior precisions (K,)."""

        def inverse() -> FloatArray:
            matrix = self.gram.copy()
            matrix[np.diag_indices_from(matrix)] += self._rounded(precision)
            return matrix

        covariance = Factored(inverse_factor(inverse()), inverse)
        return Coefficients(covariance.times(self.right), covariance, precision)

    def _rounded(self, precision: FloatArray) -> FloatArray:
        """Precisions that rounding of the Gram matrix cannot undo."""
        rounded: FloatArray = precision + RELATIVE_ROUNDING * np.diag(self.gram).clip(0)
        return rounded


@dataclass(frozen=True, eq=False)
class ByRows:
    """Equations with scaled rows A (n, K) and observations w (n,)."""

    rows: FloatArray
    response: FloatArray

    def scaled(self, factor: float) -> ByRows:
        """Equations of ``factor`` times as many rows."""
        return ByRows(np.sqrt(factor) * self.rows, np.sqrt(factor) * self.response)

    @cached_property
    def information(self) -> FloatArray:
        """Diagonal of the Gram matrix, (K,)."""
        return column_squares(self.rows)

    def solved(self, precision: FloatArray) -> Coefficients:
        """Posterior for prior precisions (K,)."""
        units = 1 / np.sqrt(precision + RELATIVE_ROUNDING * self.information)
        scaled = self.rows * units  # coefficients in units of their prior deviations
        matrix = scaled @ scaled.T
        matrix[np.diag_indices_from(matrix)] += 1
        inverse = inverse_factor(matrix)
        reduction = inverse @ scaled  # H (N, K)
        mean = units * (reduction.T @ (inverse @ self.response))
        return Coefficients(mean, Reduced(units**2, units * reduction), precision)


def column_squares(values: FloatArray) -> FloatArray:
    """Sum of squares of each column."""
    return np.asarray(np.einsum("ni,ni->i", values, values))


def inverse_factor(matrix: FloatArray) -> FloatArray:
    """V = L^-1 of a symmetric matrix L L'; it must be positive."""
    if len(matrix) == 0:  # constant features alone; LAPACK refuses an empty matrix
        return matrix
    factor, failed = lapack.dpotrf(
        matrix.T, lower=1, clean=1, overwrite_a=1
    )  # .T is in LAPACK's order
    if failed:
        raise np.linalg.LinAlgError("the Gram matrix is not positive")
    inverse: FloatArray = lapack.dtrtri(factor, lower=1, overwrite_c=1)[0]
    return inverse
