"""Where the data meets the tables: gather-sum and its adjoint, the histogram.

With cell(i, S) the cell of component S that row i falls into,

    gather:     raw[i, b] = sum_S table_S[cell(i, S), b]
    histogram:  grad_S[m, b] = sum of gradient[i, b] over the rows with cell(i, S) = m

These two are the only work that grows with the number of rows. Bags are the last axis of every
array, so that one pass over the codes serves all of them. Rows of the gather and components of the
histogram are independent, hence the result is the same whatever the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np

from tpnn._typing import CodeArray, Float32Array, IntArray

BLOCK = 1024  # rows whose cells are computed at a time; their numbers stay in the L1 cache


@nb.njit(nogil=True, cache=True)
def _fill_cells(codes: Any, features: Any, n_nodes: int, start: int, stop: int, cells: Any) -> None:
    first = codes[features[0]]
    for i in range(start, stop):
        cells[i - start] = first[i]
    for axis in range(1, len(features)):
        column = codes[features[axis]]
        for i in range(start, stop):
            cells[i - start] = cells[i - start] * n_nodes + column[i]


@nb.njit(nogil=True, cache=True)
def _gather(
    codes: Any, features: Any, n_nodes: int, tables: Any, start: int, stop: int, raw: Any
) -> None:
    n_bags = tables.shape[2]
    cells = np.empty(BLOCK, np.int64)
    for low in range(start, stop, BLOCK):
        high = min(low + BLOCK, stop)
        for component in range(len(features)):
            _fill_cells(codes, features[component], n_nodes, low, high, cells)
            table = tables[component]
            if n_bags == 1:
                for i in range(low, high):
                    raw[i - start, 0] += table[cells[i - low], 0]
            else:
                for i in range(low, high):
                    cell = cells[i - low]
                    for bag in range(n_bags):
                        raw[i - start, bag] += table[cell, bag]


@nb.njit(nogil=True, cache=True)
def _histogram(codes: Any, features: Any, n_nodes: int, gradient: Any, sums: Any) -> None:
    n_rows, n_bags = gradient.shape
    cells = np.empty(BLOCK, np.int64)
    for component in range(len(features)):
        table = sums[component]
        for low in range(0, n_rows, BLOCK):
            high = min(low + BLOCK, n_rows)
            _fill_cells(codes, features[component], n_nodes, low, high, cells)
            if n_bags == 1:
                for i in range(low, high):
                    table[cells[i - low], 0] += gradient[i, 0]
            else:
                for i in range(low, high):
                    cell = cells[i - low]
                    for bag in range(n_bags):
                        table[cell, bag] += gradient[i, bag]


@dataclass(frozen=True)
class CodedComponents:
    """Components of one order over coded rows.

    Tables have shape (n_components, n_cells, n_bags), cells in row-major order.

    Parameters
    ----------
    codes : array of shape (n_features, n_rows), uint8 or uint16
        Node of every value at this order's resolution.
    features : array of shape (n_components, order)
        The features of each component.
    n_nodes : int
        Nodes per axis, padding included.
    """

    codes: CodeArray
    features: IntArray
    n_nodes: int

    @property
    def shape(self) -> tuple[int, int]:
        """Number of components, and of cells of each."""
        n_components, order = self.features.shape
        return n_components, self.n_nodes**order

    def gather(self, tables: Float32Array, start: int, raw: Float32Array) -> None:
        """Add the components' values on the rows from ``start`` on to ``raw`` (n, n_bags)."""
        stop = start + len(raw)
        _gather(self.codes, self.features, self.n_nodes, tables, start, stop, raw)

    def histogram(self, gradient: Float32Array, first: int, last: int) -> Float32Array:
        """Sum ``gradient`` (n_rows, n_bags) over the rows in each cell of some components."""
        sums = np.zeros((last - first, self.shape[1], gradient.shape[1]), np.float32)
        _histogram(self.codes, self.features[first:last], self.n_nodes, gradient, sums)
        return sums
