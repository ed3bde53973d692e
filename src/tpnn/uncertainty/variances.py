"""Evidence: the posterior of the coefficients, with prior variances that the data choose.

    beta_b ~ N(0, tau_b I) for each block b,   z = X beta + noise,   noise_i ~ N(0, 1 / p_i)
    S = (G + diag(1 / tau))^-1,   beta_hat = S r,   with G = X' P X and r = X' P z

MacKay's update makes the evidence of tau larger: tau_b <- |beta_b|^2 / free_b, where
free_b = size_b - trace(S_bb) / tau_b counts the coefficients that the data determine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.uncertainty.design import HIGHEST_ORDER, Span
from tpnn.uncertainty.equations import Equations

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
        mean, spread = equations.moments(blocks.repeated(1 / tau))
        free = blocks.sizes - blocks.sums(spread) / tau
        mean = mean.clip(-LARGEST_MEAN, LARGEST_MEAN)
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
