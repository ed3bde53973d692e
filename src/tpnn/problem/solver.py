"""Solver: what the pipeline expects of a solver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from tpnn._rules import Rule
from tpnn.problem.problem import Problem
from tpnn.problem.solution import Progress, Solution
from tpnn.problem.stopping import Limits

FINEST_NODES = {1: 65535, 2: 64, 3: 24, 4: 12}  # by order; more nodes are not worth their cost


class Solver(Protocol):
    """An object that solves problems and declares as data what it can do.

    Parameters
    ----------
    devices : tuple of str
        Devices that it can compute on.
    rules : dict from parameter to Rule
        Valid values of its parameters.
    """

    devices: ClassVar[tuple[str, ...]]
    rules: ClassVar[Mapping[str, Rule]]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name."""

    def finest_nodes(self, n_features: int) -> Mapping[int, int]:
        """Largest number of nodes per feature that is worth its cost, by order."""

    def bytes_per_component(self, order: int, n_nodes: int) -> float:
        """Peak memory of one component of one bag."""

    def solve(
        self,
        problem: Problem,
        limits: Limits,
        progress: Progress,
        start: Solution | None = None,
    ) -> Solution:
        """Fit the components of a problem; ``start`` is a solution that lacks some of them."""
