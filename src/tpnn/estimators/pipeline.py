"""Fit: from a component set, or a request for a search, to a problem and its solution.

A solver that does any order gets all components at once. The growing solver does main effects and
pairs; higher components are grown on what these leave over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tpnn.anova.components import Component, ComponentSet, InteractionRules
from tpnn.grow.bag import Limits
from tpnn.grow.deepening import Deepener
from tpnn.grow.solver import GrowSolver
from tpnn.problem.problem import Problem
from tpnn.problem.solution import Solution
from tpnn.search.search import Request, Search


@dataclass(frozen=True)
class Fitted:
    """A problem and its solution.

    Parameters
    ----------
    problem : Problem
        The problem.
    solution : Solution
        Its solution.
    history : list of dict
        What a search tried before.
    evident : set of tuple of int
        Components that stood out of the noise of a screen.
    all_mains : bool
        Whether all main effects are included.
    screened : bool
        Whether main effects and pairs had to stand out of it, instead of being asked for.
    """

    problem: Problem
    solution: Solution
    history: Sequence[dict[str, Any]] = ()
    evident: frozenset[Component] = frozenset()
    all_mains: bool = True
    screened: bool = False


@dataclass(frozen=True)
class Fit:
    """How problems are made and solved.

    Parameters
    ----------
    build : callable
        Problem of a component set and a number of bags.
    solve : callable
        Solution of a problem.
    any_order : bool
        Whether ``solve`` does every order; else main effects and pairs.
    limits : Limits
        When to stop.
    seed : int
        Seed.
    n_bags : int
        Number of bags.
    on_card : bool
        Whether to screen on an NVIDIA card.
    """

    build: Callable[[ComponentSet, int], Problem]
    solve: Callable[[Problem], Solution]
    any_order: bool
    limits: Limits
    seed: int
    n_bags: int
    on_card: bool

    def of(self, components: ComponentSet) -> Fitted:
        """Fit the given components."""
        higher = [s for s in components if len(s) > 2]
        if self.any_order or not higher:
            problem = self.build(components, self.n_bags)
            return Fitted(problem, self.solve(problem))
        lower = ComponentSet(tuple(s for s in components if len(s) <= 2))
        return self._deepened(self.of(lower), higher)

    def searched(self, request: Request, n_features: int, rules: InteractionRules) -> Fitted:
        """Fit the components that a search finds."""

        def probe(problem: Problem) -> Solution:
            solver = grow_solver(problem, self.limits, self.seed)
            return solver.fit(problem.start, lambda record: None)

        search = Search(
            self.build, probe, n_features, request, self.seed, rules, self.on_card,
            self.limits.deadline,
        )  # fmt: skip
        fitted = self.of(search.up_to_pairs())
        higher = search.higher(fitted.problem, fitted.solution)
        if higher and self.any_order:
            fitted = self.of(ComponentSet((*fitted.problem.components, *higher)))
        elif higher:
            fitted = self._deepened(fitted, higher)
        return replace(
            fitted,
            history=search.history,
            evident=frozenset(search.evident),
            all_mains=search.takes_all_mains,
            screened=request.count is None and not search.takes_all,
        )

    def _deepened(self, fitted: Fitted, higher: Sequence[Component]) -> Fitted:
        """Add higher components, and their subsets, to a fit."""
        before = fitted.problem
        components = ComponentSet((*before.components, *higher)).with_subsets()
        problem = self.build(components, self.n_bags)
        lower = dict(zip(before.ordered, fitted.solution.tables, strict=True))
        deepener = Deepener(problem, self.limits, self.seed)
        return Fitted(problem, deepener.fit(lower, fitted.solution))


def grow_solver(
    problem: Problem,
    limits: Limits,
    seed: int,
    shapes: Mapping[int, str] | None = None,
    from_zero: bool = True,
    l2: float | None = None,
) -> GrowSolver:
    """Return the solver that grows main effects and pairs, from the smooth start alone or not."""
    axes = problem.encoder.axes
    return GrowSolver(
        problem.coded, axes, problem.rows, problem.objective, limits, seed, shapes, from_zero, l2
    )
