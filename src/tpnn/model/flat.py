"""Flat tables: the cells of a component in a row, and interpolation between them, in NumPy.

Every table gets one more node per axis, the *null node*, where it is zero: a level or a missing
value that fit has not seen falls there and contributes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.anova.components import Component

Number = TypeVar("Number", np.intp, np.float64)


@dataclass(frozen=True)
class FlatTable:
    """One output of one component, null nodes included."""

    component: Component
    cells: FloatArray  # (n_cells,): values in row-major order, and zeros for neighbours of the last
    strides: tuple[int, ...]  # cells from one node to the next along each axis


def flatten_table(component: Component, table: FloatArray) -> list[FlatTable]:
    """Append the null nodes to a table (..., n_outputs); lay the cells of each output in a row."""
    *sizes, n_outputs = table.shape
    shape = tuple(size + 1 for size in sizes)
    strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    cells = np.zeros((n_outputs, math.prod(shape) + sum(strides)))
    grids = cells[:, : math.prod(shape)].reshape(n_outputs, *shape)
    grids[:, *map(slice, sizes)] = np.moveaxis(table, -1, 0)
    return [FlatTable(component, output, strides) for output in cells]


def flatten_tables(tables: Mapping[Component, FloatArray]) -> list[FlatTable]:
    """Flatten tables of shape (..., n_outputs), the outputs of a component one after the other."""
    return [flat for component, table in tables.items() for flat in flatten_table(component, table)]


@dataclass(frozen=True)
class TableStack:
    """Tables of one order, one after the other, so that one call interpolates in many of them."""

    first: int  # number of the first table among all tables of a predictor
    cells: FloatArray  # (n_cells,): cells of all tables
    starts: IntArray  # (n_tables, 1): where each table begins
    strides: IntArray  # (order, n_tables, 1): cells from one node to the next along each axis
    places: IntArray  # (order, n_tables): row of ``nodes`` and ``fractions`` of each axis

    def values(self, tables: slice, nodes: IntArray, fractions: FloatArray) -> FloatArray:
        """Multilinear interpolation in some of the tables, (n_tables, n_rows).

        ``nodes`` and ``fractions`` (n_axes, n_rows) say where each row lies along every axis.
        """
        strides, places = self.strides[:, tables], self.places[:, tables]
        along = [_picked(fractions, place) for place in places]
        base = _picked(nodes, places[-1]) + self.starts[tables]  # the last stride is 1
        for place, stride in zip(places[:-1], strides[:-1], strict=True):
            base += _picked(nodes, place) * stride

        def between(base: IntArray, axis: int) -> FloatArray:
            """Along one axis, between two interpolations along the rest: low + t (high - low)."""
            if axis == len(strides):
                return self.cells.take(base)
            low, high = between(base, axis + 1), between(base + strides[axis], axis + 1)
            high -= low
            high *= along[axis]
            high += low
            return high

        return between(base, 0)


def _picked(rows: NDArray[Number], places: IntArray) -> NDArray[Number]:
    """Rows at some places; a single one, which may be long, is not copied."""
    return rows[places[0] : places[0] + 1] if len(places) == 1 else rows[places]


def stack_tables(
    tables: Sequence[FlatTable], first: int, places: Mapping[tuple[int, int], int]
) -> TableStack:
    """Stack tables of one order; ``places`` has the row of each (order, feature)."""
    order = len(tables[0].component)
    starts = np.cumsum([0, *(len(table.cells) for table in tables[:-1])])
    return TableStack(
        first=first,
        cells=np.concatenate([table.cells for table in tables]),
        starts=starts[:, None],
        strides=np.array([table.strides for table in tables]).T[:, :, None],
        places=np.array([[places[order, j] for j in table.component] for table in tables]).T,
    )


def squeezed(values: FloatArray) -> FloatArray:
    """Values (..., n_outputs) without the last axis where there is one output only."""
    return values[..., 0] if values.shape[-1] == 1 else values
