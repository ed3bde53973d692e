"""TableScreen: rank interactions on the residual of a solution, by the columns of the table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from importlib import import_module

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import Component
from tpnn.anova.measure import Marginal
from tpnn.search.screen import Ranking, Screen
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Limits, Solution
from tpnn.solvers.solver import Solver

RANKED_PAIRS_PER_FEATURE = 10
MOST_SCREENED_ROWS = 250_000  # more rank no better, and need some hundred bytes each


def screen_limits(solver: Solver, limits: Limits) -> Limits:
    """Limits of a screen: on the card only where the solver's own rounding differs there too."""
    return limits if solver.screens_on_card else replace(limits, device="cpu")


class TableScreen:
    """Screens the residual of a solution, with the features in canonical order."""

    def __init__(
        self,
        problem: Problem,
        solution: Solution | None,  # None for the constant alone
        limits: Limits,
    ) -> None:
        problem = problem.sampled(MOST_SCREENED_ROWS)
        self.features = np.array(problem.features)
        self.places = {feature: place for place, feature in enumerate(problem.features)}
        marginal = Marginal.of([problem.encoder.axes[1][feature] for feature in self.features])
        codes = problem.codes.by_order[1][self.features]
        self.n_rows, self.seed = codes.shape[1], problem.seed
        residual = _residual(problem, solution)
        self.screen = Screen(codes, marginal, residual, problem.seed, limits)

    def rank(self, order: int, most: int, features: Iterable[int] | None = None) -> Ranking:
        """Rank the interactions among the given or all features; keep the best ``most``."""
        among = None if features is None else sorted(self.places[feature] for feature in features)
        return self._renamed(self.screen.rank(order, most, among))

    def features_of(self, components: Iterable[Component], most: int) -> list[int]:
        """List the first ``most`` features of components; those of one are in canonical order."""
        ordered = (sorted(component, key=self.places.__getitem__) for component in components)
        return list(dict.fromkeys(feature for some in ordered for feature in some))[:most]

    def features_of_best_pairs(self, most: int) -> list[int]:
        """List ``most`` features, those of the best pairs first."""
        return self.features_of(self.rank(2, RANKED_PAIRS_PER_FEATURE * most).components, most)

    def rank_by_network(self, most: int, deadline: float) -> Ranking:
        """Rank pairs by neural interaction detection until a deadline; this needs torch."""
        try:
            nid = import_module("tpnn.search.nid")
        except ImportError as error:
            raise ImportError(
                f'interactions: the method "nid" needs torch ({error}). '
                'Run: pip install "tpnn[torch]", or use the method "histogram".'
            ) from error
        inputs, residual = self.screen.as_regression()
        return self._renamed(nid.rank_pairs(inputs, residual, most, self.seed, deadline))

    def _renamed(self, ranking: Ranking) -> Ranking:
        """Ranking with features numbered as in the table."""
        components = [tuple(sorted(self.features[list(s)].tolist())) for s in ranking.components]
        return replace(ranking, components=components)


def _residual(problem: Problem, solution: Solution | None) -> FloatArray:
    """Negative gradient (n, K) of the loss at the mean of the bags, times each row's weight."""
    raw = problem.rows.offset + problem.best_constant  # (n, K)
    if solution is not None:
        raw = problem.raw_scores(_bag_mean(solution, problem.objective.n_outputs))
    weights = problem.distinct.weights[:, None]
    gradient, _ = problem.objective.slopes(problem.rows.y, raw, weights)
    residual: FloatArray = -weights * gradient
    return residual


def _bag_mean(solution: Solution, n_outputs: int) -> Solution:
    """Average of the bags, as the solution of a single bag."""

    def mean(lanes: FloatArray) -> FloatArray:
        averaged: FloatArray = lanes.reshape(*lanes.shape[:-1], -1, n_outputs).mean(-2)
        return averaged

    tables = [mean(table) for table in solution.tables]
    return replace(solution, intercepts=mean(solution.intercepts), tables=tables)
