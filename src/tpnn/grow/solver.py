"""Grow: the solver that adds bases where the residual still has structure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from sklearn.base import BaseEstimator

from tpnn._rules import COUNT, Rule, is_not_negative, one_of
from tpnn.anova.components import ComponentSet
from tpnn.grow.bag import BagGrower
from tpnn.grow.higher import HigherOrders, with_higher
from tpnn.grow.lower import LowerOrders
from tpnn.problem.problem import Problem
from tpnn.problem.solution import Progress, Solution
from tpnn.problem.solver import FINEST_NODES
from tpnn.problem.stopping import Limits

FEW_FEATURES = 12  # up to here pairs afford twice the nodes
LARGEST_STARTED = 1e8  # rows times pairs times bags; larger problems grow from zero alone
BYTES_PER_CELL = 40.0  # at the peak


class Grow(BaseEstimator):
    """Solver that adds bases where the residual still has structure; the default.

    Small trees cut the grid of a component into rectangles or boxes, where they add a small
    constant. A rectangle is a sum of products of steps, and a step is a sigmoid of width zero, so
    what grows is a tensor product neural network. Main effects and pairs grow first, higher orders
    on their residual.

    Parameters
    ----------
    growth : {"auto", "smooth", "none"}, default="auto"
        What growth starts from. "auto" grows every bag from zero and from a smooth ridge fit and
        mixes the two so that the held-out loss is lowest (large problems grow from zero alone,
        several classes from the smooth fit alone). "smooth" grows from the smooth fit alone.
        "none" keeps the smooth fit. In this order components get smoother and more stable when rows
        are re-sampled, and sharp surfaces get less accurate.
    l2 : float or "auto", default="auto"
        Ridge penalty of the smooth fit, as a share of the rows; "auto" is 3 rows' worth. Raise it
        when correlated features get opposite signs: the effect is then split between them.
    max_rounds : int, default=2000
        Most rounds of a bag.
    patience : int, default=50
        Rounds without a lower held-out loss after which a bag is done.

    Examples
    --------
    >>> from tpnn import Grow, TPNNRegressor
    >>> model = TPNNRegressor(solver=Grow(growth="smooth"))
    >>> model.set_params(solver__l2=0.1).get_params()["solver__l2"]
    0.1
    """

    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    rules: ClassVar[Mapping[str, Rule]] = {
        "growth": Rule('"auto", "smooth" or "none"', one_of("auto", "smooth", "none"), "smooth"),
        "l2": Rule(
            'a number of at least 0, or "auto"',
            lambda value: one_of("auto")(value) or is_not_negative(value),
            1e-3,
        ),
        "max_rounds": COUNT,
        "patience": COUNT,
    }

    def __init__(
        self,
        growth: str = "auto",
        l2: str | float = "auto",
        max_rounds: int = 2000,
        patience: int = 50,
    ) -> None:
        self.growth = growth
        self.l2 = l2
        self.max_rounds = max_rounds
        self.patience = patience

    def finest_nodes(self, n_features: int) -> Mapping[int, int]:
        """Most nodes of a feature that pay, by order of the component."""
        factor = 2 if n_features <= FEW_FEATURES else 1
        return FINEST_NODES | {2: factor * FINEST_NODES[2]}

    def bytes_per_component(self, order: int, n_nodes: int) -> float:
        """Memory that a component of one bag needs at the peak."""
        return BYTES_PER_CELL * float(n_nodes) ** order

    def solve(
        self,
        problem: Problem,
        limits: Limits,
        progress: Progress,
        seed: int,
        start: Solution | None = None,
    ) -> Solution:
        """Grow main effects and pairs, or take them from ``start``, then higher orders."""
        lower = [component for component in problem.components if len(component) <= 2]
        solution = start or self._solve_lower(
            problem.with_components(ComponentSet(tuple(lower))), limits, progress, seed
        )
        if len(lower) == len(problem.components):
            return solution
        grower = BagGrower(problem.objective, limits, self.max_rounds, self.patience)
        return HigherOrders(with_higher(problem, solution), grower, seed).fit(solution)

    def _solve_lower(
        self, problem: Problem, limits: Limits, progress: Progress, seed: int
    ) -> Solution:
        l2 = None if isinstance(self.l2, str) else self.l2
        rounds = 0 if self.growth == "none" else self.max_rounds
        patience = self.patience + 1  # a bag is done after more than `patience` rounds
        grower = BagGrower(problem.objective, limits, rounds, patience)
        return LowerOrders(problem, grower, self._starts(problem), l2, seed).fit(progress)

    def _starts(self, problem: Problem) -> tuple[bool, ...]:
        """From what the bags grow: False for zero, True for the smooth fit."""
        n_pairs = sum(len(component) == 2 for component in problem.components)
        is_large = problem.rows.training.size * n_pairs > LARGEST_STARTED
        if self.growth == "auto" and is_large and isinstance(self.l2, str):
            return (False,)  # an l2 that was asked for needs the smooth fit
        if self.growth != "auto" or problem.objective.couples_outputs:
            return (True,)  # classes: held-out rows chose it alone whenever both were grown
        return (False, True)
