"""The inner loops of prediction, compiled: for tables long enough to be worth loading numba.

They compute what ``Axis.locate`` and ``prediction.interpolate`` compute, bit for bit. A value is
located once among the nodes of all orders. The loops run over the rows of one task, without
branches, so that the compiler can use vector instructions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray

from tpnn._typing import BoolArray, FloatArray, Int32Array
from tpnn.model.flat import FlatTable, interpolate
from tpnn.table.axis import Axis

N_BUCKETS = 1024
TINIEST_RANGE = 1e-300  # buckets of a smaller range would divide by zero
PLAIN, LEVELS, ODD = 0, 1, 2  # how a feature is located; an odd one by its axes


class Places(NamedTuple):
    """Nodes of all features at all orders, laid out for ``_locate``.

    Parameters
    ----------
    kinds : array of shape (n_features,)
        PLAIN, LEVELS or ODD.
    nodes, starts : arrays
        Nodes of all orders of one feature after the other, and where each begins; behind those of a
        feature there are infinite ones, which no search needs to stop at.
    lasts : array of shape (n_features,)
        Last finite node.
    guesses : array of shape (n_features, N_BUCKETS + 1)
        A node at or below every value of a bucket.
    halvings : array of shape (n_features,)
        Steps that remain from there.
    own, own_starts : arrays
        Node of the order below each node, or of each level; where each (order, feature) begins.
    halves, steps, axis_starts : arrays
        Half of each node and of the distance to the next one; where each (order, feature) begins.
    ends : array of shape (n_orders, n_features, 2)
        First and last node.
    missing, null : array of shape (n_orders, n_features)
        Nodes of missing values and of what fit has not seen.
    """

    kinds: Any
    nodes: Any
    starts: Any
    lasts: Any
    guesses: Any
    halvings: Any
    own: Any
    own_starts: Any
    halves: Any
    steps: Any
    axis_starts: Any
    ends: Any
    missing: Any
    null: Any


@nb.njit(nogil=True, cache=True)
def _find(
    nodes: Any, last: float, guesses: Any, halvings: int, x: Any, point: Any, found: Any
) -> bool:
    """Find the node at or below each value, by bucket and then halving; say if all are finite."""
    first = nodes[0]
    scale = (len(guesses) - 1) / (last / 2 - first / 2)
    n_odd = 0
    for i in range(len(x)):
        n_odd += not np.abs(x[i]) < np.inf
        point[i] = min(x[i], last) if x[i] > first else first
    for i in range(len(x)):
        found[i] = guesses[np.int32((point[i] / 2 - first / 2) * scale)]
    for step in range(halvings):
        half = np.int32(1 << (halvings - 1 - step))
        for i in range(len(x)):  # a product, because a condition would become a branch
            found[i] += half * np.int32(nodes[found[i] + half] <= point[i])
    return n_odd == 0


@nb.njit(nogil=True, cache=True)
def _spread(
    own: Any, halves: Any, steps: Any, ends: Any, point: Any, found: Any, lower: Any, fraction: Any
) -> None:
    """Lower node and fraction at one order, from the place among the nodes of all orders."""
    first, last = ends[0], ends[1]
    for i in range(len(point)):
        node = own[found[i]]
        inside = min(max(point[i], first), last)
        lower[i] = node
        fraction[i] = (inside / 2 - halves[node]) / steps[node]


@nb.njit(nogil=True, cache=True)
def _locate(x: Any, places: Any, lower: Any, fraction: Any) -> None:
    """Lower node and fraction of values x (n_features, n) at each order."""
    n_features, n_rows = x.shape
    point, found = np.empty(n_rows), np.empty(n_rows, np.int32)
    for j in range(n_features):
        finite = False
        if places.kinds[j] == PLAIN:
            nodes = places.nodes[places.starts[j] : places.starts[j + 1]]
            last, guesses = places.lasts[j], places.guesses[j]
            finite = _find(nodes, last, guesses, places.halvings[j], x[j], point, found)
        for o in range(len(lower)) if places.kinds[j] != ODD else range(0):
            own = places.own[places.own_starts[o, j] :]
            if places.kinds[j] == PLAIN:
                start = places.axis_starts[o, j]
                _spread(
                    own, places.halves[start:], places.steps[start:], places.ends[o, j],
                    point, found, lower[o, j], fraction[o, j],
                )  # fmt: skip
            else:
                for i in range(n_rows):
                    lower[o, j, i] = own[np.int32(x[j, i])] if np.abs(x[j, i]) < np.inf else 0
                    fraction[o, j, i] = 0.0
            for i in range(0 if finite else n_rows):
                if not np.abs(x[j, i]) < np.inf:
                    missing = np.isnan(x[j, i])
                    lower[o, j, i] = places.missing[o, j] if missing else places.null[o, j]
                    fraction[o, j, i] = 0.0


@nb.njit(nogil=True, cache=True)
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


@nb.njit(nogil=True, cache=True)
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


@nb.njit(nogil=True, cache=True)
def _code(
    x: Any, starts: Any, values: Any, parts: Any, targets: Any, codes: Any, known: Any
) -> None:
    """Add the part of the node that each value x (n_features, n) is to the code of its bundle."""
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


def _kind(axes: Sequence[Axis]) -> int:
    """How a feature with these axes is located."""
    if all(axis.groups is not None for axis in axes):
        return LEVELS
    few = min(axis.n_regular for axis in axes) < 2
    if few or any(axis.groups is not None for axis in axes):
        return ODD
    spans = (axis.values[axis.n_regular - 1] / 2 - axis.values[0] / 2 for axis in axes)
    return PLAIN if min(spans) > TINIEST_RANGE else ODD


def _buckets(nodes: FloatArray) -> tuple[Int32Array, int]:
    """Find a node at or below every value of each bucket, and the halvings that remain."""
    edges = np.linspace(nodes[0] / 2, nodes[-1] / 2, N_BUCKETS + 1)
    below = np.maximum(np.searchsorted(nodes / 2, edges, side="right") - 2, 0)
    most = int(np.diff(below).max()) + 3  # rounding may put a value into the next bucket
    return below.astype(np.int32), int(np.ceil(np.log2(most)))


def _starts(arrays: Sequence[NDArray[Any]]) -> Int32Array:
    return np.cumsum([0, *map(len, arrays)])


def _lay_out(by_feature: Sequence[Sequence[Axis]]) -> Places:
    """Places of features, each given by its axis at every order."""
    kinds = [_kind(axes) for axes in by_feature]
    nodes, buckets, own, gaps = [], [], [], []
    for kind, axes in zip(kinds, by_feature, strict=True):
        known = [axis.values[: axis.n_regular] for axis in axes]
        nodes.append(np.unique(np.concatenate(known)) if kind == PLAIN else np.zeros(1))
        plain = kind == PLAIN
        buckets.append(_buckets(nodes[-1]) if plain else (np.zeros(N_BUCKETS + 1, np.int32), 0))
        for axis, values in zip(axes, known, strict=True):
            below = np.searchsorted(values, nodes[-1], side="right") - 1
            own.append(np.maximum(below, 0) if axis.groups is None else axis.groups)
            step = np.append(np.diff(axis.values / 2), 0.0)
            gaps.append(np.where(step > 0, step, np.inf))
    n_orders = len(by_feature[0])
    padded = [
        np.append(all_nodes, np.full(1 << halvings, np.inf))
        for all_nodes, (_, halvings) in zip(nodes, buckets, strict=True)
    ]

    def by_order(values: Any) -> NDArray[Any]:
        """Reshape (n_features * n_orders, ...) to (n_orders, n_features, ...)."""
        array = np.array(values)
        return np.ascontiguousarray(array.reshape(-1, n_orders, *array.shape[1:]).swapaxes(0, 1))

    flat = [axis for axes in by_feature for axis in axes]
    return Places(
        kinds=np.array(kinds),
        nodes=np.concatenate(padded),
        starts=_starts(padded),
        lasts=np.array([all_nodes[-1] for all_nodes in nodes]),
        guesses=np.stack([guesses for guesses, _ in buckets]),
        halvings=np.array([halvings for _, halvings in buckets]),
        own=np.concatenate(own).astype(np.int32),
        own_starts=by_order(_starts(own)[:-1]),
        halves=np.concatenate([axis.values / 2 for axis in flat]),
        steps=np.concatenate(gaps),
        axis_starts=by_order(_starts(gaps)[:-1]),
        ends=by_order([(axis.values[0], axis.values[axis.n_regular - 1]) for axis in flat]),
        missing=by_order([axis.missing_node for axis in flat]).astype(np.int32),
        null=by_order([axis.n_nodes for axis in flat]).astype(np.int32),
    )


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
        self.places = _lay_out(self.axes)
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
        starts = _starts([table.cells for table in tables])[:-1]
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
        _locate(x, self.places, lower, fraction)
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
        Values that are nodes, with their parts of the code, by bundle and feature.
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
