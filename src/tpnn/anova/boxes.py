r"""Boxes: the leaves of trees, from which the functional ANOVA of their sum is read.

A leaf with value v holds the rows whose features j in U lie in intervals I_j, which have shares p_j
of the training rows. With e_j = 1[x_j in I_j] - p_j, which averages to zero,

    v prod_(j in U) 1[x_j in I_j] = v prod_(j in U) (p_j + e_j),

so the leaf adds v prod_(U \ S) p_j prod_S e_j to every component f_S with S within U: the only
decomposition whose components average to zero along each of their features. On a grid, the leaf
adds a constant to a box, and a box is 2^|S| corners in a grid of differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import BoolArray, FloatArray, Int32Array, IntArray
from tpnn.anova import trees_numpy
from tpnn.anova.components import Component
from tpnn.anova.trees import Trees, compiled_loops, first_nodes, ranks_of_nodes
from tpnn.anova.trees_numpy import Leaves
from tpnn.table.axis import Axis

LARGEST_ORDER = 3  # of a component that is read onto a grid


class Stack(NamedTuple):
    """Components whose grids have one shape."""

    components: list[Component]
    grids: FloatArray  # (C, M_1, ..., M_d, K)
    weights: list[FloatArray]  # for each axis, (C, 1, ..., M, ..., 1): masses of the nodes


@dataclass(frozen=True)
class Boxes:
    """Leaves of trees as products of intervals, which are sets of codes of one feature."""

    trees: Trees
    leaf_starts: IntArray  # (n_leaves + 1,): slots of each leaf
    slots: Int32Array  # (n_slots,): interval of each slot; the features of a leaf increase
    features: Int32Array  # (n_intervals,)
    members: BoolArray  # flat: for each interval, for each code of its feature, whether it is in it
    firsts: IntArray  # (n_intervals,): where each interval begins in ``members``

    @classmethod
    def of(cls, trees: Trees) -> Boxes:
        """Boxes of all leaves, in the order of the leaves."""
        questions, sides = _paths(trees)
        is_step = questions >= 0
        asked = np.where(is_step, trees.asked[np.maximum(questions, 0)], len(trees.features))
        order = np.argsort(asked, axis=1, kind="stable")
        asked, questions, sides = (
            np.take_along_axis(array, order, 1) for array in (asked, questions, sides)
        )
        is_step = questions >= 0
        leaves = np.repeat(np.arange(len(asked)), is_step.sum(1))
        asked, questions, sides = asked[is_step], questions[is_step], sides[is_step]
        is_first = np.ones(len(asked), bool)
        is_first[1:] = (leaves[1:] != leaves[:-1]) | (asked[1:] != asked[:-1])
        firsts = np.flatnonzero(is_first)
        slots, examples = _alike(asked, questions, sides, firsts)
        counts = np.bincount(leaves[is_first], minlength=len(trees.values))
        begins = firsts[examples]
        ends = np.append(firsts[1:], len(questions))[examples]
        sizes = trees.sizes[questions[begins]]
        return cls(
            trees=trees,
            leaf_starts=np.concatenate([[0], np.cumsum(counts)]),
            slots=slots,
            features=asked[begins].astype(np.int32),
            members=_members(trees, questions, sides, (begins, ends)),
            firsts=np.cumsum(sizes) - sizes,
        )

    @cached_property
    def shares(self) -> FloatArray:
        """Share of the training rows in each interval, (n_intervals,)."""
        if not len(self.members):
            return np.zeros(0)
        masses = [self.trees.features[j].masses for j in self.features.tolist()]
        return np.add.reduceat(np.concatenate(masses) * self.members, self.firsts)

    @cached_property
    def runs(self) -> tuple[IntArray, Int32Array, Int32Array]:
        """Intervals as runs of codes: starts (n_intervals + 1,), lows and highs (n_runs,)."""
        members, firsts = self.members, self.firsts
        n, sizes = len(firsts), np.diff(np.append(firsts, len(members)))
        owner = np.repeat(np.arange(n), sizes)
        apart = np.zeros(len(members) + n + 1, bool)  # a gap before each interval ends its runs
        apart[np.arange(len(members)) + owner + 1] = members
        edges = np.flatnonzero(apart[1:] != apart[:-1])
        own = np.searchsorted(firsts + np.arange(n), edges[::2], side="right") - 1
        low, high = (ends - (firsts + np.arange(n))[own] for ends in (edges[::2], edges[1::2]))
        starts = np.concatenate([[0], np.cumsum(np.bincount(own, minlength=n))])
        return starts, low.astype(np.int32), high.astype(np.int32)

    @cached_property
    def together(self) -> dict[Component, int]:
        """Sets of features on the way to leaves, and the number of leaves of each."""
        if not len(self.slots):
            return {}
        features, firsts = self.features[self.slots], self.leaf_starts[:-1]
        firsts = firsts[np.diff(self.leaf_starts) > 0]
        keys = np.add.reduceat(_scrambled(features), firsts)
        _, examples, counts = np.unique(keys, return_index=True, return_counts=True)
        ends = np.append(firsts[1:], len(features))
        sets = [tuple(features[firsts[e] : ends[e]].tolist()) for e in examples]
        return dict(zip(sets, counts.tolist(), strict=True))

    def subsets(self, order: int) -> dict[Component, int]:
        """Find the sets of so many features that meet in leaves, and count these leaves."""
        counts: dict[Component, int] = {}
        for features, count in self.together.items():
            for subset in combinations(features, order):
                counts[subset] = counts.get(subset, 0) + count
        return counts

    def components(
        self, wanted: Sequence[Component], axes: Mapping[int, Sequence[Axis]]
    ) -> tuple[FloatArray, dict[Component, FloatArray]]:
        """Mean (K,) of the trees, and wanted components on the nodes of their orders.

        Features of a component increase. Grids (M_1, ..., M_d, K) are pure: they average to zero
        along each axis.
        """
        constant, stacks = self.stacks(wanted, axes)
        grids = {s: grid for stack in stacks for s, grid in zip(*stack[:2], strict=True)}
        return constant, {component: grids[component] for component in wanted}

    def stacks(
        self, wanted: Sequence[Component], axes: Mapping[int, Sequence[Axis]]
    ) -> tuple[FloatArray, list[Stack]]:
        """Mean (K,) of the trees, and wanted components, those of one shape together."""
        from tpnn.anova.trees_numba import add_components

        n_features, n_outputs = len(self.trees.features), self.trees.values.shape[1]
        by_shape: dict[tuple[int, ...], list[Component]] = {}
        sizes = {order: [axis.n_nodes for axis in axes[order]] for order in {*map(len, wanted)}}
        for s in wanted:
            by_shape.setdefault(tuple(sizes[len(s)][j] for j in s), []).append(s)
        ordered = [s for group in by_shape.values() for s in group]
        keys = np.array([_key(s, n_features) for s in ordered], np.int64)
        strides = np.zeros((len(keys), LARGEST_ORDER), np.int64)
        offsets, ends, last = np.zeros(len(keys), np.int64), [0], 0
        for shape, group in by_shape.items():
            padded, here = [size + 1 for size in shape], slice(last, last := last + len(group))
            strides[here, : len(shape)] = [prod(padded[d + 1 :]) for d in range(len(shape))]
            offsets[here] = ends[-1] + prod(padded) * np.arange(len(group))
            ends.append(ends[-1] + prod(padded) * len(group))
        orders = range(1, max(map(len, wanted), default=1) + 1)
        nodes = self._nodes_of_runs([axes[order] for order in orders])
        cells, constant = np.zeros((ends[-1], n_outputs)), np.zeros(n_outputs)
        order = np.argsort(keys)
        add_components(
            self.leaf_starts, self.slots, self.trees.values, self.features, self.shares,
            self.runs[0], nodes, n_features + 1, keys[order], offsets[order],
            strides[order], cells, constant,
        )  # fmt: skip
        stacks = list[Stack]()
        for (shape, group), (start, end) in zip(by_shape.items(), pairwise(ends), strict=True):
            padded = [size + 1 for size in shape]
            grids = cells[start:end].reshape(len(group), *padded, n_outputs)
            stacks.append(self._stack(group, axes[len(shape)], grids))
        return constant, stacks

    def _stack(self, group: Sequence[Component], axes: Sequence[Axis], cells: FloatArray) -> Stack:
        """Components from grids (C, M_1 + 1, ..., M_d + 1, K) of differences, by codes."""
        weights = []
        for d, features in enumerate(zip(*group, strict=True), start=1):
            ranks = {
                j: ranks_of_nodes(self.trees.features[j], axes[j].numbers) for j in {*features}
            }
            places = np.stack([ranks[j] for j in features])  # (C, M)
            upright = [1] * cells.ndim
            upright[0], upright[d] = places.shape
            weights.append(np.stack([axes[j].weights for j in features]).reshape(upright))
            steps = np.moveaxis(cells, d, 0)
            for place in range(1, len(steps)):  # three times as fast as cumsum
                steps[place] += steps[place - 1]
            n_nodes, of_all = places.shape[1], [slice(None)] * cells.ndim
            if (places == np.arange(n_nodes)).all():  # as they are, for nodes with an order
                of_all[d] = slice(n_nodes)
                cells = cells[tuple(of_all)]
            else:
                cells = np.take_along_axis(cells, places.reshape(upright), d)
            cells -= (cells * weights[-1]).sum(d, keepdims=True)
        return Stack(list(group), cells, weights)

    def _nodes_of_runs(self, axes: Sequence[Sequence[Axis]]) -> IntArray:
        """Return the first node of each run and the first one after it, (n_orders, n_runs, 2)."""
        starts, lows, highs = self.runs
        features, nodes = self.trees.features, np.zeros((len(axes), len(lows), 2), np.intp)
        owners, used = np.repeat(self.features, np.diff(starts)), self.trees.used
        for of_order, table in zip(nodes, axes, strict=True):
            firsts = [first_nodes(features[j], table[j].numbers) for j in used]
            begins = np.zeros(len(features), np.intp)
            begins[used] = np.cumsum([0, *map(len, firsts)])[:-1]
            flat = np.concatenate([np.zeros(0, np.int32), *firsts])
            of_order[:, 0], of_order[:, 1] = (
                flat[begins[owners] + lows],
                flat[begins[owners] + highs],
            )
        return nodes

    def shapley(self, columns: Sequence[FloatArray]) -> FloatArray:
        """Shapley values of rows under the product of the marginals, (n_rows, p, K).

        They sum to the score of the trees less its mean.
        """
        return self._added("add_shapley", columns, (len(self.trees.features),))

    def interactions(self, columns: Sequence[FloatArray]) -> FloatArray:
        """Shapley interaction values, (n_rows, p, p, K); each row of a matrix sums to a value."""
        n_features = len(self.trees.features)
        values = self._added("add_interactions", columns, (n_features, n_features))
        own = np.arange(n_features)
        values[:, own, own] = self.shapley(columns) - values.sum(2)
        return values

    def _added(
        self, name: str, columns: Sequence[FloatArray], shape: tuple[int, ...]
    ) -> FloatArray:
        """Add up what a loop finds in all leaves, for each row, (n_rows, *shape, K)."""
        trees, n_rows = self.trees, len(columns[0])
        leaves = Leaves(self.leaf_starts, self.slots, trees.values, self.features, self.shares)
        compiled = getattr(compiled_loops(), name, None)
        found = np.zeros((n_rows, *shape, trees.values.shape[1]))
        if not len(self.slots):
            return found
        codes = np.zeros((len(trees.features), n_rows), np.intp)
        for j in trees.used:
            codes[j] = trees.features[j].codes(columns[j])
        widest = int(np.diff(self.leaf_starts).max())
        points, weights = np.polynomial.legendre.leggauss((widest + 1) // 2)
        for row in range(n_rows):
            excess = self.members[self.firsts + codes[self.features, row]] - self.shares
            of_row = excess, (points + 1) / 2, weights / 2, found[row]
            if compiled is None:
                getattr(trees_numpy, name)(leaves, *of_row)
            else:
                compiled(*leaves, *of_row)
        return found


def _key(component: Component, n_features: int) -> int:
    """Return the number of a component: its features plus 1 are the digits, in base p + 1."""
    key = 0
    for feature in component:
        key = key * (n_features + 1) + feature + 1
    return key


def _paths(trees: Trees) -> tuple[Int32Array, BoolArray]:
    """Questions on the way to each leaf, (n_leaves, depth), -1 beyond its end, and sides taken."""
    n_leaves, n_nodes = len(trees.values), len(trees.questions)
    parents = np.full(n_nodes + n_leaves, -1)
    came_right = np.zeros(n_nodes + n_leaves, bool)
    for side in range(2):
        child = trees.children[:, side].astype(np.intp)
        place = np.where(child >= 0, child, n_nodes - 1 - child)
        parents[place], came_right[place] = np.arange(n_nodes), side
    here = n_nodes + np.arange(n_leaves)
    questions, sides = list[IntArray](), list[BoolArray]()
    while (parents[here] >= 0).any():
        up = parents[here]
        questions.append(np.where(up >= 0, trees.questions[np.maximum(up, 0)], -1))
        sides.append(came_right[here] & (up >= 0))
        here = np.where(up >= 0, up, here)
    if not questions:
        return np.zeros((n_leaves, 0), np.int32), np.zeros((n_leaves, 0), bool)
    return np.stack(questions, 1).astype(np.int32), np.stack(sides, 1)


def _scrambled(numbers: Int32Array) -> NDArray[np.uint64]:
    """Turn each number into 64 bits that look random; sums of them tell sets of numbers apart.

    Without the constant that is added, twice the bits of a number could be those of another one.
    """
    bits = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    bits += np.uint64(0xD1B54A32D192ED03)
    bits = (bits ^ (bits >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return bits ^ (bits >> np.uint64(32))


def _alike(
    asked: Int32Array, questions: Int32Array, sides: BoolArray, firsts: IntArray
) -> tuple[Int32Array, IntArray]:
    """Interval of each slot, and a slot of each interval; intervals are in the order of features.

    Slots with the same answers to the same questions share an interval.
    """
    if not len(firsts):
        return np.zeros(0, np.int32), np.zeros(0, np.intp)
    keys = np.add.reduceat(_scrambled(2 * questions + sides), firsts)
    _, examples, slots = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(asked[firsts[examples]], kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order))
    return rank[slots], examples[order]


def _members(
    trees: Trees, questions: Int32Array, sides: BoolArray, steps: tuple[IntArray, IntArray]
) -> BoolArray:
    """Codes that give all answers from the first step of each interval to its last, flat.

    Intervals are in the order of their features.
    """
    begins, ends = steps
    places, parts = np.zeros(len(trees.asked), np.intp), [np.zeros(0, np.bool_)]
    asked = trees.asked[questions[begins]]
    for feature, (about_it, right) in trees.by_feature.items():
        places[about_it] = np.arange(len(about_it))
        own = slice(*np.searchsorted(asked, [feature, feature + 1]))
        first, n_steps = begins[own], (ends - begins)[own]
        inside = np.ones((len(first), right.shape[1]), np.bool_)
        for step in range(int(n_steps.max(initial=0))):
            some = np.flatnonzero(n_steps > step)
            answered = first[some] + step
            goes_right = right[places[questions[answered]]]
            inside[some] &= goes_right == sides[answered, None]
        parts.append(inside.reshape(-1))
    return np.concatenate(parts)


PAIRS_PER_STEP = 1 << 18  # of trees and rows


def extremes(
    trees: Trees, lows: Mapping[int, Int32Array], highs: Mapping[int, Int32Array]
) -> tuple[FloatArray, FloatArray]:
    """Bounds (n_rows, K) of the sum where each feature may have any code from low to high.

    The codes (n_rows,) are given for every feature that is asked about. The extremes of all trees
    are added, so nothing exceeds the bounds, but they need not be attained.
    """
    sizes = {len(codes) for codes in lows.values()} or {0}
    shape = max(sizes), trees.values.shape[1]
    least, most = np.zeros(shape), np.zeros(shape)
    step = max(PAIRS_PER_STEP // max(len(trees.roots), 1), 1)
    for start in range(0, shape[0], step):
        rows = slice(start, start + step)
        sides = _open_sides(
            trees, *({j: codes[rows] for j, codes in ends.items()} for ends in (lows, highs))
        )
        least[rows], most[rows] = _extremes(trees, sides)
    return least, most


def _open_sides(
    trees: Trees, lows: Mapping[int, Int32Array], highs: Mapping[int, Int32Array]
) -> BoolArray:
    """Whether some code goes left, and right, at each question: (2, n_questions, n_rows)."""
    asked, starts = trees.asked.tolist(), trees.starts
    sides = [np.zeros((2, 0, 0), bool)] if not asked else []
    for question, feature in enumerate(asked):
        right = trees.right[starts[question] : starts[question + 1]]
        counts = np.concatenate([[0], np.cumsum(right)])
        low, high = lows[feature], highs[feature] + 1
        n_right = counts[high] - counts[low]
        sides.append(np.stack([n_right < high - low, n_right > 0])[:, None])
    return np.concatenate(sides, 1)


def _extremes(trees: Trees, sides: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Sum of the smallest and of the largest values of the leaves that each row can reach."""
    n_trees, n_rows, n_outputs = len(trees.roots), sides.shape[2], trees.values.shape[1]
    least = np.full((n_trees * n_rows, n_outputs), np.inf)
    most = np.full((n_trees * n_rows, n_outputs), -np.inf)
    pairs, nodes = np.arange(n_trees * n_rows), np.repeat(trees.roots, n_rows)
    while len(nodes):  # one level deeper each time
        is_leaf = nodes < 0
        values = trees.values[-1 - nodes[is_leaf]]
        np.minimum.at(least, pairs[is_leaf], values)
        np.maximum.at(most, pairs[is_leaf], values)
        pairs, nodes = pairs[~is_leaf], nodes[~is_leaf]
        is_open = sides[:, trees.questions[nodes], pairs % n_rows]
        nodes = np.concatenate([trees.children[nodes[is_open[k]], k] for k in (0, 1)])
        pairs = np.concatenate([pairs[is_open[k]] for k in (0, 1)])
    by_tree = n_trees, n_rows, n_outputs
    return least.reshape(by_tree).sum(0), most.reshape(by_tree).sum(0)
