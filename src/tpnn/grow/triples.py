"""CuboidForest: triples of one bag, grown by cuboid trees."""

from __future__ import annotations

import os

import numpy as np

from tpnn._typing import Float32Array, FloatArray
from tpnn.anova.measure import Marginal
from tpnn.grow.bag import BagGrower, Grown, Side, Tables
from tpnn.grow.cuboids import TripleGrowth, TripleRows, grow_triples
from tpnn.grow.forest import axis_kinds, bounded_tree, tree_for_size
from tpnn.grow.trees import UNVISITED_GAIN, TreeSettings
from tpnn.problem.problem import Problem

VISITS_PER_CHECK = int(os.environ.get("T_VISITS", 25))  # to the triples of each output
CUBOID_TREE = TreeSettings(
    n_leaves=int(os.environ.get("T_LEAVES", 16)), rate=float(os.environ.get("T_RATE", 0.1)), ridge=5.0, min_mass=2.0, share=0.1, fewest=8, random_first=True
)


class CuboidForest:
    """Triples of one bag; every output gets the same visits per round.

    Parameters
    ----------
    rows : TripleRows
        Coded rows of both sides.
    tree : TreeSettings
        Settings of the trees.
    growths : list of TripleGrowth
        State of every output.
    training : Side
        The training side, to tell it from the held-out side.
    """

    rounds_per_check = 1
    visits_per_check = 1
    keeps_slopes = False  # rounding errors add up over many small visits
    tolerance = float(os.environ.get("T_TOL", 0.0))
    grace = 0

    def __init__(
        self, rows: TripleRows, tree: TreeSettings, growths: list[TripleGrowth], training: Side
    ) -> None:
        self.rows, self.tree, self.growths, self.training = rows, tree, growths, training
        self.copies = np.stack([growth.tables for growth in growths])

    def visit(self, rounds: int) -> None:
        """Visit triples of every output."""
        for growth in self.growths:
            grow_triples(self.rows, growth, VISITS_PER_CHECK, self.tree)

    def scores(self, side: Side) -> FloatArray:
        """Raw scores of the rows of one side, (n_rows, K), which visits keep up to date."""
        is_training = side is self.training
        return np.stack([g.raw if is_training else g.held_out for g in self.growths], axis=1)

    def tables(self) -> Tables:
        """Copy of the current grids; a later copy replaces it, grid by grid."""
        for copy, growth in zip(self.copies, self.growths, strict=True):
            copy[growth.changed] = growth.tables[growth.changed]
            growth.changed[:] = False
        n_outputs, n_triples = self.copies.shape[:2]
        flat = self.copies.reshape(n_outputs, n_triples, -1)
        return Tables([flat], np.zeros(n_outputs))

    def slopes_changed(self) -> None:
        """Do nothing: every visit sums the slopes afresh."""


class TripleBags:
    """Grows triples, bag by bag.

    Parameters
    ----------
    problem : Problem
        Components of every order.
    grower : BagGrower
        Grows one bag.
    """

    def __init__(self, problem: Problem, grower: BagGrower) -> None:
        self.problem, self.grower = problem, grower
        self.parts = [part for part in problem.coded if part.features.shape[1] == 3]

    def grow(self, bag: int, raw: FloatArray) -> Grown:
        """Grow one bag on the residual of the raw scores ``raw`` (n, K)."""
        rows, objective = self.problem.rows, self.problem.objective
        training = self._side(rows.training[:, bag] * rows.sizes[bag], raw)
        held_out = self._side(rows.validation[:, bag], raw)
        tree = bounded_tree(tree_for_size(CUBOID_TREE, float(rows.sizes[bag])), objective)
        growths = self._new_growths(training, held_out, bag)
        marginal = Marginal.of(self.problem.encoder.axes[3])
        triple_rows = TripleRows(
            training=training.coded[0].codes,
            held_out=held_out.coded[0].codes,
            triples=self.parts[0].features,
            sizes=marginal.sizes,
            kinds=axis_kinds(marginal),
        )
        forest = CuboidForest(triple_rows, tree, growths, training)
        return self.grower.grow(forest, training, held_out)

    def _side(self, weights: Float32Array, raw: FloatArray) -> Side:
        where = np.flatnonzero(weights)
        (part,) = self.parts
        coded = type(part)(np.ascontiguousarray(part.codes[:, where]), part.features, part.n_nodes)
        y = self.problem.rows.y[where].astype(np.float64)
        return Side([coded], y, weights[where, None].astype(np.float64), raw[where])

    def _new_growths(self, training: Side, held_out: Side, bag: int) -> list[TripleGrowth]:
        """Return the initial state of every output."""
        (part,), n_outputs = self.parts, training.raw.shape[1]
        n_triples, n_rows = len(part.features), len(training.y)
        first = (self.problem.seed * self.problem.n_bags + bag) * n_outputs
        return [
            TripleGrowth(
                tables=np.zeros((n_triples, *[part.n_nodes] * 3), np.float32),
                raw=training.raw[:, output].copy(),
                held_out=held_out.raw[:, output].copy(),
                residual=np.zeros(n_rows),
                hessian=np.zeros(n_rows),
                gains=np.full(n_triples, UNVISITED_GAIN),
                changed=np.zeros(n_triples, np.bool_),
                state=np.array([first + output], np.uint64),
            )
            for output in range(n_outputs)
        ]
