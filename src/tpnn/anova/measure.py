"""The measure of the training rows, means under it, and purification of components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from tpnn._utils.arrays import BoolArray, FloatArray, IntArray
from tpnn.anova.components import Component
from tpnn.table.axis import Axis

EPSILON, N_ROUNDINGS = float(np.finfo(np.float64).eps), 16  # errors of a mean of many numbers


def purify_tables(
    tables: Mapping[Component, FloatArray], axes: Mapping[int, Sequence[Axis]]
) -> tuple[FloatArray, dict[Component, FloatArray]]:
    """Intercept and pure tables with the same sum as ``tables``.

    A table (M_1, ..., M_d, ...) has the values on the nodes of its component's order, and may have
    further axes behind them, such as bags; the intercept has these axes alone. Every non-empty
    subset of a component must be a component too. The nodes of an order are nodes of every lower
    order. Parts of a table that are its rounding errors are zero: they do not average to zero.
    """
    intercept: FloatArray = np.zeros(())
    pure: dict[Component, FloatArray] = {s: np.zeros(table.shape) for s, table in tables.items()}
    for component, table in tables.items():
        if not table.any():  # nothing to move
            intercept = intercept + np.zeros(table.shape[len(component) :])
            continue
        coarse = [axes[len(component)][feature] for feature in component]
        rounding = N_ROUNDINGS * EPSILON * _largest(table, len(component))
        for size in range(len(component) + 1):
            for kept in combinations(range(len(component)), size):
                part = part_of(table, [axis.weights for axis in coarse], kept)
                target = tuple(component[axis] for axis in kept)
                if not target:
                    intercept = intercept + part
                    continue
                part = unless_rounding(part, rounding)
                finer = [axes[size][feature] for feature in target]
                pure[target] += moved(part, [coarse[axis] for axis in kept], finer)
    return intercept, pure


def unless_rounding(table: FloatArray, rounding: FloatArray) -> FloatArray:
    """Table (M_1, ..., M_d, ...), with zeros where all values behind an output are rounding errors.

    ``rounding`` (...) says for each output up to which size they are.

    >>> unless_rounding(np.array([[1.0, 1e-13], [-1e-13, 0.0]]), np.array([1e-12, 1e-12]))
    array([[ 1.e+00,  0.e+00],
           [-1.e-13,  0.e+00]])
    """
    is_more = _largest(table, table.ndim - np.ndim(rounding)) > rounding
    return table if is_more.all() else np.where(is_more, table, 0.0)


def _largest(table: FloatArray, n_axes: int) -> FloatArray:
    """Largest absolute value over the first axes, without a copy of the table."""
    axes = tuple(range(n_axes))
    return np.asarray(np.maximum(table.max(axes, initial=0.0), -table.min(axes, initial=0.0)))


def part_of(table: FloatArray, weights: Sequence[FloatArray], kept: Sequence[int]) -> FloatArray:
    """Average a table over the axes that are not kept and centre it along those that are."""
    for axis in reversed(range(len(weights))):
        mean = np.tensordot(table, weights[axis], axes=(axis, 0))
        table = table - np.expand_dims(mean, axis) if axis in kept else mean
    return table


def moved(part: FloatArray, coarse: Sequence[Axis], fine: Sequence[Axis]) -> FloatArray:
    """Interpolate a table from coarse to fine nodes along every axis; others may follow."""
    for place, (old, new) in enumerate(zip(coarse, fine, strict=True)):
        if old is not new and not _has_same_nodes(old, new):
            part = interpolated(part, place, old, new.numbers)
    return part


def interpolated(table: FloatArray, place: int, axis: Axis, numbers: FloatArray) -> FloatArray:
    """Table at numbers along one of its axes; what fit has not seen is zero.

    Numbers are as the encoder reads them: NaN is missing, inf an unseen level.
    """
    lower, fraction = axis.locate(numbers)
    fraction = fraction.reshape(-1, *[1] * (table.ndim - place - 1))
    # the null node, and a neighbour of it
    grid = np.pad(table, [(0, 2 * (other == place)) for other in range(table.ndim)])
    below, above = grid.take(lower, place), grid.take(lower + 1, place)
    return np.asarray(below + fraction * (above - below))


def _has_same_nodes(one: Axis, two: Axis) -> bool:
    """Whether two axes of a feature have the same nodes in the same order."""
    if one.n_nodes != two.n_nodes:
        return False
    return one.groups is None or two.groups is None or np.array_equal(one.groups, two.groups)


SMALLEST_RELATIVE_SPREAD = 1e-6  # to the largest value of the model; below, it is rounding


@dataclass(frozen=True)
class Marginal:
    """Nodes and masses of p features, padded to the same number of nodes M."""

    positions: FloatArray  # (p, M): rank position of each node in [0, 1]
    weights: FloatArray  # (p, M): mass of each node; each row sums to one
    sizes: IntArray  # (p,): number of real nodes
    nominal: BoolArray  # (p,): whether the nodes have no order
    missing: BoolArray  # (p,): whether the last real node stands for missing values

    @property
    def n_nodes(self) -> int:
        """Nodes per feature, padding included."""
        return int(self.positions.shape[1])

    @property
    def free(self) -> BoolArray:
        """Nodes with a logit of their own, (p, M): levels without order, and missing values."""
        nodes = np.arange(self.n_nodes)
        last = self.missing[:, None] & (nodes == self.sizes[:, None] - 1)
        return np.asarray(last | (self.nominal[:, None] & (nodes < self.sizes[:, None])))

    def of_features(self, features: IntArray) -> Marginal:
        """Measure of some of the features, padded as before."""
        return Marginal(*(array[features] for array in vars(self).values()))

    @classmethod
    def of(cls, axes: Sequence[Axis]) -> Marginal:
        """Measure of the features with the given axes."""
        stacked = cls.stack([axis.positions for axis in axes], [axis.weights for axis in axes])
        nominal = np.array([axis.is_nominal for axis in axes])
        missing = np.array([axis.has_missing for axis in axes])
        return replace(stacked, nominal=nominal, missing=missing)

    @classmethod
    def blended(cls, axes: Sequence[Axis]) -> Marginal:
        """Measure of the features, with positions that blend ranks and values."""
        positions = [axis.blended_positions for axis in axes]
        stacked = cls.stack(positions, [axis.weights for axis in axes])
        return replace(cls.of(axes), positions=stacked.positions)

    @classmethod
    def stack(cls, positions: Sequence[FloatArray], weights: Sequence[FloatArray]) -> Marginal:
        """Pad the nodes of each feature, all of them ordered, to a common length.

        >>> Marginal.stack([np.array([0.5]), np.array([0.25, 0.75])],
        ...                [np.array([1.0]), np.array([0.5, 0.5])]).weights
        array([[1. , 0. ], [0.5, 0.5]])
        """
        sizes = np.array([len(nodes) for nodes in positions])
        padded = np.full((2, len(sizes), sizes.max()), 0.0)
        for feature, size in enumerate(sizes):
            padded[0, feature, :size] = positions[feature]
            padded[0, feature, size:] = positions[feature][-1]
            padded[1, feature, :size] = weights[feature]
        no = np.zeros(len(sizes), bool)
        return cls(padded[0], padded[1], sizes, no, no)


def centre(table: FloatArray, weights: Sequence[FloatArray]) -> FloatArray:
    """Part of a table that averages to zero along each of its axes.

    Subtracting the weighted mean along one axis after the other is the orthogonal projection onto
    the functions that satisfy the sum-to-zero condition, because the measure is a product.

    >>> centre(np.array([[1.0, 2.0], [3.0, 8.0]]), [np.array([0.5, 0.5])] * 2)
    array([[ 1., -1.], [-1.,  1.]])
    """
    for axis, mass in enumerate(weights):
        mean = np.tensordot(table, mass, axes=(axis, 0))
        table = table - np.expand_dims(mean, axis)
    return table


def product_mean(values: FloatArray, weights: Sequence[FloatArray]) -> FloatArray:
    """Mean of a grid (M_1, ..., M_d, ...) under the product of the marginals, (...).

    >>> float(product_mean(np.array([[1.0, 2.0], [3.0, 8.0]]), [np.array([0.5, 0.5])] * 2))
    3.5
    """
    for mass in weights:
        values = np.tensordot(mass, values, axes=(0, 0))
    return values


def worst_mean(
    table: FloatArray, weights: Sequence[FloatArray], scale: float | None = None
) -> float:
    """Largest absolute mean of a table along any axis, relative to its standard deviation.

    ``scale`` is the largest absolute value of the whole model, by default of the table. Standard
    deviations far below it are rounding; the mean is then relative to
    SMALLEST_RELATIVE_SPREAD * scale.
    """
    largest = np.abs(table).max() if scale is None else scale
    if largest == 0:
        return 0.0
    relative = table / largest  # squares of huge values must not overflow
    spread = product_mean(relative**2, weights)
    means = [
        np.abs(np.tensordot(relative, mass, axes=(a, 0))).max() for a, mass in enumerate(weights)
    ]
    return float(max(means) / max(np.sqrt(spread), SMALLEST_RELATIVE_SPREAD))
