"""Box trees: the compiled greedy step for interactions of three or more features.

A visit cuts the grid of a component into boxes and adds a small constant to each. The first cuts,
along all features but one, are drawn at random, which makes pure interactions visible; each later
cut is the best of a few random candidates. With many features a grid has more cells than there are
rows, so sums run over the rows of a box and not over a summed-area table.

The indicator of a box is a sum of products of steps, so the result is a tensor product neural
network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import CodeArray, Float32Array, FloatArray, IntArray
from tpnn._utils.compile import compiled
from tpnn.solvers.grow.engine import BagGrower, Grown, Side, Tables, higher_side, set_scales
from tpnn.solvers.grow.forest import are_frozen, bounded_tree, frozen_parts, tree_for_size
from tpnn.solvers.grow.rectangles import (
    SMALLEST_VISIT_PROBABILITY,
    UNVISITED_GAIN,
    TreeSettings,
    bounded,
    draw_below,
    draw_uniform,
)
from tpnn.solvers.problem.coded import CodedComponents
from tpnn.solvers.problem.problem import Problem
from tpnn.table.axis import Axis


class BoxRows(NamedTuple):
    """Coded rows of one side of a bag; each tuple has one entry per order."""

    codes: tuple[CodeArray, ...]  # (n_features, n_rows)
    features: tuple[IntArray, ...]  # (n_components, order)
    sizes: tuple[IntArray, ...]  # (n_features,): number of nodes
    nodes: tuple[int, ...]  # along each axis of a grid, padding included


class BoxGrowth(NamedTuple):
    """State of one output of one bag, updated in place."""

    tables: tuple[Any, ...]  # (n_components, M^order), float32, for each order
    residual: FloatArray  # (n_rows,): negative gradient times weight
    hessian: FloatArray  # (n_rows,): second derivative times weight
    scales: FloatArray  # (2,): turn residuals and hessians into whole numbers
    gains: Any  # (n_all_components,), of the last visit, sorted by order
    state: NDArray[np.uint64]  # (1,), random state


@compiled()
def _partition(codes: Any, rows: Any, low: int, high: int, place: int) -> Any:
    """Move the rows with codes below ``place`` to the front; return where the others begin."""
    left, right = low, high - 1
    while left <= right:
        if codes[rows[left]] < place:
            left += 1
        else:
            rows[left], rows[right] = rows[right], rows[left]
            right -= 1
    return left


@compiled()
def _node_sums(codes: Any, inside: Any, bottom: int, top: int, growth: Any) -> Any:
    """Residual and mass of each node from ``bottom`` to ``top``, summed as whole numbers."""
    sums, masses = np.zeros(top - bottom, np.int64), np.zeros(top - bottom, np.int64)
    scales = growth.scales
    for row in inside:
        sums[codes[row] - bottom] += np.int64(np.rint(growth.residual[row] * scales[0]))
        masses[codes[row] - bottom] += np.int64(np.rint(growth.hessian[row] * scales[1]))
    return sums / scales[0], masses / scales[1]


@compiled()
def _best_cut(
    codes: Any, rows: Any, low: int, high: int, box: Any, growth: Any, settings: Any
) -> Any:
    """Gain, axis and place of the best of some random cuts of a box; gain 0 if none is allowed."""
    best, best_axis, best_place = 0.0, 0, 0
    for axis in range(len(codes)):
        bottom, top = box[axis]
        places = top - bottom - 1
        if places < 1:
            continue
        node_sums, node_masses = _node_sums(codes[axis], rows[low:high], bottom, top, growth)
        sums, masses = np.cumsum(node_sums), np.cumsum(node_masses)
        total, weight = sums[-1], masses[-1]
        base = total * total / (weight + settings.ridge)
        tries = min(places, max(settings.fewest, int(settings.share * places)))
        for attempt in range(tries):
            place = attempt if tries == places else draw_below(growth.state, places)
            part, part_weight = sums[place], masses[place]
            rest, rest_weight = total - part, weight - part_weight
            if min(part_weight, rest_weight) < settings.min_mass:
                continue
            gain = part * part / (part_weight + settings.ridge) - base
            gain += rest * rest / (rest_weight + settings.ridge)
            if gain > best:
                best, best_axis, best_place = gain, axis, bottom + place + 1
    return best, best_axis, best_place


@compiled()
def _cut(
    codes: Any, rows: Any, ends: Any, boxes: Any, leaf: int, new: int, axis: int, place: int
) -> None:
    """Cut a leaf in two: ``leaf`` keeps the lower part, ``new`` gets the upper part."""
    middle = _partition(codes[axis], rows, ends[leaf, 0], ends[leaf, 1], place)
    ends[new, 0], ends[new, 1] = middle, ends[leaf, 1]
    ends[leaf, 1] = middle
    boxes[new] = boxes[leaf]
    boxes[leaf, axis, 1] = place
    boxes[new, axis, 0] = place


@compiled()
def _random_cuts(codes: Any, rows: Any, ends: Any, boxes: Any, state: Any, n_leaves: int) -> Any:
    """Cut every leaf at a random place along all features but one, in random order."""
    order, n_boxes = len(codes), 1
    axes = np.arange(order)
    for place in range(order - 1, 0, -1):
        other = draw_below(state, place + 1)
        axes[place], axes[other] = axes[other], axes[place]
    for axis in axes[: order - 1]:
        for leaf in range(n_boxes):
            places = boxes[leaf, axis, 1] - boxes[leaf, axis, 0] - 1
            if places < 1 or n_boxes == n_leaves:
                continue
            place = boxes[leaf, axis, 0] + 1 + draw_below(state, places)
            _cut(codes, rows, ends, boxes, leaf, n_boxes, axis, place)
            n_boxes += 1
    return n_boxes


@compiled()
def _add_to_table(table: Any, box: Any, n_nodes: int, value: Any) -> None:
    """Add a value to all cells of a box; grids are flat, with cells in row-major order."""
    node = box[:, 0].copy()
    while True:
        cell = 0
        for axis in range(len(node)):
            cell = cell * n_nodes + node[axis]
        for last in range(box[-1, 1] - box[-1, 0]):
            table[cell + last] += value
        axis = len(node) - 2
        while axis >= 0:
            node[axis] += 1
            if node[axis] < box[axis, 1]:
                break
            node[axis] = box[axis, 0]
            axis -= 1
        if axis < 0:
            return


@compiled()
def _subtract(growth: Any, inside: Any, value: Any) -> None:
    """Update the residuals of some rows, each by its hessian times a value."""
    for row in inside:
        growth.residual[row] -= growth.hessian[row] * value


@compiled()
def visit(codes: Any, sizes: Any, growth: Any, table: Any, n_nodes: int, settings: Any) -> Any:
    """Add one tree to a component's grid; return its gain.

    ``codes`` (order, n_rows) and ``sizes`` (order,) belong to the component's features.
    """
    rows = np.arange(codes.shape[1])
    ends = np.zeros((settings.n_leaves, 2), np.int64)
    boxes = np.zeros((settings.n_leaves, len(codes), 2), np.int64)
    ends[0, 1] = len(rows)
    boxes[0, :, 1] = sizes
    n_boxes = _random_cuts(codes, rows, ends, boxes, growth.state, settings.n_leaves)
    gains = np.zeros(settings.n_leaves)
    axes, places = np.zeros(settings.n_leaves, np.int64), np.zeros(settings.n_leaves, np.int64)
    total_gain = 0.0
    for leaf in range(n_boxes):
        cut = _best_cut(codes, rows, ends[leaf, 0], ends[leaf, 1], boxes[leaf], growth, settings)
        gains[leaf], axes[leaf], places[leaf] = cut
    while n_boxes < settings.n_leaves:
        best = int(np.argmax(gains[:n_boxes]))
        if gains[best] <= 0.0:
            break
        total_gain += gains[best]
        _cut(codes, rows, ends, boxes, best, n_boxes, axes[best], places[best])
        for leaf in (best, n_boxes):
            cut = _best_cut(
                codes, rows, ends[leaf, 0], ends[leaf, 1], boxes[leaf], growth, settings
            )
            gains[leaf], axes[leaf], places[leaf] = cut
        n_boxes += 1
    for leaf in range(n_boxes):
        inside = rows[ends[leaf, 0] : ends[leaf, 1]]
        sums, masses = _node_sums(codes[0], inside, boxes[leaf, 0, 0], boxes[leaf, 0, 1], growth)
        shrunk = sums.sum() / (masses.sum() + settings.ridge)
        value = np.float32(settings.rate * bounded(shrunk, settings))
        _subtract(growth, inside, value)
        _add_to_table(table, boxes[leaf], n_nodes, value)
    return total_gain


@compiled()
def grow_visits(rows: Any, growth: Any, n_visits: int, settings: Any) -> None:
    """Visit components at random, those with larger gains more often."""
    done = 0
    while done < n_visits:
        index = draw_below(growth.state, len(growth.gains))
        largest = max(growth.gains.max(), 1e-30)
        probability = max(SMALLEST_VISIT_PROBABILITY, growth.gains[index] / largest)
        if draw_uniform(growth.state) > probability:
            continue
        done += 1
        order, component = 0, index
        while component >= len(rows.features[order]):
            component -= len(rows.features[order])
            order += 1
        features = rows.features[order][component]
        growth.gains[index] = visit(
            rows.codes[order][features], rows.sizes[order][features], growth,
            growth.tables[order][component], rows.nodes[order], settings[order],
        )  # fmt: skip


VISITS_PER_CHECK = 25  # to the components of each output
BOX_TREE = TreeSettings(
    n_leaves=0, rate=0.1, ridge=5.0, min_mass=2.0, share=0.1, fewest=8, random_first=True
)


class BoxForest:
    """Components of higher orders of one bag; every output gets the same visits per round."""

    rounds_per_check = 1
    visits_per_check = 1
    keeps_slopes = False  # rounding errors add up over many small visits
    tolerance = 0.0
    grace = 0

    def __init__(
        self,
        rows: BoxRows,
        trees: tuple[TreeSettings, ...],  # of each order
        growths: list[BoxGrowth],  # of every output
    ) -> None:
        self.rows, self.trees, self.growths = rows, trees, growths
        self.seeds = [int(growth.state[0]) for growth in growths]

    def visit(self, rounds: int) -> None:
        """Visit components of every output."""
        for growth in self.growths:
            grow_visits(self.rows, growth, VISITS_PER_CHECK, self.trees)

    def scores(self, side: Side) -> FloatArray:
        """Raw scores of rows, (n_rows, K)."""
        scores: FloatArray = side.shelf.empty((len(side.y), len(self.growths)), np.float64)
        for output, growth in enumerate(self.growths):
            added = np.zeros((len(side.y), 1))
            for part, tables in zip(side.coded, growth.tables, strict=True):
                part.gather(tables[..., None], 0, added)
            scores[:, output] = side.raw[:, output] + added[:, 0]
        return scores

    def tables(self) -> Tables:
        """Copy of the current grids of values; higher orders do not change the intercepts."""
        n_orders = len(self.growths[0].tables)
        by_order = [np.stack([g.tables[o] for g in self.growths]) for o in range(n_orders)]
        return Tables(by_order, np.zeros(len(self.growths)))

    def slopes_changed(self) -> None:
        """Adapt the whole numbers to the slopes; every visit sums them afresh."""
        for growth in self.growths:
            set_scales(growth)

    def state(self) -> list[NDArray[Any]]:
        """Arrays that hold where the growth stands."""
        return [array for g in self.growths for array in (*g.tables, g.gains, g.state)]

    def identity(self) -> tuple[Any, ...]:
        """Return what the growth depends on besides its rows."""
        return self.rows.features, self.rows.sizes, self.rows.nodes, self.trees, self.seeds


class BoxBags:
    """Grows the components of order four and above, bag by bag."""

    def __init__(self, problem: Problem, grower: BagGrower) -> None:
        self.problem, self.grower = problem, grower
        self.objective, self.axes = problem.objective, problem.encoder.axes
        higher = [part for part in problem.coded if part.features.shape[1] > 3]
        grow = (replace(part, features=_unfrozen(part.features, problem)) for part in higher)
        self.parts = [part for part in grow if len(part.features)]

    def grow(self, bag: int, raw: FloatArray) -> Grown:
        """Grow one bag on the residual of the raw scores ``raw`` (n, K)."""
        rows = self.problem.rows
        places = self._shuffled_levels(bag)
        training = self._side(rows.training[:, bag] * rows.sizes[bag], raw, places)
        validation = self._side(rows.validation[:, bag], raw, places)
        trees = tuple(self._tree(part, float(rows.sizes[bag])) for part in self.parts)
        growths = self._new_growths(training, bag)
        forest = BoxForest(_box_rows(training.coded, self.axes), trees, growths)
        grown = self.grower.grow(forest, training, validation)
        return replace(grown, tables=self._unshuffled(grown.tables, places))

    def _tree(self, part: CodedComponents, size: float) -> TreeSettings:
        """Return a tree with four times as many boxes as the random cuts make."""
        tree = BOX_TREE._replace(n_leaves=2 ** (part.features.shape[1] + 1))
        return bounded_tree(tree_for_size(tree, size), self.objective)

    def _shuffled_levels(self, bag: int) -> list[IntArray]:
        """Place of every node on its axis, (n_features, M) for each order.

        Levels without order are shuffled, differently in each bag: a box keeps neighbours
        together, and no two levels should be neighbours in every bag.
        """
        rng = np.random.default_rng((self.problem.seed, bag))
        shuffled = []
        for part in self.parts:
            axes = self.axes[part.features.shape[1]]
            places = np.tile(np.arange(part.n_nodes), (len(axes), 1))
            for feature in self.problem.features:
                if axes[feature].is_nominal:
                    regular = places[feature, axes[feature].regular]
                    regular[:] = rng.permutation(len(regular))
            shuffled.append(places)
        return shuffled

    def _unshuffled(self, grown: Tables, places: Sequence[IntArray]) -> Tables:
        """Grids (K, n_components, M^order) with all nodes back in their own order."""
        restored = []
        for part, own, by_output in zip(self.parts, places, grown.by_order, strict=True):
            shape = [part.n_nodes] * part.features.shape[1]
            ordered = [
                [
                    t.reshape(shape)[np.ix_(*own[s])]
                    for t, s in zip(flat, part.features, strict=True)
                ]
                for flat in by_output
            ]
            restored.append(np.array(ordered).reshape(by_output.shape))
        return Tables(restored, grown.intercepts)

    def _side(self, weights: Float32Array, raw: FloatArray, places: Sequence[IntArray]) -> Side:
        side = higher_side(self.problem, self.parts, weights, raw)
        for part, own in zip(side.coded, places, strict=True):
            for codes, of_node in zip(part.codes, own.astype(part.codes.dtype), strict=True):
                codes[:] = of_node[codes]
        return side

    def _new_growths(self, training: Side, bag: int) -> list[BoxGrowth]:
        """Return the initial state of every output."""
        zeros = training.shelf.zeros
        n_components = sum(len(part.features) for part in self.parts)
        first = (self.problem.seed * self.problem.n_bags + bag) * self.objective.n_outputs
        return [
            BoxGrowth(
                tables=tuple(np.zeros(part.shape, np.float32) for part in self.parts),
                residual=zeros((len(training.y),), np.float64),
                hessian=zeros((len(training.y),), np.float64),
                scales=np.ones(2),
                gains=np.full(n_components, UNVISITED_GAIN),
                state=np.array([first + output], np.uint64),
            )
            for output in range(self.objective.n_outputs)
        ]


def _unfrozen(features: IntArray, problem: Problem) -> IntArray:
    """Components (n_components, order) that are not frozen and contain nothing that is."""
    components = features.tolist()
    grows = ~are_frozen(components, problem)
    grows[[parts.index for parts in frozen_parts(components, problem)]] = False
    return features[grows]


def _box_rows(coded: Sequence[CodedComponents], axes: Mapping[int, Sequence[Axis]]) -> BoxRows:
    """Training rows in the form that the compiled visits expect."""
    orders = [part.features.shape[1] for part in coded]
    return BoxRows(
        codes=tuple(part.codes for part in coded),
        features=tuple(part.features for part in coded),
        sizes=tuple(np.array([axis.n_nodes for axis in axes[order]]) for order in orders),
        nodes=tuple(part.n_nodes for part in coded),
    )
