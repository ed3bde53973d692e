"""Purification: any sum of tables rewritten as the unique functional ANOVA decomposition.

A table T over the features S splits into parts f_U, one for each subset U of S: average out the
features outside U and centre along those inside. The parts sum to T and each averages to zero along
each of its features. A part belongs to component U, whose nodes may be finer; coarse nodes are
nodes of the finer axes, so moving a part there by linear interpolation changes no value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Component = tuple[int, ...]


class Nodes(NamedTuple):
    """Nodes of one feature at one order: values and masses, each of shape (M,)."""

    values: FloatArray
    weights: FloatArray

    @property
    def positions(self) -> FloatArray:
        """Mid-rank of each node."""
        return np.cumsum(self.weights) - self.weights / 2


def purify_tables(
    tables: Mapping[Component, FloatArray], nodes: Mapping[int, Sequence[Nodes]]
) -> tuple[FloatArray, dict[Component, FloatArray]]:
    """Intercept and pure tables with the same sum as the given ones.

    Tables may have further axes behind those of their features, such as bags; the intercept has
    those axes alone.

    Parameters
    ----------
    tables : dict from component to array of shape (M_1, ..., M_d)
        Values on the nodes of the component's order; every non-empty subset of a component that
        receives a part must be a component too.
    nodes : dict from order to the nodes of every feature
        Where the tables live.
    """
    intercept: FloatArray = np.zeros(())
    pure: dict[Component, FloatArray] = {s: np.zeros(table.shape) for s, table in tables.items()}
    for component, table in tables.items():
        axes = [nodes[len(component)][feature] for feature in component]
        for size in range(len(component) + 1):
            for kept in combinations(range(len(component)), size):
                part = _part(table, [axis.weights for axis in axes], kept)
                target = tuple(component[axis] for axis in kept)
                if not target:
                    intercept = intercept + part
                    continue
                fine = [nodes[size][feature].values for feature in target]
                pure[target] += _move(part, [axes[axis].values for axis in kept], fine)
    return intercept, pure


def _part(table: FloatArray, weights: Sequence[FloatArray], kept: Sequence[int]) -> FloatArray:
    """Average a table over the axes that are not kept and centre it along those that are."""
    for axis in reversed(range(len(weights))):
        mean = np.tensordot(table, weights[axis], axes=(axis, 0))
        table = table - np.expand_dims(mean, axis) if axis in kept else mean
    return table


def _move(part: FloatArray, coarse: Sequence[FloatArray], fine: Sequence[FloatArray]) -> FloatArray:
    """Interpolate a table from coarse to fine nodes along every axis."""
    for axis, (old, new) in enumerate(zip(coarse, fine, strict=True)):
        if len(old) == len(new):
            continue
        weights = np.array([np.interp(new, old, row) for row in np.eye(len(old))])
        part = np.moveaxis(np.tensordot(part, weights, axes=(axis, 0)), -1, axis)
    return part
