"""Spans: the smooth functions of a component, and their prior.

The prior is that of the smooth start, independent coefficients of centred sigmoids s_k:

    f(x) = sum_k c_k s_k(x),  c_k ~ N(0, 1),

of one feature, and products of such functions of several features.

Its eigenfunctions phi_i under the masses w of the nodes, sum_m w_m phi_i(m) phi_j(m) = [i = j],
say the same with fewer numbers: those of small prior variance are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from tpnn._utils.arrays import CodeArray, Float32Array, FloatArray
from tpnn.anova.components import Component
from tpnn.table.axis import Axis

N_SIGMOIDS = {1: 24, 2: 12, 3: 8}  # of a feature, by order
SIGMOID_WIDTHS = {1: 0.05, 2: 0.08, 3: 0.12}  # gamma on the scale of the positions, by order
SMALLEST_SHARES = {1: 5e-5, 2: 2e-4, 3: 2e-3}  # of the largest prior variance that are kept
MOST_FUNCTIONS = 300  # of a component: of levels, the most frequent ones
HIGHEST_ORDER = 3  # with settings of its own; higher ones have those of this one
SMALLEST_MASS = 1e-300  # keeps a feature that is always missing from dividing by zero
LARGEST_LOGIT = 60.0


@dataclass(frozen=True, eq=False)
class Span:
    """Orthonormal functions phi_i(x) = prod_j phi_ij(x_j) of one component, and their prior.

    Parameters
    ----------
    factors : tuple of array of shape (M_j, k)
        The functions phi_ij of each feature on its nodes.
    variances : array of shape (k,)
        Prior variance of each coefficient; they add up to at most one.
    weights : tuple of array of shape (M_j,)
        Masses of the nodes.
    """

    factors: tuple[FloatArray, ...]
    variances: FloatArray
    weights: tuple[FloatArray, ...]

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

    def rows(self, cells: Sequence[CodeArray]) -> Float32Array:
        """Functions times prior standard deviations on rows, (n, k)."""
        scaled = [self.factors[0] * self.deviations, *self.factors[1:]]
        values = [f.astype(np.float32)[c] for f, c in zip(scaled, cells, strict=True)]
        return reduce(np.multiply, values)

    def coefficients(self, tables: FloatArray) -> FloatArray:
        """Coefficients <phi_i, f> under the product of the masses, (k, ...), of grids."""
        masses = reduce(np.multiply.outer, self.weights)
        return self.sums(tables * masses.reshape(masses.shape + (1,) * (tables.ndim - masses.ndim)))

    def sums(self, tables: FloatArray) -> FloatArray:
        """Sum phi_i times grids (M_1, ..., M_d, ...) over all nodes, (k, ...)."""
        found = np.tensordot(self.factors[0], tables, (0, 0))
        for factor in self.factors[1:]:
            found = np.einsum("mi,im...->i...", factor, found)
        return np.asarray(found)

    def tables(self, coefficients: FloatArray) -> FloatArray:
        """Grids sum_i c_i phi_i, (M_1, ..., M_d, ...), of coefficients (k, ...)."""
        values = coefficients
        for factor in self.factors[:0:-1]:
            values = np.einsum("mi,i...->im...", factor, values)
        return np.asarray(np.tensordot(self.factors[0], values, (1, 0)))


def eigenfunctions(axis: Axis, order: int) -> tuple[FloatArray, FloatArray]:
    """Eigenfunctions (M, k) of the prior of one feature, and their shares of its variance (k,).

    With the bases S (M, D) centred under the masses, W^(1/2) S = U D V' and phi = W^(-1/2) U.
    """
    bases = _bases(axis, min(order, HIGHEST_ORDER))
    bases = bases - axis.weights @ bases
    scales, right = np.linalg.svd(np.sqrt(axis.weights)[:, None] * bases, full_matrices=False)[1:]
    shares = scales**2 / max((scales**2).sum(), SMALLEST_MASS)
    kept = shares > SMALLEST_SHARES[min(order, HIGHEST_ORDER)] * shares.max(initial=0.0)
    return bases @ right[kept].T / scales[kept], shares[kept]


def _bases(axis: Axis, order: int) -> FloatArray:
    """Sigmoids of a feature's positions, or indicators of levels; missing values have their own."""
    if axis.is_nominal:
        frequent = np.sort(np.argsort(-axis.weights, kind="stable")[:MOST_FUNCTIONS])
        return np.asarray(np.arange(axis.n_nodes)[:, None] == frequent, np.float64)
    count = min(N_SIGMOIDS[order], axis.n_nodes)
    centres = (np.arange(count) + 0.5) / count
    logits = (axis.blended_positions[:, None] - centres) / SIGMOID_WIDTHS[order]
    bases: FloatArray = 1 / (1 + np.exp(-logits.clip(-LARGEST_LOGIT, LARGEST_LOGIT)))
    if axis.has_missing:  # sigmoids say nothing about missing values
        known = axis.weights[:-1]
        bases[-1] = known @ bases[:-1] / max(known.sum(), SMALLEST_MASS)
        bases = np.column_stack([bases, np.arange(axis.n_nodes) == axis.missing_node])
    return bases


def spans(components: Sequence[Component], axes: Mapping[int, Sequence[Axis]]) -> list[Span]:
    """Return the span of every component."""
    wanted = {(len(component), feature) for component in components for feature in component}
    known = {(order, j): eigenfunctions(axes[order][j], order) for order, j in sorted(wanted)}
    return [
        _product(
            [known[len(component), feature] for feature in component],
            tuple(axes[len(component)][feature].weights for feature in component),
        )
        for component in components
    ]


def _product(
    parts: Sequence[tuple[FloatArray, FloatArray]], weights: tuple[FloatArray, ...]
) -> Span:
    """Products of the functions of each feature, those of the largest prior variances."""
    variances = reduce(np.multiply.outer, [shares for _, shares in parts])
    smallest = SMALLEST_SHARES[min(len(parts), HIGHEST_ORDER)] * variances.max(initial=0.0)
    if np.count_nonzero(variances > smallest) > MOST_FUNCTIONS:
        smallest = np.sort(variances, axis=None)[-MOST_FUNCTIONS - 1]
    kept = np.nonzero(variances > smallest)
    factors = tuple(functions[:, at] for (functions, _), at in zip(parts, kept, strict=True))
    return Span(factors, variances[kept], weights)
