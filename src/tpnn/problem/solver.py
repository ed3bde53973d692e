"""Solver: what the pipeline asks of a solver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from tpnn._rules import Rule
from tpnn.problem.problem import Problem
from tpnn.problem.solution import Progress, Solution
from tpnn.problem.stopping import Limits

FINEST_NODES = {1: 65535, 2: 64, 3: 24, 4: 12}  # by order; finer nodes cost more than they give


class Solver(Protocol):
    """An object that solves problems; what it can do is declared as data.

    Parameters
    ----------
    devices : tuple of str
        Where it can compute.
    rules : dict from parameter to Rule
        Valid values of its parameters.
    """

    devices: ClassVar[tuple[str, ...]]
    rules: ClassVar[Mapping[str, Rule]]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name."""

    def finest_nodes(self, n_features: int) -> Mapping[int, int]:
        """Most nodes of a feature that pay, by order of the component."""

    def bytes_per_component(self, order: int, n_nodes: int) -> float:
        """Memory that a component of one bag needs at the peak."""

    def solve(
        self,
        problem: Problem,
        limits: Limits,
        progress: Progress,
        seed: int,
        start: Solution | None = None,
    ) -> Solution:
        """Fit the components of a problem, from a solution that lacks some of them on."""
