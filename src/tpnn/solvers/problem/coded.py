"""Where rows meet grids of values: the gather and its adjoint, the histogram.

With cell(i, S) the cell of component S that row i falls into,

    gather:     raw[i, b] = sum_S grid_S[cell(i, S), b]
    histogram:  grad_S[m, b] = sum of gradient[i, b] over the rows with cell(i, S) = m

Only these two take time in proportion to the number of rows. A lane b is one output of one bag.
Lanes are the last axis of every array, so that one pass over the codes serves all of them. The
gather treats rows independently and the histogram treats components independently, so the result
does not depend on the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import CodeArray, Float32Array, FloatArray, Int32Array, IntArray, RealArray
from tpnn._utils.compile import compiled
from tpnn._utils.shelf import Shelf
from tpnn._utils.threads import split
from tpnn.anova.components import Component
from tpnn.table.codes import code_rows
from tpnn.table.encoder import TableEncoder
from tpnn.table.table import Table

ROWS_PER_BLOCK = 1024  # cells of one block of rows stay in the L1 cache
ROWS_PER_SINGLE_SUM = 1 << 20  # added in single precision


@compiled()
def _fill_cells(codes: Any, features: Any, n_nodes: int, start: int, stop: int, cells: Any) -> None:
    first = codes[features[0]]
    for i in range(start, stop):
        cells[i - start] = first[i]
    for axis in range(1, len(features)):
        column = codes[features[axis]]
        for i in range(start, stop):
            cells[i - start] = cells[i - start] * n_nodes + column[i]


@compiled()
def _gather_one_lane(
    codes: Any, features: Any, n_nodes: int, tables: Any, start: int, stop: int, raw: Any
) -> None:
    """``_gather`` of a single lane in plain loops; grids are (C, cells) and raw is (n,)."""
    for component in range(len(features)):
        table, first = tables[component], codes[features[component, 0], start:stop]
        if features.shape[1] == 1:
            for i in range(len(raw)):
                raw[i] += table[first[i]]
        elif features.shape[1] == 2:
            second = codes[features[component, 1], start:stop]
            for i in range(len(raw)):
                raw[i] += table[np.intp(first[i]) * n_nodes + second[i]]
        else:
            cells = np.empty(ROWS_PER_BLOCK, np.int64)
            for low in range(start, stop, ROWS_PER_BLOCK):
                high = min(low + ROWS_PER_BLOCK, stop)
                _fill_cells(codes, features[component], n_nodes, low, high, cells)
                for i in range(low, high):
                    raw[i - start] += table[cells[i - low]]


@compiled()
def _gather(
    codes: Any, features: Any, n_nodes: int, tables: Any, start: int, stop: int, raw: Any
) -> None:
    cells = np.empty(ROWS_PER_BLOCK, np.int64)
    for component in range(len(features)):
        table = tables[component]  # of all lanes; it is read from memory once
        for low in range(start, stop, ROWS_PER_BLOCK):
            high = min(low + ROWS_PER_BLOCK, stop)
            _fill_cells(codes, features[component], n_nodes, low, high, cells)
            for i in range(low, high):
                cell = cells[i - low]
                for lane in range(tables.shape[2]):
                    raw[i - start, lane] += table[cell, lane]


@compiled()
def _histogram(
    codes: Any, features: Any, n_nodes: int, gradient: Any, start: int, stop: int, sums: Any
) -> None:
    n_lanes = gradient.shape[1]
    cells = np.empty(ROWS_PER_BLOCK, np.int64)
    for component in range(len(features)):
        table = sums[component]
        for low in range(start, stop, ROWS_PER_BLOCK):
            high = min(low + ROWS_PER_BLOCK, stop)
            _fill_cells(codes, features[component], n_nodes, low, high, cells)
            if n_lanes == 1:
                for i in range(low, high):
                    table[cells[i - low], 0] += gradient[i, 0]
            else:
                for i in range(low, high):
                    cell = cells[i - low]
                    for bag in range(n_lanes):
                        table[cell, bag] += gradient[i, bag]


@compiled(inline="always")
def _find_cells(columns: Any, sizes: Any, low: int, high: int, step: int, cells: Any) -> None:
    """Set the cells of the rows low * step, (low + 1) * step, ..., in row-major order."""
    cells[: high - low] = 0
    for axis in range(len(columns)):
        column = columns[axis]
        for i in range(low, high):
            cells[i - low] = cells[i - low] * sizes[axis] + column[i * step]


@compiled()
def _add_values(columns: Any, sizes: Any, step: int, table: Any, start: int, values: Any) -> None:
    """Add the value of a flat grid to rows from ``start`` on."""
    cells, stop = np.empty(ROWS_PER_BLOCK, np.int64), start + len(values)
    for low in range(start, stop, ROWS_PER_BLOCK):
        high = min(low + ROWS_PER_BLOCK, stop)
        _find_cells(columns, sizes, low, high, step, cells)
        for i in range(low, high):
            values[i - start] += table[cells[i - low]]


@compiled()
def _add_sums(columns: Any, sizes: Any, step: int, values: Any, sums: Any) -> None:
    """Add the value of every row to its cell of a grid, flat."""
    cells = np.empty(ROWS_PER_BLOCK, np.int64)
    for low in range(0, len(values), ROWS_PER_BLOCK):
        high = min(low + ROWS_PER_BLOCK, len(values))
        _find_cells(columns, sizes, low, high, step, cells)
        for i in range(low, high):
            sums[cells[i - low]] += values[i]


@compiled()
def _add_shares(
    columns: Any, sizes: Any, tables: Any, bag: int, rows: Any, shares: Any, values: Any
) -> None:
    """Add the value of a bag's grid, of (cells, n_bags, K), times a share, to some of the rows."""
    for place in range(len(rows)):
        row, cell = rows[place], 0
        for axis in range(len(columns)):
            cell = cell * sizes[axis] + columns[axis][row]
        for output in range(values.shape[1]):
            values[row, output] += shares[place] * tables[cell, bag, output]


