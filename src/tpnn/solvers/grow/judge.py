"""Judging pairs or triples: which of many candidates growth confirms on held-out rows.

Projections of the residual miss interactions of levels, of heavy-tailed targets and of rough
surfaces. Growth misses none of them: a few bags grow all candidates at once, on coarse grids, from
the components fitted so far. Every step that a candidate takes on the training rows is also taken
on the held-out rows, and the fall of their loss, summed over its steps, is the candidate's score.

A triple can also mend what its main effects and pairs left behind. So the pairs of the same
features grow in the same way, and all triples together must do better than they do; pairs must do
better than their main effects.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from tpnn._utils.arrays import CodeArray, FloatArray
from tpnn.anova.components import Component, canonical
from tpnn.anova.measure import Marginal
from tpnn.solvers.grow.card.card import Card
from tpnn.solvers.grow.engine import BagGrower
from tpnn.solvers.grow.forest import axis_kinds
from tpnn.solvers.grow.rectangles import ORDERED
from tpnn.solvers.grow.ridge_start import coarsen
from tpnn.solvers.grow.triple_bags import TripleBags
from tpnn.solvers.grow.triples import CuboidForest
from tpnn.solvers.problem.coded import CodedComponents
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Solution, Verdict

JUDGING_NODES = 10  # per feature
FEWEST_BAGS, MOST_BAGS = 2, 8
ENOUGH_HELD_OUT_ROWS = 2000  # of all judging bags


class Judge:
    """Grows candidates in a few bags and keeps account of the held-out rows."""

    def __init__(
        self,
        problem: Problem,
        solution: Solution,  # components of lower order, of all bags
        candidates: list[Component],  # pairs or triples
        grower: BagGrower,
        card: Card | None = None,  # that holds the rows; by default they are in memory
    ) -> None:
        self.problem, self.grower, self.card = problem, grower, card
        self.order = len(candidates[0])
        self.marginal, self.codes = self._coarse_codes()
        self.candidates = self._bags(candidates)
        self.control = self._bags(_subsets(candidates, problem))
        self.raw = problem.raw_scores_by_bag(solution)

    def _coarse_codes(self) -> tuple[Marginal, CodeArray]:
        """Measure of the features on coarse nodes, and codes with two features of one node more."""
        fine, codes = Marginal.of(self.problem.encoder.axes[self.order]), self.problem.codes
        given = codes.by_order[self.order]
        marginal, coarse = coarsen(fine, given, JUDGING_NODES, codes.shelf)
        joined = codes.shelf.zeros((len(coarse) + 2, coarse.shape[1]), coarse.dtype)
        joined[: len(coarse)] = coarse
        return marginal, joined

    def _bags(self, components: list[Component]) -> TripleBags:
        """Bags of triples on coarse grids; last features of one node make all of them triples."""
        last = (len(self.codes) - 2, len(self.codes) - 1)
        triples = np.array([(*component, *last)[:3] for component in components])
        part = CodedComponents(self.codes, triples, self.marginal.n_nodes)
        sizes, kinds = (
            np.append(self.marginal.sizes, [1, 1]),
            np.append(axis_kinds(self.marginal), 2 * [ORDERED]),
        )
        return TripleBags(self.problem, self.grower, part, sizes, kinds, card=self.card)

    def verdict(self) -> Verdict:
        """Fall of the loss due to each candidate; how much better all do than their subsets."""
        bags = range(self._n_judging())
        with self.grower.limits.workers() as workers:
            judged = workers.map(self._judged, bags)
        falls = np.mean([falls for falls, _ in judged], axis=0)
        differences = np.mean([change for _, change in judged], axis=0)
        mean = float(differences.sum())
        weights = self.problem.rows.validation[:, : len(bags)].mean(1)
        differences -= weights * mean
        return Verdict(falls, mean, float(np.sqrt(differences @ differences)))

    def _n_judging(self) -> int:
        held_out = int(np.count_nonzero(self.problem.rows.validation[:, 0]))
        wanted = -(-ENOUGH_HELD_OUT_ROWS // max(held_out, 1))
        return min(max(wanted, FEWEST_BAGS), MOST_BAGS, self.problem.n_bags)

    def _judged(self, bag: int) -> tuple[FloatArray, FloatArray]:
        """Falls due to each candidate, and weighted difference of the losses of all rows (n,)."""
        control = self.control.forest(bag, self.raw[bag])
        forest = self.candidates.forest(bag, self.raw[bag])
        difference = np.zeros(self.raw.shape[1])
        rows = np.flatnonzero(self.problem.rows.validation[:, bag])
        difference[rows] = self._grown_losses(forest) - self._grown_losses(control)
        return forest.confirmed, difference

    def _grown_losses(self, forest: CuboidForest) -> FloatArray:
        """Weighted losses of the held-out rows after growth, (n_held_out,)."""
        side = forest.held_out
        grown = self.grower.grow(forest, forest.training, side)
        losses = self.problem.objective.losses(side.y, grown.held_out, side.weights)
        weighted: FloatArray = (losses * side.weights)[:, 0]
        return weighted


def _subsets(components: list[Component], problem: Problem) -> list[Component]:
    """Subsets that lack one feature of a component."""
    subsets = {part for s in components for part in combinations(s, len(s) - 1)}
    return list(canonical(subsets, problem.features))
