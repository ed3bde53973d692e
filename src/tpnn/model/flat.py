"""Flat tables: the cells of a component in a row, and interpolation between them.

Every table gets one more node per axis, the *null node*, where it is zero: a level or a missing
value that fit has not seen falls there and contributes nothing.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tpnn._typing import FloatArray, IntArray
from tpnn.anova.components import Component


@dataclass(frozen=True)
class FlatTable:
    """One output of one component, null nodes included.

    Parameters
    ----------
    component : tuple of int
        Its features.
    cells : array of shape (n_cells,)
        Values in row-major order, with zeros behind so that a neighbour can always be read.
    strides : tuple of int
        Cells from one node to the next along each axis.
    """

    component: Component
    cells: FloatArray
    strides: tuple[int, ...]


def flatten_table(component: Component, table: FloatArray) -> FlatTable:
    """Append the null nodes and lay the cells out in a row."""
    padded = np.pad(table, [(0, 1)] * table.ndim)
    strides = tuple(math.prod(padded.shape[axis + 1 :]) for axis in range(table.ndim))
    return FlatTable(component, np.append(padded.ravel(), np.zeros(sum(strides))), strides)


def flatten_tables(tables: Mapping[Component, FloatArray]) -> list[FlatTable]:
    """Flatten tables of shape (..., n_outputs), the outputs of a component one after the other."""
    return [
        flatten_table(component, np.ascontiguousarray(table[..., output]))
        for component, table in tables.items()
        for output in range(table.shape[-1])
    ]


def interpolate(
    table: FlatTable, nodes: Sequence[IntArray], fractions: Sequence[FloatArray]
) -> FloatArray:
    """Multilinear interpolation in a table of any number of axes."""

    def along(base: IntArray, axis: int) -> FloatArray:
        """Along one axis, between two interpolations along the rest."""
        if axis == len(table.strides):
            return table.cells.take(base)
        lower, upper = along(base, axis + 1), along(base + table.strides[axis], axis + 1)
        return lower + fractions[axis] * (upper - lower)

    return along(sum(map(operator.mul, nodes, table.strides)), 0)
