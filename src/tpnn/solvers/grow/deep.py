"""Deep growth: bags of deep trees over all features, from the best constant on.

A deep tree finds an interaction because its features meet on one path; components of fixed features
would have to be known before. Oblivious and free trees take turns: where one kind fits badly, the
other mends it. Columns have at most 256 codes, 128 where rows are few, and a tree draws those that
it may ask about. Levels without order are sorted by what they say about the targets of the bag's
own training rows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import CodeArray, FloatArray, IntArray, RealArray
from tpnn.anova.components import Component
from tpnn.anova.trees import TreeBuilder, TreeFeature, Trees
from tpnn.solvers.grow.deep_trees import (
    ANY_MEETINGS,
    MOST_CODES,
    WEIGHTS,
    Meetings,
    Tree,
    TreeRules,
    add_leaves,
    add_tree,
    grow_tree,
    meetings_within,
    unfold,
)
from tpnn.solvers.grow.engine import Side, held_out_loss
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.problem.rows import scrambled
from tpnn.solvers.solution import EarlyStopping, Event, Limits, Progress
from tpnn.table.axis import Axis

FURTHER_QUESTIONS = 2  # of a tree within a component, besides one for each of its features
NOTES = {2: "pairs", 3: "triples"}  # what the history of the fit calls an order
LEVEL_PRIOR_ROWS = 10.0  # rows of average target that a level is mixed with before it is ranked
MOST_LEVEL_ORDERS = 3  # of one feature: levels are sorted once for each output, but no more often
MOST_DEEP_ROWS = 250_000  # more rows hardly choose better questions
TREES_UNTIL_TWICE_THE_RATE, OF_HIGHER_ORDERS = 150, 300
TREE_SHARE, FEWEST_COLUMNS = 0.75, 8  # of the columns, that one tree may ask about
FEWEST_ROWS_OF_MANY_CODES, FEW_CODES = 10_000, 128  # of fewer rows, columns have fewer codes
SEEDS_PER_BAG = 1 << 32
SMALLEST_MAJORITY = 1e-9  # of the mass beyond one half; less is rounding


class Columns(NamedTuple):
    """Columns that the trees of a bag ask about."""

    features: IntArray  # (n_columns,)
    codes: tuple[CodeArray, ...]  # of each column: code of every node of its feature
    sizes: IntArray  # (n_columns,): number of codes

    def coded(self, nodes: CodeArray, rows: IntArray) -> CodeArray:
        """Codes (n_columns, len(rows)) of some rows, given the nodes (p, n) of all rows."""
        coded = np.empty((len(self.features), len(rows)), np.uint8)
        for place, feature in enumerate(self.features):
            np.take(self.codes[place], nodes[feature][rows], out=coded[place])
        return coded


@dataclass(frozen=True)
class DeepBag:
    """Trees of one bag, on the training scale."""

    columns: Columns
    trees: list[Tree]
    losses: list[float]  # of the held-out rows, before the first tree and after each
    raw: FloatArray  # (n, K): raw scores of all rows among which the trees grew

    @property
    def loss(self) -> float:
        """Loss of the held-out rows."""
        return self.losses[-1]

    @property
    def falls(self) -> FloatArray:
        """Fall of the loss of the held-out rows by each tree, (n_trees,)."""
        return -np.diff(self.losses)

    @property
    def asked(self) -> list[frozenset[int]]:
        """Features that each tree asks about."""
        features = self.columns.features
        return [frozenset(features[t.columns[t.cuts < MOST_CODES]].tolist()) for t in self.trees]

    @property
    def questions(self) -> set[tuple[int, int]]:
        """Columns and cuts of all nodes that divide their rows."""
        keys = np.unique(np.concatenate([np.zeros(0, np.int64), *map(_asked, self.trees)]))
        questions = (divmod(key, MOST_CODES + 1) for key in keys.tolist())
        return {(column, cut) for column, cut in questions if cut < MOST_CODES}


def _asked(tree: Tree) -> IntArray:
    """Return a number for each node of a tree, made of its column and its cut."""
    return tree.columns * (MOST_CODES + 1) + tree.cuts


@dataclass(frozen=True, kw_only=True)
class DeepGrowth:
    """Grows deep trees in all bags of a problem."""

    problem: Problem
    limits: Limits
    progress: Progress
    tree_rules: tuple[TreeRules, ...]  # which take turns
    max_rounds: int
    patience: int  # trees without a lower held-out loss after which a bag stops
    features: Sequence[int]  # in canonical order, those that trees may ask about
    meetings: Meetings = ANY_MEETINGS
    tree_share: float = TREE_SHARE  # of the columns, that one tree may ask about
    until_twice: int = TREES_UNTIL_TWICE_THE_RATE
    order: int = 1  # whose nodes the trees cut between
    start: FloatArray | None = None  # (n_bags, n, K): raw scores; by default the best constant
    note: str = "deep trees"
    events: list[Event] = field(default_factory=list)

    def within(self, components: Sequence[Component], start: FloatArray) -> DeepGrowth:
        """Growth whose trees stay within components of one order, on raw scores (n_bags, n, K).

        The first questions of a tree are drawn at random, one for each feature but the last: a pure
        interaction shows in none of its projections.
        """
        used, order = {feature for s in components for feature in s}, len(components[0])
        return replace(
            self,
            tree_rules=tuple(
                rules._replace(
                    depth=order + FURTHER_QUESTIONS, most_features=order, column_share=1.0,
                    random_levels=order - 1,
                )
                for rules in self.tree_rules
                if rules.is_oblivious
            ),
            meetings=meetings_within(components),
            features=[feature for feature in self.features if feature in used],
            tree_share=1.0,
            until_twice=OF_HIGHER_ORDERS,
            order=order,
            start=start,
            note=NOTES.get(order, f"order {order}"),
            events=[],
        )  # fmt: skip

    def grow(self, n_bags: int | None = None) -> list[DeepBag]:
        """Grow the first bags, by default all, one thread each."""
        n_bags = n_bags or self.problem.n_bags
        self.progress.begin(n_bags, "growth")
        with self.limits.workers() as workers:
            bags = workers.map(self._grow_bag, range(n_bags))
        self.events.sort(key=lambda event: event.bag or 0)
        return bags

    @cached_property
    def _ordered(self) -> dict[int, CodeArray]:
        """Codes of the nodes of features with an order, which all bags share."""
        axes, n_rows = self.problem.encoder.axes[self.order], len(self.problem.rows.y)
        most = MOST_CODES if n_rows >= FEWEST_ROWS_OF_MANY_CODES else FEW_CODES
        return {j: ordered_codes(axes[j], most) for j in self.features if not axes[j].is_nominal}

    def _side(self, bag: int, weights: RealArray) -> tuple[IntArray, Side]:
        """Rows with a positive weight (n,), in double precision and without codes."""
        rows, where = self.problem.rows, np.flatnonzero(weights)
        y, masses = rows.y[where].astype(np.float64), weights[where, None].astype(np.float64)
        return where, Side((), y, masses, self._start(bag, where))

    def _start(self, bag: int, rows: IntArray) -> FloatArray:
        """Raw scores (n, K) of some rows before the first tree."""
        if self.start is not None:
            return np.asarray(self.start[bag][rows])
        raw: FloatArray = np.empty((len(rows), self._n_outputs))
        raw[:] = self.problem.rows.offset[rows] + self.problem.best_constant
        return raw

    @property
    def _n_outputs(self) -> int:
        return self.problem.objective.n_outputs

    def _grow_bag(self, bag: int) -> DeepBag:
        began, rows, objective = time.monotonic(), self.problem.rows, self.problem.objective
        where, training = self._side(bag, rows.training[:, bag] * rows.sizes[bag])
        held_where, held_out = self._side(bag, rows.validation[:, bag])
        residual, hessian = self._slopes(training)
        columns = self._columns(bag, where, residual, hessian)
        nodes = self.problem.codes.by_order[self.order]
        codes, held_codes = columns.coded(nodes, where), columns.coded(nodes, held_where)
        n_slots = 1 << max(max(rules.depth for rules in self.tree_rules) - 1, 0)
        widest = int(columns.sizes.max(initial=1))
        n_drawn = min(max(math.ceil(self.tree_share * len(codes)), FEWEST_COLUMNS), len(codes))
        space = np.empty((2, n_slots, n_drawn, self._n_outputs, widest), np.int64)
        leaf_of = np.zeros(len(where), np.int32)
        seed = np.uint64(self.problem.seed * SEEDS_PER_BAG + bag * self.max_rounds)
        stopping, trees = EarlyStopping(1, self.patience), list[Tree]()
        losses, n_best = [held_out_loss(objective, held_out, held_out.raw)], 0
        best = training.raw.copy(), held_out.raw.copy()
        stopping.update(np.array(losses), 0)
        while len(trees) < self.max_rounds and not (stopping.has_stalled or self._must_end):
            if trees:
                residual, hessian = self._slopes(training)
            tree_seed = np.uint64(scrambled(seed + np.uint64(len(trees))))
            some = _drawn(len(codes), n_drawn, tree_seed)
            asked, cuts, values = grow_tree(
                codes if n_drawn == len(codes) else codes[some], columns.sizes[some],
                columns.features[some], self.meetings, residual, hessian,
                self._rules_of(len(trees)), WEIGHTS, tree_seed, space, leaf_of,
            )  # fmt: skip
            if not len(asked):
                break
            trees.append(tree := Tree(some[asked], cuts, values))
            add_leaves(tree.values, leaf_of, training.raw)
            add_tree(held_codes, *tree, held_out.raw)
            losses.append(held_out_loss(objective, held_out, held_out.raw))
            if stopping.update(np.array(losses[-1:]), len(trees))[0]:
                n_best, best[0][:], best[1][:] = len(trees), training.raw, held_out.raw
        self._tell(bag, n_best, losses[n_best], began)
        raw = np.full((len(rows.y), self._n_outputs), np.nan)
        raw[where], raw[held_where] = best
        found = DeepBag(columns, trees[:n_best], losses[: n_best + 1], raw)
        others = np.flatnonzero(np.isnan(raw[:, 0]))  # rows without weight
        raw[others] = self._start(bag, others) + raw_scores(self.problem, found, others, self.order)
        return found

    def _rules_of(self, tree: int) -> TreeRules:
        """Rules of the tree with a number: where many trees are needed, their steps grow."""
        rules = self.tree_rules[tree % len(self.tree_rules)]
        return rules._replace(rate=rules.rate * (1 + tree / self.until_twice))

    @property
    def _must_end(self) -> bool:
        return self.limits.are_reached()

    def _tell(self, bag: int, rounds: int, loss: float, began: float) -> None:
        note = f"{self.note}, until the time limit" if self._must_end else self.note
        event = Event(
            stage="grow", note=note, bag=bag, step=rounds, validation_loss=loss,
            seconds=time.monotonic() - began,
        )  # fmt: skip
        self.events.append(event)
        self.progress.advance(event)

    def _slopes(self, side: Side) -> tuple[FloatArray, FloatArray]:
        """Residuals and hessians (n, K), times the weights."""
        gradient, hessian = self.problem.objective.slopes(side.y, side.raw, side.weights)
        return -side.weights * gradient, side.weights * hessian

    def _columns(
        self, bag: int, where: IntArray, residual: FloatArray, hessian: FloatArray
    ) -> Columns:
        """Columns of the features that vary, in canonical order."""
        axes = self.problem.encoder.axes[self.order]
        nodes = self.problem.codes.by_order[self.order]
        features, codes = list[int](), list[CodeArray]()
        rng = np.random.default_rng((self.problem.seed, bag))
        for feature in self.features:
            axis = axes[feature]
            if axis.n_nodes < 2:
                continue
            if axis.is_nominal:
                own = nodes[feature][where]
                some = range(min(self._n_outputs, MOST_LEVEL_ORDERS) if axis.n_nodes > 2 else 1)
                found = [level_codes(own, residual[:, k], hessian[:, k], axis) for k in some]
                if self.order > 1:  # what levels say alone is no sign of what they do to others
                    found += [shuffled_codes(axis, rng) for _ in range(MOST_LEVEL_ORDERS)]
            else:
                found = [self._ordered[feature]]
            features += [feature] * len(found)
            codes += found
        sizes = np.array([int(own.max()) + 1 for own in codes], np.intp)
        return Columns(np.array(features, np.intp), tuple(codes), sizes)


def _drawn(n: int, count: int, seed: np.uint64) -> IntArray:
    """Draw some of n columns, which stay in their order."""
    keys = scrambled(seed + np.arange(n, dtype=np.uint64))
    return np.sort(np.argsort(keys, kind="stable")[:count])


def ordered_codes(axis: Axis, most: int) -> CodeArray:
    """Code of every node of an axis with an order: missing values come first.

    >>> ordered_codes(Axis(np.arange(2.0), np.ones(3) / 3, has_missing=True), 256)
    array([1, 2, 0], dtype=uint8)
    """
    coarse = axis.coarsened(most - axis.has_missing)
    codes = coarse.codes(axis.numbers) + axis.has_missing
    codes[axis.missing] = 0
    return codes.astype(np.uint8)


def level_codes(
    nodes: CodeArray, residual: FloatArray, hessian: FloatArray, axis: Axis
) -> CodeArray:
    """Code of every level by the Newton step (n,) of its rows, which is shrunk where rows are few.

    Levels of neighbouring ranks share a code if there are too many.
    """
    slopes = np.bincount(nodes, residual, axis.n_nodes)
    masses = np.bincount(nodes, hessian, axis.n_nodes)
    prior = LEVEL_PRIOR_ROWS * float(hessian.sum()) / len(nodes)
    order = np.argsort(slopes / (masses + prior), kind="stable")
    codes = np.empty(len(order), np.uint8)
    ranks = np.arange(len(order), dtype=np.float64)
    if len(order) > MOST_CODES:  # about the same number of rows for each code
        weights = axis.weights[order]
        ranks = (np.cumsum(weights) - weights / 2) / weights.sum() * MOST_CODES
    codes[order] = np.clip(ranks, 0, MOST_CODES - 1).astype(np.uint8)
    return codes


def shuffled_codes(axis: Axis, rng: np.random.Generator) -> CodeArray:
    """Code of every level in a random order; of many levels, some share a code."""
    ranks = rng.permutation(axis.n_nodes)
    return (ranks * min(axis.n_nodes, MOST_CODES) // axis.n_nodes).astype(np.uint8)


def as_trees(problem: Problem, bags: Sequence[DeepBag]) -> list[Trees]:
    """Trees of each bag, whose questions are about values instead of codes."""
    axes, weights = problem.encoder.axes[1], problem.distinct.weights
    thresholds: dict[int, set[int]] = {j: set() for j in problem.features}
    asked = {  # of features with an order, of which all bags have the same codes
        (int(bag.columns.features[column]), cut): bag.columns.codes[column]
        for bag in bags
        for column, cut in bag.questions
        if not axes[bag.columns.features[column]].is_nominal
    }
    for (j, cut), own in asked.items():
        thresholds[j].add(_last_node(own, axes[j], cut))
    features, node_codes = list[TreeFeature](), list[IntArray]()
    for j, axis in enumerate(axes):
        codes, feature = _tree_feature(axis, sorted(thresholds[j]))
        masses = np.bincount(problem.codes.by_order[1][j], weights, axis.n_nodes)
        by_code = np.bincount(codes, masses, feature.n_codes)
        features.append(feature._replace(masses=by_code / by_code.sum()))
        node_codes.append(codes)
    known = {
        (j, cut): goes_right(features[j], node_codes[j], own > cut)
        for (j, cut), own in asked.items()
    }
    return [_bag_trees(problem, bag, features, node_codes, known) for bag in bags]


def _last_node(codes: CodeArray, axis: Axis, cut: int) -> int:
    """Last regular node that goes left at a cut; -1 if missing values alone do."""
    return int(np.count_nonzero(codes[axis.regular] <= cut)) - 1


def _tree_feature(axis: Axis, thresholds: list[int]) -> tuple[IntArray, TreeFeature]:
    """Code of each node among the intervals between thresholds, and the feature without masses."""
    if axis.groups is not None:
        n_codes = len(axis.values[axis.seen])
        groups, ends = axis.groups.astype(np.int32), np.empty(0)
        codes = np.arange(n_codes)
    else:
        ends = axis.ends[[node for node in thresholds if 0 <= node < len(axis.ends)]]
        n_codes, groups = len(ends) + 1, None
        codes = np.searchsorted(ends, axis.values, side="left")
    last = [n_codes] * axis.has_unseen + [n_codes + 1] * axis.has_missing
    return np.append(codes, last).astype(np.intp), TreeFeature(ends, groups, np.ones(n_codes + 2))


def _bag_trees(
    problem: Problem,
    bag: DeepBag,
    features: Sequence[TreeFeature],
    node_codes: Sequence[IntArray],  # of each feature: code of each node
    known: Mapping[tuple[int, int], NDArray[np.bool_]],  # which codes go right at a cut
) -> Trees:
    builder = TreeBuilder(features, problem.objective.n_outputs)
    parts = [unfold(tree.columns, tree.cuts) for tree in bag.trees]
    steps = [_asked(tree)[part[0]] for tree, part in zip(bag.trees, parts, strict=True)]
    of_nodes = np.concatenate([np.zeros(0, np.int64), *steps])
    keys, firsts, places = np.unique(of_nodes, return_index=True, return_inverse=True)
    numbers = np.empty(len(keys), np.int32)
    for first in np.argsort(firsts):  # in the order in which the trees ask
        column, cut = divmod(int(keys[first]), MOST_CODES + 1)
        j = int(bag.columns.features[column])
        right = known.get((j, cut))
        if right is None:
            right = goes_right(features[j], node_codes[j], bag.columns.codes[column] > cut)
        numbers[first] = builder.question(j, right)
    ends = np.cumsum([len(each) for each in steps])[:-1]
    questions = np.split(numbers[places], ends)
    for asked, tree, (_, children, leaves) in zip(questions, bag.trees, parts, strict=False):
        builder.add(asked, children, tree.values[leaves])
    return builder.trees()


def goes_right(
    feature: TreeFeature, node_codes: IntArray, nodes_go: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which codes of a feature go right, given which nodes do.

    What fit has not seen goes with the most rows, and left if each side has half of them.
    """
    right, is_known = np.zeros((2, feature.n_codes), np.bool_)
    right[node_codes], is_known[node_codes] = nodes_go, True
    right[~is_known] = float(feature.masses @ right) > 0.5 + SMALLEST_MAJORITY
    return right


def raw_scores(problem: Problem, bag: DeepBag, rows: Any, order: int = 1) -> FloatArray:
    """Raw scores (n, K) of the trees of a bag on some of the rows, without constant and offset.

    The trees cut between the nodes of an order.
    """
    nodes = problem.codes.by_order[order][:, rows]
    coded = bag.columns.coded(nodes, np.arange(nodes.shape[1]))
    raw = np.zeros((nodes.shape[1], problem.objective.n_outputs))
    for tree in bag.trees:
        add_tree(coded, *tree, raw)
    return raw
