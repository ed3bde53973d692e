"""Judging triples: which of many candidates growth confirms on held-out rows.

Projections of the residual miss interactions of levels, of heavy-tailed targets and of rough
surfaces. Growth misses none of them: a few bags grow all candidates at once, on coarse grids, from
the fitted main effects and pairs. Every step that a triple takes on the training rows is also taken
on the held-out rows, and the fall of their loss, summed over its steps, is the triple's score.

A triple can also mend what its main effects and pairs left behind. So the pairs of the same
features grow in the same way, and all triples together must do better than they do.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from tpnn._typing import FloatArray
from tpnn.anova.components import Component, canonical
from tpnn.anova.measure import Marginal
from tpnn.grow.bag import BagGrower
from tpnn.grow.forest import axis_kinds
from tpnn.grow.rectangles import ORDERED
from tpnn.grow.ridge_start import coarsen
from tpnn.grow.triples import CuboidForest, TripleBags
from tpnn.problem.coded import CodedComponents
from tpnn.problem.problem import Problem
from tpnn.problem.solution import Solution, Verdict

JUDGING_NODES = 10  # per feature
FEWEST_BAGS, MOST_BAGS = 2, 8
ENOUGH_HELD_OUT_ROWS = 2000  # of all judging bags


class Judge:
    """Grows candidate triples in a few bags and keeps account of the held-out rows.

    Parameters
    ----------
    problem : Problem
        Rows, bags and loss.
    solution : Solution
        Main effects and pairs of all bags.
    triples : list of tuple of int
        The candidates.
    grower : BagGrower
        Grows one bag.
    """

    def __init__(
        self,
        problem: Problem,
        solution: Solution,
        triples: list[Component],
        grower: BagGrower,
    ) -> None:
        self.problem, self.grower = problem, grower
        self.triples = self._bags(triples)
        self.pairs = self._bags(_pairs_of(triples, problem))
        raw = problem.raw_scores(solution)
        self.raw = raw.reshape(len(raw), problem.n_bags, -1)

    def _bags(self, components: list[Component]) -> TripleBags:
        """Bags of triples on coarse grids; a last feature of one node makes pairs triples too."""
        fine = Marginal.of(self.problem.encoder.axes[3])
        marginal, codes = coarsen(fine, self.problem.codes.of_order(3), JUDGING_NODES)
        codes = np.vstack([codes, np.zeros_like(codes[:1])])
        part = CodedComponents(codes, np.array(components), marginal.n_nodes)
        sizes, kinds = np.append(marginal.sizes, 1), np.append(axis_kinds(marginal), ORDERED)
        return TripleBags(self.problem, self.grower, part, sizes, kinds)

    def verdict(self) -> Verdict:
        """Fall of the loss due to each triple; how much better all do than their pairs."""
        bags = range(self._n_judging())
        with self.grower.limits.workers() as workers:
            judged = workers.map(self._judged, bags)
        falls = np.mean([falls for falls, _ in judged], axis=0)
        differences = np.mean([change for _, change in judged], axis=0)
        mean = float(differences.sum())
        weights = self.problem.rows.validation[:, : len(bags)].mean(1)
        deviations = differences - weights * mean
        return Verdict(falls, mean, float(np.sqrt(deviations @ deviations)))

    def _n_judging(self) -> int:
        held_out = int(np.count_nonzero(self.problem.rows.validation[:, 0]))
        wanted = -(-ENOUGH_HELD_OUT_ROWS // max(held_out, 1))
        return min(max(wanted, FEWEST_BAGS), MOST_BAGS, self.problem.n_bags)

    def _judged(self, bag: int) -> tuple[FloatArray, FloatArray]:
        """Falls due to each triple, and weighted difference of the losses of all rows (n,)."""
        control = self.pairs.forest(bag, self.raw[:, bag])
        forest = self.triples.forest(bag, self.raw[:, bag])
        difference = np.zeros(len(self.raw))
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


def _pairs_of(triples: list[Component], problem: Problem) -> list[Component]:
    """Pairs within the triples, each with the last feature, that of one node, as its third."""
    pairs = {pair for triple in triples for pair in combinations(triple, 2)}
    last = problem.encoder.n_features
    return [(*pair, last) for pair in canonical(pairs, problem.features)]
