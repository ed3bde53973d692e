"""Purification: any sum of tables rewritten as the unique functional ANOVA decomposition.

A table T over the features S splits into parts f_U, one for each subset U of S: average out the
features outside U and centre along those inside. The parts sum to T and each averages to zero along
each of its features. The part f_U is added to component U, whose nodes may be finer; coarse nodes
are among the fine ones, so moving a part there by linear interpolation changes no value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import Component
from tpnn.table.axis import Axis


def purify_tables(
    tables: Mapping[Component, FloatArray], axes: Mapping[int, Sequence[Axis]]
) -> tuple[FloatArray, dict[Component, FloatArray]]:
    """Intercept and pure tables with the same sum as ``tables``.

    A table (M_1, ..., M_d, ...) has the values on the nodes of its component's order, and may have
    further axes behind them, such as bags; the intercept has these axes alone. Every non-empty
    subset of a component must be a component too. The nodes of an order are nodes of every lower
    order.
    """
    intercept: FloatArray = np.zeros(())
    pure: dict[Component, FloatArray] = {s: np.zeros(table.shape) for s, table in tables.items()}
    for component, table in tables.items():
        if not table.any():  # nothing to move
            intercept = intercept + np.zeros(table.shape[len(component) :])
            continue
        coarse = [axes[len(component)][feature] for feature in component]
        for size in range(len(component) + 1):
            for kept in combinations(range(len(component)), size):
                part = part_of(table, [axis.weights for axis in coarse], kept)
                target = tuple(component[axis] for axis in kept)
                if not target:
                    intercept = intercept + part
                    continue
                finer = [axes[size][feature] for feature in target]
                pure[target] += moved(part, [coarse[axis] for axis in kept], finer)
    return intercept, pure


def part_of(table: FloatArray, weights: Sequence[FloatArray], kept: Sequence[int]) -> FloatArray:
    """Average a table over the axes that are not kept and centre it along those that are."""
    for axis in reversed(range(len(weights))):
        mean = np.tensordot(table, weights[axis], axes=(axis, 0))
        table = table - np.expand_dims(mean, axis) if axis in kept else mean
    return table


def moved(part: FloatArray, coarse: Sequence[Axis], fine: Sequence[Axis]) -> FloatArray:
    """Interpolate a table from coarse to fine nodes along every axis; others may follow."""
    for axis, (old, new) in enumerate(zip(coarse, fine, strict=True)):
        if old is new or _has_same_nodes(old, new):
            continue
        lower, fraction = old.locate(new.numbers)
        fraction = fraction.reshape(-1, *[1] * (part.ndim - axis - 1))
        left = part.take(lower, axis)
        right = part.take(np.minimum(lower + 1, old.n_nodes - 1), axis)
        part = left + fraction * (right - left)
    return part


def _has_same_nodes(one: Axis, two: Axis) -> bool:
    """Whether two axes of a feature have the same nodes in the same order."""
    if one.n_nodes != two.n_nodes:
        return False
    return one.groups is None or two.groups is None or np.array_equal(one.groups, two.groups)
