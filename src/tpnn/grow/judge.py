"""Judging triples: which of many candidates growth confirms on held-out rows.

Projections of the residual miss interactions of levels, of heavy-tailed targets and of rough
surfaces. Growth misses none of them: a few bags grow all candidates at once, on coarse grids, from
the fitted main effects and pairs. Every step that a triple takes on the training rows is also taken
on the held-out rows, and the fall of their loss, summed over its steps, is the triple's score.
"""

from __future__ import annotations

import numpy as np

from tpnn._typing import FloatArray
from tpnn.anova.components import Component
from tpnn.anova.measure import Marginal
from tpnn.grow.bag import BagGrower
from tpnn.grow.ridge_start import coarsen
from tpnn.grow.triples import TripleBags
from tpnn.problem.coded import CodedComponents
from tpnn.problem.problem import Problem
from tpnn.problem.solution import Solution, Verdict

JUDGING_NODES = 10  # per feature
FEWEST_BAGS, ENOUGH_HELD_OUT_ROWS = 2, 2000  # more bags judge where each holds out few rows


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
        fine = Marginal.of(problem.encoder.axes[3])
        marginal, codes = coarsen(fine, problem.codes.of_order(3), JUDGING_NODES)
        part = CodedComponents(codes, np.array(triples), marginal.n_nodes)
        self.bags = TripleBags(problem, grower, part, marginal)
        raw = problem.raw_scores(solution)
        self.raw = raw.reshape(len(raw), problem.n_bags, -1)

    def verdict(self) -> Verdict:
        """Fall of the held-out loss due to each triple, and due to all of them together."""
        count = self._n_judging()
        with self.grower.limits.workers() as workers:
            judged = workers.map(self._judged, range(count))
        falls = np.mean([falls for falls, _ in judged], axis=0)
        differences = np.sum([change for _, change in judged], axis=0) / count
        mean = float(differences.sum())
        weights = self.problem.rows.validation[:, :count].mean(1)
        deviations = differences - weights * mean
        return Verdict(falls, mean, float(np.sqrt(deviations @ deviations)))

    def _n_judging(self) -> int:
        held_out = int(np.count_nonzero(self.problem.rows.validation[:, 0]))
        wanted = -(-ENOUGH_HELD_OUT_ROWS // max(held_out, 1))
        return min(max(wanted, FEWEST_BAGS), self.problem.n_bags)

    def _judged(self, bag: int) -> tuple[FloatArray, FloatArray]:
        """Falls due to each triple, and weighted change of the loss of every row (n,), of a bag."""
        forest = self.bags.forest(bag, self.raw[:, bag])
        side, objective = forest.held_out, self.problem.objective
        before = objective.losses(side.y, side.raw, side.weights)
        grown = self.grower.grow(forest, forest.training, side)
        after = objective.losses(side.y, grown.held_out, side.weights)
        change = np.zeros(len(self.raw))
        rows = np.flatnonzero(self.problem.rows.validation[:, bag])
        change[rows] = ((after - before) * side.weights)[:, 0]
        return forest.confirmed, change