@dataclass(frozen=True)
class CodedComponents:
    """Components of one order over coded rows.

    Grids of values have shape (n_components, n_cells, n_lanes), with cells in row-major order.
    """

    codes: CodeArray  # (n_features, n_rows), at the resolution of this order
    features: IntArray  # (n_components, order)
    n_nodes: int  # per axis, padding included

    @property
    def shape(self) -> tuple[int, int]:
        """Number of components, and number of cells of each."""
        n_components, order = self.features.shape
        return n_components, self.n_nodes**order

    def gather(self, tables: Float32Array, start: int, raw: RealArray) -> None:
        """Add the values of all components to ``raw`` (n, n_lanes), for n rows from ``start``."""
        stop = start + len(raw)
        where = self.codes, self.features, self.n_nodes
        if tables.shape[2] == 1:
            _gather_one_lane(*where, tables.reshape(self.shape), start, stop, raw.reshape(-1))
        else:
            _gather(*where, tables, start, stop, raw)

    def histogram(self, gradient: Float32Array, first: int, last: int) -> Float32Array:
        """Sum ``gradient`` (n_rows, n_lanes) over the rows in each cell of some components.

        A sum in single precision no longer sees small values from 2^24 on, so sums of more rows
        than a block holds are added in double precision.
        """
        where = self.codes, self.features[first:last], self.n_nodes
        shape = last - first, self.shape[1], gradient.shape[1]
        blocks = split(len(gradient), ROWS_PER_SINGLE_SUM)
        total: RealArray = np.zeros(shape, np.float32 if len(blocks) == 1 else np.float64)
        for start, stop in blocks:
            sums = total if len(blocks) == 1 else np.zeros(shape, np.float32)
            _histogram(*where, gradient, start, stop, sums)
            if sums is not total:
                total += sums
        return total.astype(np.float32, copy=False)

    def whole_histogram(self, numbers: Int32Array, first: int, last: int) -> NDArray[np.int64]:
        """Sum whole numbers (n_rows, n_lanes) over the rows in each cell of some components."""
        sums = np.zeros((last - first, self.shape[1], numbers.shape[1]), np.int64)
        where = self.codes, self.features[first:last], self.n_nodes
        _histogram(*where, numbers, 0, len(numbers), sums)
        return sums


