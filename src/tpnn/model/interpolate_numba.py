"""The inner loops of prediction, compiled: for tables with enough rows to be worth loading numba.

They compute what ``Axis.locate``, ``TableStack.values`` and ``Bundle.code`` compute, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tpnn._utils.arrays import BoolArray, FloatArray, Int32Array
from tpnn._utils.compile import compiled, is_kept
from tpnn.anova.components import Component
from tpnn.model.flat import FlatTable, TableStack, flatten_tables, stack_tables
from tpnn.model.locate_numba import ODD, lay_out, locate_rows
from tpnn.table.axis import Axis


@compiled()
def _add_mains(
    cells: Any, starts: Any, strides: Any, features: Any, lower: Any, fraction: Any, targets: Any,
    sums: Any,
) -> None:  # fmt: skip
    for table in range(len(starts)):
        feature = features[table, 0]
        start, nodes, along = starts[table], lower[feature], fraction[feature]
        total = sums[targets[table]]
        for i in range(len(total)):
            cell = start + nodes[i]
            value = cells[cell]
            total[i] += value + along[i] * (cells[cell + 1] - value)


@compiled()
def _add_pairs(
    cells: Any, starts: Any, strides: Any, features: Any, lower: Any, fraction: Any, targets: Any,
    sums: Any,
) -> None:  # fmt: skip
    between = np.array([along.max() > 0.0 for along in fraction])
    for table in range(len(starts)):
        start, stride = starts[table], strides[table, 0]
        a, b = features[table]
        first, second, along_first, along_second = lower[a], lower[b], fraction[a], fraction[b]
        total = sums[targets[table]]
        if between[a] and between[b]:
            for i in range(len(total)):
                cell = start + first[i] * stride + second[i]
                above, below = cells[cell], cells[cell + stride]
                above += along_second[i] * (cells[cell + 1] - above)
                below += along_second[i] * (cells[cell + stride + 1] - below)
                total[i] += above + along_first[i] * (below - above)
        elif between[a] or between[b]:  # all values of one feature are nodes
            step = stride if between[a] else 1
            along = along_first if between[a] else along_second
            for i in range(len(total)):
                cell = start + first[i] * stride + second[i]
                value = cells[cell]
                total[i] += value + along[i] * (cells[cell + step] - value)
        else:
            for i in range(len(total)):
                total[i] += cells[start + first[i] * stride + second[i]]


@compiled()
def _add_triples(
    cells: Any, starts: Any, strides: Any, features: Any, lower: Any, fraction: Any, targets: Any,
    sums: Any,
) -> None:  # fmt: skip
    for table in range(len(starts)):
        start, far, near = starts[table], strides[table, 0], strides[table, 1]
        a, b, c = features[table]
        first, second, third = lower[a], lower[b], lower[c]
        along_first, along_second, along_third = fraction[a], fraction[b], fraction[c]
        total = sums[targets[table]]
        for i in range(len(total)):
            cell, along = start + first[i] * far + second[i] * near + third[i], along_third[i]
            low_low, low_high = cells[cell], cells[cell + near]
            high_low, high_high = cells[cell + far], cells[cell + far + near]
            low_low += along * (cells[cell + 1] - low_low)
            low_high += along * (cells[cell + near + 1] - low_high)
            high_low += along * (cells[cell + far + 1] - high_low)
            high_high += along * (cells[cell + far + near + 1] - high_high)
            low = low_low + along_second[i] * (low_high - low_low)
            high = high_low + along_second[i] * (high_high - high_low)
            total[i] += low + along_first[i] * (high - low)


@compiled()
def _code(
    x: Any, starts: Any, values: Any, parts: Any, targets: Any, codes: Any, known: Any
) -> None:
    """Add to the code of each bundle what the nodes of the values x (n_features, n) contribute."""
    found = np.empty(x.shape[1], np.bool_)
    for j in range(len(x)):
        column, code = x[j], codes[targets[j]]
        found[:] = False
        for point in range(starts[j], starts[j + 1]):
            value, part, missing = values[point], parts[point], np.isnan(values[point])
            for i in range(len(column)):
                here = (column[i] == value) | (missing & np.isnan(column[i]))
                found[i] |= here
                code[i] += part * here
        for i in range(len(found)):
            known[i] &= found[i]


LOOPS = {1: _add_mains, 2: _add_pairs, 3: _add_triples}  # by order


class CompiledTables:
    """All tables of a model, laid out for the compiled loops."""

    def __init__(self, axes: Mapping[int, Sequence[Axis]], tables: Sequence[FlatTable]) -> None:
        orders = sorted({len(table.component) for table in tables})
        self.features = sorted({feature for table in tables for feature in table.component})
        self.axes = [[axes[order][feature] for order in orders] for feature in self.features]
        self.places = lay_out(self.axes)
        rows = {(o, feature): row for o in orders for row, feature in enumerate(self.features)}
        self.stacks, first = [], 0
        for order in orders:
            chosen = [table for table in tables if len(table.component) == order]
            self.stacks.append(stack_tables(chosen, first, rows))
            first += len(chosen)

    def add_rows(self, columns: Sequence[FloatArray], sums: FloatArray) -> None:
        """Add table t on the given rows to ``sums[t % k]``; sums is (k, n_rows)."""
        lower, fraction = self._located(np.stack([columns[feature] for feature in self.features]))
        total = np.ascontiguousarray(sums)  # only then the loops use vectors
        for stack, nodes, along in zip(self.stacks, lower, fraction, strict=True):
            _add_stack(stack, nodes, along, total)
        sums[:] = total

    def _located(self, x: FloatArray) -> tuple[Int32Array, FloatArray]:
        """Lower nodes and fractions, (n_orders, n_features, n_rows)."""
        shape = len(self.stacks), *x.shape
        lower, fraction = np.empty(shape, np.int32), np.empty(shape)
        locate_rows(x, self.places, lower, fraction)
        for row in np.flatnonzero(self.places.kinds == ODD):
            for place, axis in enumerate(self.axes[row]):
                lower[place, row], fraction[place, row] = axis.locate(x[row])
        return lower, fraction


def _add_stack(stack: TableStack, nodes: Int32Array, along: FloatArray, sums: FloatArray) -> None:
    """Add tables of one order, given nodes and fractions (n_features, n_rows) of that order."""
    order, n_tables = stack.places.shape
    targets = (stack.first + np.arange(n_tables)) % len(sums)
    if order in LOOPS:
        strides, rows = stack.strides[:, :, 0].T, stack.places.T
        cells, starts = stack.cells, stack.starts[:, 0]
        LOOPS[order](cells, starts, strides, rows, nodes, along, targets, sums)
        return
    places = nodes.astype(np.intp)
    for table, target in enumerate(targets):
        sums[target] += stack.values(slice(table, table + 1), places, along)[0]


class CompiledCodes:
    """Codes of bundles of features, as ``Bundle.code`` computes them.

    A bundle has, for each of its features, the values that are nodes and what each adds to the
    code.
    """

    def __init__(self, bundles: Sequence[Mapping[int, Sequence[tuple[float, int]]]]) -> None:
        self.n_bundles = len(bundles)
        self.features = [feature for bundle in bundles for feature in bundle]
        self.targets = np.repeat(np.arange(len(bundles)), [len(bundle) for bundle in bundles])
        points = [points for bundle in bundles for points in bundle.values()]
        self.starts = np.cumsum([0, *map(len, points)])
        values, parts = zip(*(point for one in points for point in one), strict=True)
        self.values, self.parts = np.array(values), np.array(parts, np.float64)

    def code(self, columns: Sequence[FloatArray]) -> tuple[FloatArray, BoolArray]:
        """Codes (n_bundles, n_rows), and the rows on which all values are nodes."""
        x = np.stack([columns[feature] for feature in self.features])
        codes, known = np.zeros((self.n_bundles, x.shape[1])), np.ones(x.shape[1], bool)
        _code(x, self.starts, self.values, self.parts, self.targets, codes, known)
        return codes, known


def are_kept() -> bool:
    """Whether all loops have been compiled by an earlier process."""
    return all(map(is_kept, (*LOOPS.values(), _code, locate_rows)))


def warm_up() -> None:
    """Load all loops, or compile those that are not kept, on a model of three features."""
    axis = Axis(np.array([0.0, 1.0]), np.array([0.5, 0.5]))
    components: list[Component] = [(0,), (0, 1), (0, 1, 2)]
    tables = {component: np.zeros((2,) * len(component) + (1,)) for component in components}
    columns = [np.zeros(1)] * 3
    axes = dict.fromkeys((1, 2, 3), (axis,) * 3)
    CompiledTables(axes, flatten_tables(tables)).add_rows(columns, np.zeros((1, 1)))
    CompiledCodes([{0: [(0.0, 0)]}]).code(columns)
