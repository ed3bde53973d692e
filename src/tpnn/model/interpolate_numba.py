"""The inner loops of prediction, compiled: for tables with enough rows to be worth loading numba.

They compute what ``Axis.locate``, ``flat.interpolate`` and ``Bundle.code`` compute, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tpnn._compile import compiled
from tpnn._typing import BoolArray, FloatArray, Int32Array
from tpnn.model.flat import FlatTable, interpolate
from tpnn.model.locate_numba import ODD, lay_out, locate_rows, starts_of
from tpnn.table.axis import Axis


@compiled()
def _add_mains(
    cells: Any, starts: Any, features: Any, lower: Any, fraction: Any, targets: Any, sums: Any
) -> None:
    for table in range(len(starts)):
        start, nodes, along = starts[table], lower[features[table]], fraction[features[table]]
        total = sums[targets[table]]
        for i in range(len(total)):
            cell = start + nodes[i]
            value = cells[cell]
            total[i] += value + along[i] * (cells[cell + 1] - value)


@compiled()
def _add_pairs(
    cells: Any, starts: Any, down: Any, features: Any, lower: Any, fraction: Any, targets: Any,
    sums: Any,
) -> None:  # fmt: skip
    between = np.array([along.max() > 0.0 for along in fraction])
    for table in range(len(starts)):
        start, stride = starts[table], down[table]
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


class CompiledTables:
    """All tables of a model, laid out for the compiled loops.

    Parameters
    ----------
    axes : dict of int to sequence of Axis
        For each order, the axis of every feature.
    tables : list of FlatTable
        What is interpolated.
    """

    def __init__(self, axes: Mapping[int, Sequence[Axis]], tables: Sequence[FlatTable]) -> None:
        orders = sorted({len(table.component) for table in tables})
        self.order_place = {order: place for place, order in enumerate(orders)}
        self.features = sorted({feature for table in tables for feature in table.component})
        self.row = {feature: row for row, feature in enumerate(self.features)}
        self.axes = [[axes[order][feature] for order in orders] for feature in self.features]
        self.places = lay_out(self.axes)
        self.tables = tables
        self.packed = {
            order: self._pack([i for i, t in enumerate(tables) if len(t.component) == order])
            for order in orders
            if order <= 2
        }
        self.higher = [(i, table) for i, table in enumerate(tables) if len(table.component) > 2]

    def _pack(self, chosen: list[int]) -> tuple[Any, ...]:
        """Numbers, cells, starts, strides and features of some tables."""
        tables = [self.tables[i] for i in chosen]
        starts = starts_of([table.cells for table in tables])[:-1]
        features = [[self.row[feature] for feature in table.component] for table in tables]
        down = np.array([table.strides[0] for table in tables])
        cells = np.concatenate([table.cells for table in tables])
        return np.array(chosen), cells, starts, down, np.array(features)

    def add_rows(
        self, columns: Sequence[FloatArray], targets: Sequence[int], sums: FloatArray
    ) -> None:
        """Add table t on the given rows to ``sums[targets[t]]``."""
        lower, fraction = self._located(np.stack([columns[feature] for feature in self.features]))
        total = np.ascontiguousarray(sums)  # only then the loops use vectors
        self._add(lower, fraction, np.asarray(targets), total)
        sums[:] = total

    def _located(self, x: FloatArray) -> tuple[Int32Array, FloatArray]:
        """Lower nodes and fractions, (n_orders, n_features, n_rows)."""
        shape = len(self.order_place), *x.shape
        lower, fraction = np.empty(shape, np.int32), np.empty(shape)
        locate_rows(x, self.places, lower, fraction)
        for row in np.flatnonzero(self.places.kinds == ODD):
            for place, axis in enumerate(self.axes[row]):
                lower[place, row], fraction[place, row] = axis.locate(x[row])
        return lower, fraction

    def _add(
        self, lower: Int32Array, fraction: FloatArray, into: Int32Array, sums: FloatArray
    ) -> None:
        for order, (chosen, cells, starts, down, features) in self.packed.items():
            place = self.order_place[order]
            found = lower[place], fraction[place], into[chosen], sums
            if order == 1:
                _add_mains(cells, starts, features[:, 0], *found)
            else:
                _add_pairs(cells, starts, down, features, *found)
        for number, table in self.higher:
            place = self.order_place[len(table.component)]
            rows = [self.row[feature] for feature in table.component]
            nodes = [lower[place, row].astype(np.intp) for row in rows]
            sums[into[number]] += interpolate(table, nodes, [fraction[place, row] for row in rows])


class CompiledCodes:
    """Codes of bundles of features, as ``Bundle.code`` finds them.

    Parameters
    ----------
    bundles : sequence of dict from feature to points
        For each feature of each bundle, the values that are nodes and what each adds to the code.
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
