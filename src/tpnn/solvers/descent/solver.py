"""Descent: the solver that learns bases by gradient descent, as in the paper."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

from sklearn.base import BaseEstimator

from tpnn._utils.rules import COUNT, FLAG, POSITIVE, Rule, is_count, is_not_negative, one_of
from tpnn.anova.shapes import MONOTONE
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Limits, Progress, Solution
from tpnn.solvers.solver import FINEST_NODES, triple_nodes

BASES_BY_ORDER, BASES_OF_HIGHER_ORDERS = {1: 50, 2: 100, 3: 50}, 20
BYTES_PER_VALUE = 16.0  # of peak memory, for each value of a grid or a basis
BAGS = 8


def _is_n_bases(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(is_count, [*value.keys(), *value.values()]))
    return one_of("auto")(value) or is_count(value)


class Descent(BaseEstimator):
    """Solver that learns b, gamma and beta of every basis by gradient descent, as in the paper.

    It needs torch (``pip install "tpnn[torch]"``) and runs on an NVIDIA card with
    ``device="cuda"``. On most tables, :class:`Grow` is more accurate and faster.

    Parameters
    ----------
    n_bases : int, dict from order to int, or "auto", default="auto"
        Number of bases K of each component; "auto" is 50, 100 and 50 for orders 1, 2 and 3, and 20
        for higher orders.
    shared_bases : bool, default=False
        Whether all components of one order share their bases (NBM-TPNN).
    activation : {"sigmoid", "relu"}, default="sigmoid"
        Activation function of the bases.
    scale : {"centred", "paper"}, default="centred"
        Whether the bases are divided by eta, as in the paper, or only centred.
    learning_rate : float, default=0.02
        Step size of Adam.
    l2 : float, default=1e-3
        Ridge penalty on beta, added to the mean loss.
    max_steps : int, default=2000
        Largest number of full-batch steps.
    patience : int, default=50
        Number of steps without a lower held-out loss after which a bag stops.

    Examples
    --------
    >>> from tpnn import Descent, TPNNRegressor
    >>> TPNNRegressor(solver=Descent(n_bases=30)).get_params()["solver__n_bases"]
    30
    """

    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")
    grows_deep: ClassVar[bool] = False
    needs_subsets: ClassVar[bool] = False
    continues: ClassVar[bool] = False
    mixes: ClassVar[bool] = False
    refines: ClassVar[bool] = False  # its terms make up its grids
    rules: ClassVar[Mapping[str, Rule]] = {
        "n_bases": Rule(
            'a whole number of at least 1, a dict from order to such numbers, or "auto"',
            _is_n_bases,
            "auto",
        ),
        "shared_bases": FLAG,
        "activation": Rule('"sigmoid" or "relu"', one_of("sigmoid", "relu"), "sigmoid"),
        "scale": Rule('"centred" or "paper"', one_of("centred", "paper"), "centred"),
        "learning_rate": POSITIVE,
        "l2": Rule("a number of at least 0", is_not_negative, 1e-3),
        "max_steps": COUNT,
        "patience": COUNT,
    }

    def __init__(
        self,
        n_bases: str | int | dict[int, int] = "auto",
        shared_bases: bool = False,
        activation: str = "sigmoid",
        scale: str = "centred",
        learning_rate: float = 0.02,
        l2: float = 1e-3,
        max_steps: int = 2000,
        patience: int = 50,
    ) -> None:
        self.n_bases = n_bases
        self.shared_bases = shared_bases
        self.activation = activation
        self.scale = scale
        self.learning_rate = learning_rate
        self.l2 = l2
        self.max_steps = max_steps
        self.patience = patience

    def finest_nodes(self, n_features: int) -> Mapping[int, int]:
        """Largest number of nodes per feature that is worth its cost, by order."""
        return FINEST_NODES

    def enough_nodes(self, n_rows: float, n_outputs: int) -> Mapping[int, int]:
        """Nodes per feature beyond which more gain little on so many rows, by order."""
        return {3: triple_nodes(n_rows)}

    def enough_bags(self, n_rows: float, n_outputs: int) -> int:
        """Return the number of bags beyond which more gain little."""
        return BAGS

    def bytes_per_component(self, order: int, n_nodes: int) -> float:
        """Peak memory of one component of one bag."""
        n_values = float(n_nodes) ** order + order * n_nodes * self._bases(order)
        return BYTES_PER_VALUE * n_values

    def solve(self, problem: Problem, limits: Limits, progress: Progress) -> Solution:
        """Train all components of a problem together."""
        networks, schedules = _torch_module("networks"), _torch_module("schedule")
        training = _torch_module("cpu")
        orders = problem.components.orders
        signs = {j: MONOTONE[shape] for j, shape in problem.shapes.items() if shape in MONOTONE}
        settings = networks.NetworkSettings(
            n_bases={order: self._bases(order) for order in orders},
            shared_bases=self.shared_bases,
            activation=self.activation,
            scale=self.scale,
            signs=signs,
        )
        schedule = schedules.Schedule(self.learning_rate, self.l2, self.max_steps, self.patience)
        on_card = self._uses_card(problem, limits.device) and training.card_is_present(
            limits.device
        )
        run = _torch_module("cuda").CudaTraining if on_card else training.GradientTraining
        solution: Solution = run(problem, settings, schedule, limits).fit(progress)
        return solution

    def _uses_card(self, problem: Problem, device: str) -> bool:
        """Whether to ask for a card; a loss that couples rows is computed on the CPU."""
        if device == "cuda" and problem.objective.couples_rows:
            raise ValueError(
                "device: survival is fitted on the CPU, because its loss couples all rows, found "
                "'cuda'. Pass device='cpu'."
            )
        return device != "cpu" and not problem.objective.couples_rows

    def _bases(self, order: int) -> int:
        usual = BASES_BY_ORDER.get(order, BASES_OF_HIGHER_ORDERS)
        if isinstance(self.n_bases, Mapping):
            return self.n_bases.get(order, usual)
        return usual if isinstance(self.n_bases, str) else int(self.n_bases)


def _torch_module(name: str) -> Any:
    """Import a module of this package that needs torch."""
    try:
        return import_module(f"tpnn.solvers.descent.{name}")
    except ImportError as error:
        raise ImportError(
            f"solver: gradient descent needs torch, and triton on a card ({error}). "
            'Run: pip install "tpnn[torch]"'
        ) from error
