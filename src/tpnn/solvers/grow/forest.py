"""Frozen components: they do not grow, and what others would move into them is taken out.

The average of a pair over one feature belongs to the main effect of the other. If that is frozen,
the average is subtracted from the pair after every visit, so that growth sees what will be left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import BoolArray, Float32Array, FloatArray, IntArray, RealArray
from tpnn.anova.components import Component
from tpnn.anova.measure import Marginal, part_of
from tpnn.anova.shapes import MONOTONE
from tpnn.loss.objectives import Objective
from tpnn.solvers.grow.engine import Side, Tables, set_scales
from tpnn.solvers.grow.rectangles import (
    FROZEN_GAIN,
    MISSING,
    NOMINAL,
    ORDERED,
    UNVISITED_GAIN,
    TreeSettings,
)
from tpnn.solvers.grow.rounds import (
    MASS_REFRESH_ROUNDS,
    NOTHING,
    Growth,
    Plan,
    Rows,
    Slopes,
    grow_rounds,
)
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.problem.sums import totals
from tpnn.table.axis import Axis


@dataclass(frozen=True)
class FrozenParts:
    """Parts of one component that belong to frozen ones."""

    index: int  # of the component among those of its order
    weights: list[FloatArray]  # (M_j,), masses along each of its axes
    kept: list[tuple[int, ...]]  # axes of each part

    def taken_from(self, grid: Float32Array) -> Float32Array:
        """Grid (M_1, ..., M_d), which may be padded, without these parts."""
        cells = tuple(slice(len(masses)) for masses in self.weights)
        own = grid[cells].astype(np.float64)
        for kept in self.kept:
            part = part_of(own, self.weights, kept)
            others = tuple(axis for axis in range(own.ndim) if axis not in kept)
            own = own - np.expand_dims(part, others)
        left = grid.copy()
        left[cells] = own
        return left


@dataclass(frozen=True)
class Frozen:
    """What must not grow of main effects and pairs."""

    components: BoolArray  # (n_pairs + n_mains,): whether each is frozen, pairs first
    pair_parts: list[FrozenParts]  # what pairs would move into frozen main effects

    @classmethod
    def of(cls, problem: Problem) -> Frozen | None:
        """Read what a problem of main effects and pairs freezes; None for nothing."""
        if problem.base is None or not problem.base.frozen:
            return None
        mains, pairs = ([s for s in problem.ordered if len(s) == order] for order in (1, 2))
        return cls(are_frozen([*pairs, *mains], problem), frozen_parts(pairs, problem))


def are_frozen(components: Sequence[Component], problem: Problem) -> BoolArray:
    """Whether each of some components is frozen, (n_components,)."""
    frozen = frozenset() if problem.base is None else problem.base.frozen
    return np.array([tuple(sorted(s)) in frozen for s in components], bool)


def frozen_parts(components: Sequence[Component], problem: Problem) -> list[FrozenParts]:
    """Parts of some components of one order that belong to frozen components of lower order."""
    if problem.base is None or not problem.base.frozen:
        return []
    frozen, axes = problem.base.frozen, problem.encoder.axes
    found = []
    for index, component in enumerate(components):
        kept = [
            places
            for size in range(1, len(component))
            for places in combinations(range(len(component)), size)
            if tuple(sorted(component[place] for place in places)) in frozen
        ]
        if kept:
            found.append(FrozenParts(index, _masses(component, axes), kept))
    return found


def _masses(component: Component, axes: Mapping[int, Sequence[Axis]]) -> list[FloatArray]:
    return [axes[len(component)][feature].weights for feature in component]


MAIN_TREE = TreeSettings(
    n_leaves=2, rate=0.05, ridge=5.0, min_mass=2.0, share=0.1, fewest=8, random_first=False
)
LONE_MAIN_TREE = MAIN_TREE._replace(n_leaves=4, rate=0.3)  # without pairs, small steps stall
LARGE_PAIR_TREE = MAIN_TREE._replace(n_leaves=16, random_first=True)  # for sharp surfaces
SMALL_PAIR_TREE = LARGE_PAIR_TREE._replace(n_leaves=8, rate=0.2)  # for smooth ones
GENTLE_PAIR_TREE = LARGE_PAIR_TREE._replace(n_leaves=4)  # for smooth ones of competing classes
ROUNDS_PER_CHECK = 10
SLOPE_REFRESH_ROUNDS = 5  # after which slopes are recomputed, unless the loss is quadratic
ROUNDS_OF_MAINS_ALONE = 50
PROGRESS_SHARE = 2e-4  # relative fall of the held-out loss that counts as progress
LARGEST_LOG_STEP = 1.0  # largest leaf value on a logarithmic scale, before shrinkage
LARGEST_RIDGE_SHARE = 0.01  # of the rows; bounds the ridge and the smallest leaf
MANY_PAIRS, SMALLEST_RATE_SHARE = 40, 0.15  # more pairs, all visited in a round, take smaller steps
MANY_ROWS, MANY_ROWS_RATE = 50_000, 0.25  # with more rows, larger steps are as accurate


def bounded_tree(tree: TreeSettings, objective: Objective) -> TreeSettings:
    """Bound the leaf values of a loss with unbounded curvature, whose Newton steps can be huge."""
    return tree._replace(largest=LARGEST_LOG_STEP) if objective.steep else tree


def tree_for_size(tree: TreeSettings, size: float) -> TreeSettings:
    """Keep the ridge and the smallest leaf small relative to the number of rows."""
    most = LARGEST_RIDGE_SHARE * size
    return tree._replace(ridge=min(tree.ridge, most), min_mass=min(tree.min_mass, most))


def axis_kinds(marginal: Marginal) -> NDArray[np.int64]:
    """How a tree may cut each feature: in order, in order except for missing values, or freely."""
    ordered = np.where(marginal.missing, MISSING, ORDERED)
    return np.where(marginal.nominal, NOMINAL, ordered)


@dataclass(frozen=True)
class Layout:
    """What trees need to know about the axes of main effects, then of pairs."""

    sizes: tuple[IntArray, IntArray]  # (n_features,): number of nodes
    kinds: tuple[NDArray[np.int64], NDArray[np.int64]]  # (n_features,): how each axis may be cut
    signs: FloatArray  # (n_features,): 1 or -1 for main effects of one direction, else 0

    @classmethod
    def of(
        cls, fine: Marginal, coarse: Marginal, mains: Sequence[int], shapes: Mapping[int, str]
    ) -> Layout:
        """Layout for the main effects of the features ``mains`` and for pairs of any features."""
        signs = [MONOTONE.get(shapes.get(feature, ""), 0.0) for feature in mains]
        listed = np.asarray(mains)
        return cls(
            (fine.sizes[listed], coarse.sizes),
            (axis_kinds(fine)[listed], axis_kinds(coarse)),
            np.array(signs),
        )


class Extent(NamedTuple):
    """Number of training rows of a bag, and their mass, in rows."""

    n_rows: int
    mass: float

    @classmethod
    def of(cls, weights: RealArray) -> Extent:
        """Extent of training rows with the given weights (n_rows, 1)."""
        return cls(len(weights), float(totals(weights)[0]))


class RectangleForest:
    """Main effects and pairs of one bag.

    Where others hold the rows, ``training`` has none: then only ``plan`` and ``grown`` are used.
    """

    rounds_per_check = ROUNDS_PER_CHECK
    visits_per_check = ROUNDS_PER_CHECK // SLOPE_REFRESH_ROUNDS
    tolerance = PROGRESS_SHARE
    grace = ROUNDS_OF_MAINS_ALONE

    def __init__(
        self,
        layout: Layout,
        objective: Objective,
        training: Side,  # its ``coded`` are main effects and, if there are any, pairs
        start: Tables,  # (K, n_features, M1, 1) and (K, n_pairs, M2, M2)
        seed: int,  # of the random cuts
        pair_tree: TreeSettings | None = None,  # None if main effects grow alone
        extent: Extent | None = None,  # of all training rows of the bag; by default of ``training``
        frozen: Frozen | None = None,  # what must not grow
    ) -> None:
        self.layout, self.objective = layout, objective
        self.start, self.seed = start, seed
        self.frozen_parts = [] if frozen is None else frozen.pair_parts
        self.frozen_identity = None if frozen is None else astuple(frozen)
        has_pairs = start.by_order[1].shape[1] > 0
        self.grows_pairs = pair_tree is not None and has_pairs
        is_quadratic = objective.reweightings == 1  # then visits keep the slopes exact
        self.keeps_slopes = is_quadratic and not self.frozen_parts
        size = extent or Extent.of(training.weights)
        trees = _trees(objective, size, pair_tree, start.by_order[1].shape[1])
        self.rows = _rows(training)
        self.plan = Plan(
            pairs=self.rows.pairs, sizes=layout.sizes, kinds=layout.kinds, signs=layout.signs,
            main_tree=trees[0], pair_tree=trees[1],
        )  # fmt: skip
        self.grown = _new_growths(start, seed)
        if frozen is not None:
            for growth in self.grown:
                growth.gains[frozen.components] = FROZEN_GAIN
        self.growths = [_new_slopes(training) for _ in self.grown]

    def visit(self, rounds: int) -> None:
        """Visit the components of every output for a few rounds."""
        also_pairs = self.visits_pairs(rounds)
        for slopes, growth in zip(self.growths, self.grown, strict=True):
            grow_rounds(self.rows, slopes, growth, self.plan, SLOPE_REFRESH_ROUNDS, also_pairs)
            for parts in self.frozen_parts:
                growth.pairs[parts.index] = parts.taken_from(growth.pairs[parts.index])

    def visits_pairs(self, rounds: int) -> bool:
        """Whether pairs are visited after so many rounds."""
        return self.grows_pairs and rounds >= ROUNDS_OF_MAINS_ALONE

    def scores(self, side: Side) -> Float32Array:
        """Raw scores of rows, (n_rows, K)."""
        scores = side.shelf.empty((len(side.y), len(self.grown)), np.float32)
        for output, growth in enumerate(self.grown):
            known = side.raw if side.raw.shape[1] == 1 else side.raw[:, output, None]
            raw = known + np.float32(growth.intercept[0])  # (n_rows, 1)
            for part, tables in zip(side.coded, (growth.mains, growth.pairs), strict=False):
                part.gather(tables.reshape(*part.shape, 1), 0, raw)
            scores[:, output] = raw[:, 0]
        return scores

    def tables(self) -> Tables:
        """Copy of the current grids of values and intercepts."""
        mains = np.stack([growth.mains for growth in self.grown])
        pairs = np.stack([growth.pairs for growth in self.grown])
        return Tables([mains, pairs], np.concatenate([g.intercept for g in self.grown]))

    def slopes_changed(self) -> None:
        """Choose new scales, and raise the age of the sums of the hessian."""
        for slopes in self.growths:
            set_scales(slopes)
        self.age_masses()

    def age_masses(self) -> None:
        """Raise the age of the sums of the hessian; old sums are recomputed."""
        for growth in self.grown:
            growth.ages[:] += MASS_REFRESH_ROUNDS if self.objective.steep else SLOPE_REFRESH_ROUNDS

    def state(self) -> list[NDArray[Any]]:
        """Arrays that hold where the growth stands.

        Of a quadratic loss, sums of the hessian are the same whenever they are computed; of others,
        slopes are recomputed anyway.
        """
        arrays: list[NDArray[Any]] = []
        for slopes, growth in zip(self.growths, self.grown, strict=True):
            arrays += [growth.mains, growth.pairs, growth.gains, growth.intercept, growth.state]
            if self.keeps_slopes:
                arrays += [slopes.residual, slopes.scales]
            else:
                arrays += [growth.ages, growth.main_mass, growth.pair_mass]
        return arrays

    def identity(self) -> tuple[Any, ...]:
        """Return what the growth depends on besides its rows."""
        return *self.plan, self.grows_pairs, self.start, self.seed, self.frozen_identity


def _trees(
    objective: Objective, size: Extent, pair: TreeSettings | None, n_pairs: int
) -> tuple[TreeSettings, TreeSettings]:
    """Adapt the trees of main effects and pairs to the loss and the numbers of rows and pairs."""
    main = MAIN_TREE
    if (pair is None or not n_pairs) and not objective.couples_outputs:
        main = LONE_MAIN_TREE
    pair = pair or LARGE_PAIR_TREE
    share = max(min(MANY_PAIRS / max(n_pairs, 1), 1.0), SMALLEST_RATE_SHARE)
    pair = pair._replace(rate=share * pair.rate)
    if size.n_rows > MANY_ROWS:
        main, pair = (t._replace(rate=max(t.rate, MANY_ROWS_RATE)) for t in (main, pair))
    main, pair = (tree_for_size(tree, size.mass) for tree in (main, pair))
    return bounded_tree(main, objective), bounded_tree(pair, objective)


def _rows(training: Side) -> Rows:
    """Training rows in the form that the compiled rounds expect."""
    fine, coarse = training.coded[0], training.coded[-1]
    pairs = coarse.features if len(training.coded) > 1 else np.empty((0, 2), np.intp)
    return Rows(fine.codes, coarse.codes, np.zeros(len(training.y), np.uint8), pairs)


def _new_slopes(training: Side) -> Slopes:
    """Slopes of one output, before they are computed."""
    rows = training.shelf.empty((2, len(training.y)), np.float32)
    return Slopes(residual=rows[0], hessian=rows[1], scales=np.ones(2, np.float32))


def _new_growths(start: Tables, seed: int) -> list[Growth]:
    """Return the initial state of every output."""
    mains, pairs = start.by_order
    n_outputs, n_mains, fine, _ = mains.shape
    _, n_pairs, coarse, _ = pairs.shape
    n_cells = max(fine, coarse**2)
    return [
        Growth(
            mains=np.array(mains[output], order="C"),
            pairs=np.array(pairs[output], order="C"),
            main_mass=np.zeros((n_mains, fine + 1, 2)),
            pair_mass=np.zeros((n_pairs, coarse + 1, coarse + 1)),
            gains=np.full(n_mains + n_pairs, UNVISITED_GAIN),
            ages=np.full(n_mains + n_pairs, MASS_REFRESH_ROUNDS),
            intercept=start.intercepts[output : output + 1].copy(),
            state=np.array([seed * n_outputs + output], np.uint64),
            asked=np.array([NOTHING, 0]),
            largest=np.zeros(1),
            sums=np.zeros((2, n_cells), np.int64),
            step=np.zeros(n_cells, np.float32),
        )
        for output in range(n_outputs)
    ]
