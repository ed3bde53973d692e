"""Judge: what held-out rows say about candidate pairs or triples.

All candidates grow together on the residual of a solution, by deep trees. So do, as a control,
their subsets that lack one feature: what these mend too is no interaction of all features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import Component, canonical
from tpnn.solvers.grow.deep import DeepBag, DeepGrowth
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Solution, Verdict

FEWEST_BAGS, MOST_BAGS = 2, 8
ENOUGH_HELD_OUT_ROWS = 2000  # of all judging bags


@dataclass(frozen=True)
class Judge:
    """Grows candidates in a few bags and keeps account of the held-out rows."""

    growth: DeepGrowth  # of any components
    solution: Solution  # components of lower order, of all bags
    candidates: Sequence[Component]  # pairs or triples

    @property
    def problem(self) -> Problem:
        """Problem of the growth."""
        return self.growth.problem

    def verdict(self) -> Verdict:
        """Fall of the loss due to each candidate; how much better all do than their subsets."""
        start = self.problem.raw_scores_by_bag(self.solution)
        grown = [
            self.growth.within(components, start).grow(self.n_judging)
            for components in (self.candidates, subsets(self.candidates, self.problem))
        ]
        losses = [self._losses(bags) for bags in grown]
        differences = losses[0] - losses[1]
        change = float(differences.sum())
        weights = self.problem.rows.validation[:, : self.n_judging].mean(1)
        differences -= weights * change
        falls = np.mean([self._falls(bag) for bag in grown[0]], axis=0)
        return Verdict(falls, change, float(np.sqrt(differences @ differences)))

    @property
    def n_judging(self) -> int:
        """Number of bags that judge: those that hold out few rows are more."""
        held_out = int(np.count_nonzero(self.problem.rows.validation[:, 0]))
        wanted = -(-ENOUGH_HELD_OUT_ROWS // max(held_out, 1))
        return min(max(wanted, FEWEST_BAGS), MOST_BAGS, self.problem.n_bags)

    def _falls(self, bag: DeepBag) -> FloatArray:
        """Fall of the held-out loss by the trees of all features of each candidate."""
        index = {frozenset(s): place for place, s in enumerate(self.candidates)}
        falls = np.zeros(len(index))
        for asked, fall in zip(bag.asked, bag.falls, strict=True):
            if asked in index:
                falls[index[asked]] += fall
        return falls

    def _losses(self, bags: Sequence[DeepBag]) -> FloatArray:
        """Weighted loss of each row (n,) where it is held out, mean over the bags."""
        rows, objective = self.problem.rows, self.problem.objective
        losses = np.zeros(len(rows.y))
        for number, bag in enumerate(bags):
            where = np.flatnonzero(rows.validation[:, number])
            y, weights = rows.y[where].astype(np.float64), rows.validation[where, number, None]
            own = objective.losses(y, bag.raw[where], weights.astype(np.float64)) * weights
            losses[where] += own[:, 0] / len(bags)
        return losses


def subsets(components: Sequence[Component], problem: Problem) -> list[Component]:
    """Subsets that lack one feature of a component."""
    parts = {part for s in components for part in combinations(s, len(s) - 1)}
    return list(canonical(parts, problem.features))
