"""Solver: what the pipeline expects of a solver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from tpnn._utils.arrays import FloatArray
from tpnn._utils.rules import Rule
from tpnn.anova.components import InteractionRules
from tpnn.anova.trees import Trees
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Event, Limits, Progress, Solution

FINEST_NODES = {1: 65535, 2: 64, 3: 24, 4: 12}  # by order; more nodes are not worth their cost
TRIPLE_NODES_PER_CUBE_ROOT = 2  # nodes of triples per cube root of the number of rows


DeepBag = Any  # what a solver knows of the deep trees of one bag


class Solver(Protocol):
    """An object that solves problems and declares as data what it can do."""

    devices: ClassVar[tuple[str, ...]]
    rules: ClassVar[Mapping[str, Rule]]  # valid values of its parameters
    grows_deep: ClassVar[bool]  # can grow deep trees
    needs_subsets: ClassVar[bool]  # fits a component only together with all its subsets
    continues: ClassVar[bool]  # can start from a model
    mixes: bool  # its fits may be mixed with deep trees
    refines: bool  # its fits may move towards their posterior means

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name."""

    def finest_nodes(self, n_features: int) -> Mapping[int, int]:
        """Largest number of nodes per feature that is worth its cost, by order."""

    def enough_nodes(self, n_rows: float, n_outputs: int) -> Mapping[int, int]:
        """Nodes per feature beyond which more gain little on so many rows, by order."""

    def enough_bags(self, n_rows: float, n_outputs: int) -> int:
        """Return the number of bags of a fit to so many rows, unless the user sets it."""

    def bytes_per_component(self, order: int, n_nodes: int) -> float:
        """Peak memory of one component of one bag."""

    def solve(self, problem: Problem, limits: Limits, progress: Progress) -> Solution:
        """Fit the components of a problem."""

    def solve_core(self, problem: Problem, limits: Limits, progress: Progress) -> Solution:
        """Fit the main effects and pairs of a problem, to be mixed with deep trees."""

    def grow_deep(
        self,
        problem: Problem,
        rules: InteractionRules,
        order: int | None,
        limits: Limits,
        progress: Progress,
    ) -> tuple[list[DeepBag], list[Event]]:
        """Grow deep trees of at most ``order`` features in all bags, and say what was done."""

    def deep_trees(self, problem: Problem, bags: Sequence[DeepBag]) -> list[Trees]:
        """Trees of each bag, whose questions are about values."""

    def deep_scores(self, problem: Problem, bag: DeepBag, rows: slice) -> FloatArray:
        """Raw scores (n, K) of the trees of a bag on some rows, with constant and offset."""


def triple_nodes(n_rows: float) -> int:
    """Nodes per feature that triples can use on so many rows.

    >>> triple_nodes(125), triple_nodes(1000)
    (10, 20)
    """
    root: float = n_rows ** (1 / 3)
    return max(round(TRIPLE_NODES_PER_CUBE_ROOT * root), 2)
