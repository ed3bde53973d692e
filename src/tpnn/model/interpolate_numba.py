"""The inner loops of prediction, compiled: for tables with enough rows to be worth loading numba.

They compute what ``Axis.locate``, ``TableStack.values`` and ``Bundle.code`` compute, bit for bit.

A value is located once among the nodes of all orders together. The loops run over the rows of one
task and have no branches, so that the compiler can use vector instructions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import BoolArray, FloatArray, Int32Array
from tpnn._utils.compile import compiled, is_kept
from tpnn.anova.components import Component
from tpnn.model.flat import FlatTable, TableStack, flatten_tables, stack_tables
from tpnn.table.axis import Axis

N_BUCKETS = 1024
SMALLEST_RANGE = 1e-300  # buckets of a smaller range would divide by zero
PLAIN, LEVELS, ODD = 0, 1, 2  # how a feature is located; an odd one is left to its axes


class Places(NamedTuple):
    """Nodes of all features at all orders, laid out for ``locate_rows``."""

    kinds: Any  # (n_features,): PLAIN, LEVELS or ODD
    # Nodes of one feature after the other, the nodes of all its orders together. Infinite
    # nodes follow them, so that no search needs to stop at the end.
    nodes: Any
    starts: Any  # where each feature begins in ``nodes``
    lasts: Any  # (n_features,): last finite node
    guesses: Any  # (n_features, N_BUCKETS + 1): a node at or below every value of a bucket
    halvings: Any  # (n_features,): how often to halve the interval above a guess
    # for each of ``nodes`` the node of one order at or below it, or the node of each level
    own: Any
    own_starts: Any  # where each (order, feature) begins in ``own``
    halves: Any  # half of each node
    steps: Any  # half of the distance to the next node
    axis_starts: Any  # where each (order, feature) begins in both
    ends: Any  # (n_orders, n_features, 2): first and last node
    missing: Any  # (n_orders, n_features): node of missing values
    unseen: Any  # the same for levels that fit has not seen


@compiled()
def _find(
    nodes: Any, last: float, guesses: Any, halvings: int, x: Any, point: Any, found: Any
) -> bool:
    """Find the node at or below each value, by bucket, then by halving; tell if all are finite."""
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


@compiled()
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


@compiled()
def locate_rows(x: Any, places: Any, lower: Any, fraction: Any) -> None:
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
                    lower[o, j, i] = places.missing[o, j] if missing else places.unseen[o, j]
                    fraction[o, j, i] = 0.0


def _kind(axes: Sequence[Axis]) -> int:
    """How a feature with these axes is located."""
    if all(axis.groups is not None for axis in axes):
        return LEVELS
    few = min(len(axis.values) for axis in axes) < 2
    if few or any(axis.groups is not None for axis in axes):
        return ODD
    spans = (axis.values[-1] / 2 - axis.values[0] / 2 for axis in axes)
    return PLAIN if min(spans) > SMALLEST_RANGE else ODD


def _buckets(nodes: FloatArray) -> tuple[Int32Array, int]:
    """Find a node at or below every value of each bucket, and the halvings that remain.

    Buckets are computed as in ``_find``. Rounding keeps their order, so the largest value below
    node i + 1 tells the last bucket that has values from node i on, however unequal the gaps are.
    """
    scale = N_BUCKETS / (nodes[-1] / 2 - nodes[0] / 2)

    def bucket_of(values: FloatArray) -> Int32Array:
        return np.asarray(((values / 2 - nodes[0] / 2) * scale).astype(np.int32))

    last_buckets = bucket_of(np.nextafter(nodes[1:], -np.inf))
    guesses = np.searchsorted(last_buckets, np.arange(N_BUCKETS + 1), side="left")
    farthest = int((np.arange(len(nodes)) - guesses[bucket_of(nodes)]).max())
    return guesses.astype(np.int32), farthest.bit_length()


def starts_of(arrays: Sequence[NDArray[Any]]) -> Int32Array:
    """Where each array begins when all stand one after the other, and where the last ends."""
    return np.cumsum([0, *map(len, arrays)])


def lay_out(by_feature: Sequence[Sequence[Axis]]) -> Places:
    """Places of features, each given by its axis at every order."""
    kinds = [_kind(axes) for axes in by_feature]
    nodes, buckets, own, gaps = [], [], [], []
    for kind, axes in zip(kinds, by_feature, strict=True):
        known = [axis.values for axis in axes]
        nodes.append(np.unique(np.concatenate(known)) if kind == PLAIN else np.zeros(1))
        plain = kind == PLAIN
        buckets.append(_buckets(nodes[-1]) if plain else (np.zeros(N_BUCKETS + 1, np.int32), 0))
        for axis, values in zip(axes, known, strict=True):
            below = np.searchsorted(values, nodes[-1], side="right") - 1
            own.append(np.maximum(below, 0) if axis.groups is None else axis.groups)
            step = np.diff(axis.values / 2, append=np.inf)
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
        starts=starts_of(padded),
        lasts=np.array([all_nodes[-1] for all_nodes in nodes]),
        guesses=np.stack([guesses for guesses, _ in buckets]),
        halvings=np.array([halvings for _, halvings in buckets]),
        own=np.concatenate(own).astype(np.int32),
        own_starts=by_order(starts_of(own)[:-1]),
        halves=np.concatenate([axis.values / 2 for axis in flat]),
        steps=np.concatenate(gaps),
        axis_starts=by_order(starts_of(gaps)[:-1]),
        ends=by_order([axis.outer_nodes for axis in flat]),
        missing=by_order([axis.missing_node for axis in flat]).astype(np.int32),
        unseen=by_order([axis.unseen_node for axis in flat]).astype(np.int32),
    )


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
