"""Bundles: features with few values, coded together so that their components are summed in advance.

Components whose features all lie in bundles A and B add up to one table over the codes of the two:

    sum of f_S(x_S) over these S  =  table[code_A(x), code_B(x)].

39 features of two values each have 780 components up to order 2, but 8 bundles with 36 tables. A
row with a value that is not a node of a bundled feature is interpolated in the tables of the
components themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import BoolArray, FloatArray
from tpnn.anova.components import Component
from tpnn.model.flat import flatten_tables
from tpnn.model.interpolate import ACCOUNT, Predictor, in_tasks
from tpnn.table.axis import Axis
from tpnn.table.table import NOMINAL

Axes = Mapping[int, Sequence[Axis]]

MAX_CODES = 32  # per bundle: a table of two bundles stays in the fastest cache
MAX_ROWS_ONE_BY_ONE = 50  # for more rows it is faster to compare whole columns
MIN_COMPONENTS_PER_TABLE = 2  # on average, for bundles to be worth their codes


class Bundle:
    """Features coded together: a code is a combination of their nodes."""

    def __init__(self, features: Sequence[int], axes: Sequence[Axis]) -> None:
        sizes = [axis.n_nodes for axis in axes]
        self.n_codes = math.prod(sizes)
        combinations = np.unravel_index(np.arange(self.n_codes), sizes)
        self.nodes = dict(zip(features, combinations, strict=True))  # of each code
        strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
        self.points = {
            feature: [(value, node * stride) for value, node in _points(axis)]
            for feature, axis, stride in zip(features, axes, strides, strict=True)
        }
        self._digits = {  # by value; None stands for NaN, which equals nothing
            feature: {None if np.isnan(value) else value: digit for value, digit in points}
            for feature, points in self.points.items()
        }

    @property
    def axis(self) -> Axis:
        """The bundle seen as a feature whose levels are the codes."""
        codes = np.arange(self.n_codes)
        weights = np.full(self.n_codes, 1 / self.n_codes)
        return Axis(codes.astype(np.float64), weights, NOMINAL, groups=codes)

    def code(self, columns: Sequence[FloatArray]) -> tuple[NDArray[np.uint8], BoolArray]:
        """Codes of rows, and the rows on which all values are nodes."""
        n_rows = len(columns[0])
        if n_rows <= MAX_ROWS_ONE_BY_ONE:
            return self._code_one_by_one(columns)
        codes, coded = np.zeros(n_rows, np.uint8), np.ones(n_rows, bool)
        for feature, points in self.points.items():
            x = np.ascontiguousarray(columns[feature])
            on_node = np.zeros(n_rows, bool)
            for value, digit in points:
                here = np.isnan(x) if np.isnan(value) else x == value
                on_node |= here
                codes += here.view(np.uint8) * np.uint8(digit)
            coded &= on_node
        return codes, coded

    def _code_one_by_one(
        self, columns: Sequence[FloatArray]
    ) -> tuple[NDArray[np.uint8], BoolArray]:
        """Codes of a few rows, each value looked up."""
        digits = [
            [digit_of.get(x if x == x else None) for x in columns[feature].tolist()]
            for feature, digit_of in self._digits.items()
        ]
        coded = np.array([None not in row for row in zip(*digits, strict=True)], bool)
        codes = [sum(digit or 0 for digit in row) for row in zip(*digits, strict=True)]
        return np.array(codes, np.uint8), coded


def _points(axis: Axis) -> list[tuple[float, int]]:
    """Values that are exactly a node, each with its node."""
    if axis.groups is None:
        return [(float(value), node) for node, value in enumerate(axis.numbers)]
    missing = [(np.nan, node) for node in range(axis.n_nodes)[axis.missing]]
    return [(float(level), int(node)) for level, node in enumerate(axis.groups)] + missing


def find_bundles(axes: Axes, components: Sequence[Component]) -> list[Bundle]:
    """Bundle the features with few nodes, those with the fewest first."""
    low = [component for component in components if len(component) <= 2]
    finest = axes[min(axes)]
    few = [
        feature
        for feature in sorted({feature for component in low for feature in component})
        if len(_points(finest[feature])) <= MAX_CODES // 2 and _is_alike(axes, feature)
    ]
    groups: list[list[int]] = [[]]
    for feature in sorted(few, key=lambda feature: finest[feature].n_nodes):
        sizes = [finest[other].n_nodes for other in (*groups[-1], feature)]
        if math.prod(sizes) > MAX_CODES:
            groups.append([])
        groups[-1].append(feature)
    return [Bundle(group, [finest[j] for j in group]) for group in groups if len(group) > 1]


def _is_alike(axes: Axes, feature: int) -> bool:
    """Whether a feature has the same nodes in main effects and in pairs."""
    points = [_points(axes[order][feature]) for order in (1, 2) if order in axes]
    return all(np.array_equal(points[0], other, equal_nan=True) for other in points)


def join(
    bundles: Sequence[Bundle], n_features: int, tables: Mapping[Component, FloatArray]
) -> dict[Component, FloatArray]:
    """Sum the tables (..., n_outputs) of components within bundles; bundle b is feature p + b."""
    owner = {feature: b for b, bundle in enumerate(bundles) for feature in bundle.nodes}
    joined: dict[Component, FloatArray] = {}
    for component, table in tables.items():
        if len(component) > 2 or not owner.keys() >= set(component):
            joined[component] = table
            continue
        owners = sorted({owner[feature] for feature in component})
        nodes = [bundles[owner[feature]].nodes[feature] for feature in component]
        if len(owners) == 2:
            first = owner[component[0]] == owners[0]
            nodes = [nodes[0][:, None], nodes[1]] if first else [nodes[0], nodes[1][:, None]]
        key = tuple(n_features + b for b in owners)
        joined[key] = joined.get(key, 0.0) + table[tuple(nodes)]
    return dict(sorted(joined.items(), key=lambda item: len(item[0])))


class SumPredictor:
    """Sum of all components on rows; ``plain`` predicts from the tables of the components."""

    def __init__(
        self, axes: Axes, tables: Mapping[Component, FloatArray], plain: Predictor
    ) -> None:
        self.plain, self.bundles = plain, find_bundles(axes, list(tables))
        summed = join(self.bundles, len(axes[min(axes)]), tables)
        if not self.bundles or len(summed) * MIN_COMPONENTS_PER_TABLE > len(tables):
            self.bundles = []
            return
        added = [bundle.axis for bundle in self.bundles]
        wider = {order: (*per_order, *added) for order, per_order in axes.items()}
        self.joined = Predictor(wider, flatten_tables(summed))

    def add(self, columns: Sequence[FloatArray], sums: FloatArray) -> None:
        """Add all components on every row to ``sums`` (n_outputs, n_rows)."""
        if not self.bundles:
            self.plain.add(columns, sums)
            return
        codes, coded = self._coded(columns, sums.shape[1])
        others = np.flatnonzero(~coded)
        other_sums = sums[:, others]
        self.joined.add([*columns, *codes], sums)
        if len(others):
            self.plain.add([column[others] for column in columns], other_sums)
            sums[:, others] = other_sums

    def _coded(self, columns: Sequence[FloatArray], n_rows: int) -> tuple[FloatArray, BoolArray]:
        """Codes of every bundle (n_bundles, n_rows), and which rows they hold for."""
        codes, coded = np.empty((len(self.bundles), n_rows)), np.empty(n_rows, bool)
        loops = ACCOUNT.loops(n_rows, sum(len(bundle.nodes) for bundle in self.bundles))
        points = [bundle.points for bundle in self.bundles]
        work = loops.CompiledCodes(points).code if loops else self._code_rows

        def code_rows(rows: slice) -> None:
            codes[:, rows], coded[rows] = work([column[rows] for column in columns])

        in_tasks(code_rows, n_rows)
        return codes, coded

    def _code_rows(self, columns: Sequence[FloatArray]) -> tuple[FloatArray, BoolArray]:
        codes, coded = zip(*(bundle.code(columns) for bundle in self.bundles), strict=True)
        return np.stack(codes).astype(np.float64), np.logical_and.reduce(coded)