class Codes:
    """Nodes of all features on the training rows, coded once for each order."""

    def __init__(
        self,
        table: Table,
        encoder: TableEncoder,
        rows: IntArray,  # (n,), rows of the table to code
        n_threads: int | None = None,  # None for the number of cores that this process may use
    ) -> None:
        self.table, self.encoder, self.rows, self.n_threads = table, encoder, rows, n_threads

    def with_encoder(self, encoder: TableEncoder) -> Codes:
        """Codes of the same rows on other nodes."""
        return Codes(self.table, encoder, self.rows, self.n_threads)

    def take(self, some: IntArray) -> Codes:
        """Codes of some of the rows, on the same nodes."""
        taken = Codes(self.table, self.encoder, self.rows[some], self.n_threads)
        taken.by_order = {order: codes[:, some] for order, codes in self.by_order.items()}
        return taken

    @property
    def shelf(self) -> Shelf:
        """Where large arrays over these rows are kept."""
        return self.table.shelf

    @cached_property
    def by_order(self) -> dict[int, CodeArray]:
        """Codes (n_features, n) at the resolution of each order."""
        return code_rows(self.table, self.encoder, self.rows, self.n_threads)

    def coded(self, components: list[Component]) -> CodedComponents:
        """Components of one order over the rows."""
        order = len(components[0])
        n_nodes = max(axis.n_nodes for axis in self.encoder.axes[order])
        return CodedComponents(self.by_order[order], np.array(components), n_nodes)

    def cells(self, component: Component, rows: Any = slice(None)) -> tuple[CodeArray, ...]:
        """Node of each feature of a component on some rows."""
        codes = self.by_order[len(component)]
        return tuple(codes[feature][rows] for feature in component)

    def add_values(
        self, component: Component, table: FloatArray, start: int, step: int, values: FloatArray
    ) -> None:
        """Add the values of a component's grid (M_1, ..., M_d) to ``values`` (n,).

        They belong to the rows start * step, (start + 1) * step, and so on.
        """
        _add_values(*self._columns(component, table.shape), step, table.reshape(-1), start, values)

    def sums(
        self, component: Component, shape: tuple[int, ...], step: int, values: FloatArray
    ) -> FloatArray:
        """Sum a value of every ``step``-th row (n,) over the cells of a component's grid."""
        sums = np.zeros(shape)
        _add_sums(*self._columns(component, shape), step, values, sums.reshape(-1))
        return sums

    def add_shares(
        self,
        component: Component,
        tables: FloatArray,
        bag: int,
        rows: IntArray,
        shares: FloatArray,
        values: FloatArray,
    ) -> None:
        """Add a bag's grid, of (M_1, ..., M_d, n_bags, K), to some rows of ``values`` (n, K).

        ``shares`` has one factor for each of these ``rows``.
        """
        flat = np.ascontiguousarray(tables).reshape(-1, *tables.shape[-2:])
        where = self._columns(component, tables.shape[:-2])
        _add_shares(*where, flat, bag, rows, shares, values)

    def _columns(
        self, component: Component, shape: tuple[int, ...]
    ) -> tuple[tuple[CodeArray, ...], tuple[int, ...]]:
        codes = self.by_order[len(component)]
        return tuple(codes[feature] for feature in component), shape

    def values(
        self, component: Component, table: FloatArray, rows: Any = slice(None), lanes: Any = None
    ) -> FloatArray:
        """Values of a component's grid (M_1, ..., M_d, n_lanes) on some rows, (n, n_lanes).

        ``lanes`` (n, K) selects lanes for each row; the result is then (n, K).
        """
        cells = self.cells(component, rows)
        if lanes is not None:
            cells = (*(nodes[:, None] for nodes in cells), lanes)
        values: FloatArray = table[cells]
        return values
