"""BoxForest: components of four or more features of one bag, grown by box trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import Float32Array, FloatArray, IntArray
from tpnn.solvers.grow.bag import BagGrower, Grown, Side, Tables, set_scales
from tpnn.solvers.grow.boxes import BoxGrowth, BoxRows, grow_visits
from tpnn.solvers.grow.forest import bounded_tree, tree_for_size
from tpnn.solvers.grow.frozen import are_frozen, frozen_parts
from tpnn.solvers.grow.sides import higher_side
from tpnn.solvers.grow.trees import UNVISITED_GAIN, TreeSettings
from tpnn.solvers.problem.coded import CodedComponents
from tpnn.solvers.problem.problem import Problem
from tpnn.table.axis import Axis

VISITS_PER_CHECK = 25  # to the components of each output
BOX_TREE = TreeSettings(
    n_leaves=0, rate=0.1, ridge=5.0, min_mass=2.0, share=0.1, fewest=8, random_first=True
)


class BoxForest:
    """Components of higher orders of one bag; every output gets the same visits per round.

    Parameters
    ----------
    rows : BoxRows
        Training rows.
    trees : tuple of TreeSettings
        Settings of the trees of each order.
    growths : list of BoxGrowth
        State of every output.
    """

    rounds_per_check = 1
    visits_per_check = 1
    keeps_slopes = False  # rounding errors add up over many small visits
    tolerance = 0.0
    grace = 0

    def __init__(
        self, rows: BoxRows, trees: tuple[TreeSettings, ...], growths: list[BoxGrowth]
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
    """Grows the components of order four and above, bag by bag.

    Parameters
    ----------
    problem : Problem
        Components of every order.
    grower : BagGrower
        Grows one bag.
    """

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
                size = axes[feature].n_regular
                if axes[feature].is_nominal:
                    places[feature, :size] = rng.permutation(size)
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
