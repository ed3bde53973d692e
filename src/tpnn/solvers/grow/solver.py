"""Grow: the solver that adds bases where the residual still has structure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from tpnn._utils.arrays import FloatArray
from tpnn._utils.rules import COUNT, Rule, is_not_negative, is_whole, one_of
from tpnn.anova.components import ComponentSet, InteractionRules
from tpnn.anova.trees import Trees
from tpnn.solvers.grow.backend import current_place
from tpnn.solvers.grow.card.card import card_for
from tpnn.solvers.grow.deep import MOST_DEEP_ROWS, DeepBag, DeepGrowth, as_trees, raw_scores
from tpnn.solvers.grow.deep_trees import TreeRules, meetings_of
from tpnn.solvers.grow.engine import BagGrower
from tpnn.solvers.grow.forest import GENTLE_PAIR_TREE, LARGE_PAIR_TREE, SMALL_PAIR_TREE
from tpnn.solvers.grow.higher_orders import HigherOrders, with_higher
from tpnn.solvers.grow.stages import LowerOrders, Way
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Event, Limits, Progress, Solution
from tpnn.solvers.solver import FINEST_NODES, triple_nodes

FEW_FEATURES = 12  # with at most this many, pairs can afford twice the nodes
FEW_ROWS, PAIR_NODES_OF_FEW_ROWS = 2_000, 32  # more nodes of pairs gain little
LARGEST_SMOOTH_START = 1e8  # rows times pairs times bags; larger problems grow from zero only
FEWEST_COUNTED_PAIRS = 4  # fewer count as these: rows of all bags need memory with few pairs too
FROM_ZERO = Way("zero", LARGE_PAIR_TREE, "from 0")
FROM_MODEL = FROM_ZERO._replace(note="from the old model")  # what to add to it grows from 0
SMOOTH = Way("smooth", SMALL_PAIR_TREE, "from the smooth start")
SHARP_SMOOTH = Way("smooth", LARGE_PAIR_TREE, "from the smooth start")
GENTLE_SMOOTH = Way("smooth", GENTLE_PAIR_TREE, "from the smooth start, gently")
BYTES_PER_CELL = 40.0  # of peak memory
OBLIVIOUS_TREE = TreeRules(
    depth=6, is_oblivious=True, most_features=6, rate=0.1, ridge=1.0, column_share=2 / 3,
    largest_step=np.inf,
)  # fmt: skip
DEEP_TREES = OBLIVIOUS_TREE, OBLIVIOUS_TREE._replace(depth=5, is_oblivious=False)  # in turns
DEEP_PATIENCE = 50  # trees
LARGEST_LOG_STEP = 2.0  # of a leaf, for losses whose curvature has no bound
# Bags of tables with fewer rows than these: few rows cost little, very many agree without bags.
BAGS_BY_ROWS = {500: 32, 2_000: 16, 4_000_000: 8, 20_000_000: 4}
FEWEST_BAGS, BAGS_OF_SEVERAL_OUTPUTS = 2, 8


class Grow(BaseEstimator):
    """The default solver, which adds bases where the residual still has structure.

    Small trees cut the grid of a component into rectangles and add a small constant to each. The
    indicator of a rectangle is a sum of products of steps, and a step is a sigmoid of width zero,
    so the result is a tensor product neural network. Main effects and pairs grow first; higher
    orders grow on their residual, by deep trees.

    Parameters
    ----------
    growth : {"auto", "smooth", "none"}, default="auto"
        Where growth starts. "auto" grows every bag both from zero and from a smooth ridge fit, and
        mixes the two to minimise the held-out loss (large problems grow from zero only, multiclass
        problems twice from the smooth fit, and the core beside deep trees from it once). "smooth"
        grows from the smooth fit only. "none" keeps the smooth fit as it is. In this order,
        components become smoother and more stable under resampling of the rows, and sharp surfaces
        become less accurate.
    l2 : float or "auto", default="auto"
        Ridge penalty of the smooth fit, as a share of the rows; "auto" is worth 3 rows and, for
        main effects, more where the evidence asks for it. Raise it when correlated features get
        opposite signs: the effect is then split between them.
    max_rounds : int, default=2000
        Largest number of rounds per bag; 0 keeps what growth starts from. A round visits each main
        effect and pair at most once; deep trees are one tree a round.
    patience : int, default=30
        Number of rounds without a lower held-out loss after which a bag stops.

    Examples
    --------
    >>> from tpnn import Grow, TPNNRegressor
    >>> model = TPNNRegressor(solver=Grow(growth="smooth"))
    >>> model.set_params(solver__l2=0.1).get_params()["solver__l2"]
    0.1
    """

    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")
    grows_deep: ClassVar[bool] = True
    needs_subsets: ClassVar[bool] = True
    continues: ClassVar[bool] = True
    rules: ClassVar[Mapping[str, Rule]] = {
        "growth": Rule('"auto", "smooth" or "none"', one_of("auto", "smooth", "none"), "smooth"),
        "l2": Rule(
            'a number of at least 0, or "auto"',
            lambda value: one_of("auto")(value) or is_not_negative(value),
            1e-3,
        ),
        "max_rounds": Rule(
            "a whole number of at least 0", lambda value: is_whole(value) and value >= 0, 100
        ),
        "patience": COUNT,
    }

    def __init__(
        self,
        growth: str = "auto",
        l2: str | float = "auto",
        max_rounds: int = 2000,
        patience: int = 30,
    ) -> None:
        self.growth = growth
        self.l2 = l2
        self.max_rounds = max_rounds
        self.patience = patience

    @property
    def mixes(self) -> bool:
        """Whether fits may be mixed with deep trees, which are less smooth."""
        return self.growth == "auto"

    @property
    def refines(self) -> bool:
        """Whether fits may move towards posterior means, which have penalties of their own."""
        return isinstance(self.l2, str)

    def finest_nodes(self, n_features: int) -> Mapping[int, int]:
        """Largest number of nodes per feature that is worth its cost, by order."""
        factor = 2 if n_features <= FEW_FEATURES else 1
        return FINEST_NODES | {2: factor * FINEST_NODES[2]}

    def enough_nodes(self, n_rows: float, n_outputs: int) -> Mapping[int, int]:
        """Nodes beyond which more gain little on so many rows, by order; outputs share the cost."""
        few = PAIR_NODES_OF_FEW_ROWS if n_rows < FEW_ROWS else FINEST_NODES[2]
        pairs = {2: few} if n_rows < FEW_ROWS or n_outputs > 1 else {}
        return pairs | {3: triple_nodes(n_rows)}

    def enough_bags(self, n_rows: float, n_outputs: int) -> int:
        """Return the number of bags beyond which more gain little; outputs share the cost."""
        bags = next((bags for rows, bags in BAGS_BY_ROWS.items() if n_rows < rows), FEWEST_BAGS)
        return max(bags // n_outputs, min(bags, BAGS_OF_SEVERAL_OUTPUTS))

    def bytes_per_component(self, order: int, n_nodes: int) -> float:
        """Peak memory of one component of one bag."""
        return BYTES_PER_CELL * float(n_nodes) ** order

    def solve(self, problem: Problem, limits: Limits, progress: Progress) -> Solution:
        """Grow main effects and pairs; then grow higher orders on what they leave."""
        lower = [component for component in problem.components if len(component) <= 2]
        lower_problem = problem.with_components(ComponentSet(tuple(lower)))
        solution = self._solve_lower(lower_problem, limits, progress)
        if len(lower) == len(problem.components):
            return solution
        whole = with_higher(problem, solution)
        growth = self._deep(whole, None, limits, progress)
        for order in (order for order in whole.components.orders if order > 2):
            higher = HigherOrders(growth, order)
            if higher.components:  # not all of them are frozen
                solution = higher.fit(solution)
        return solution

    def _deep(
        self, problem: Problem, order: int | None, limits: Limits, progress: Progress
    ) -> DeepGrowth:
        """Growth of deep trees of at most ``order`` features."""
        largest = LARGEST_LOG_STEP if problem.objective.steep else np.inf
        rules = tuple(
            rules._replace(most_features=order or rules.depth, largest_step=largest)
            for rules in DEEP_TREES
        )
        return DeepGrowth(
            problem=problem.sampled(MOST_DEEP_ROWS), limits=limits, progress=progress,
            tree_rules=rules, max_rounds=self.max_rounds, patience=DEEP_PATIENCE,
            features=problem.features,
        )  # fmt: skip

    def grow_deep(
        self,
        problem: Problem,
        rules: InteractionRules,
        order: int | None,
        limits: Limits,
        progress: Progress,
    ) -> tuple[list[DeepBag], list[Event]]:
        """Grow deep trees of at most ``order`` features in all bags, and say what was done."""
        growth = self._deep(problem, order, limits, progress)
        growth = replace(growth, meetings=meetings_of(rules))
        return growth.grow(), growth.events

    def deep_trees(self, problem: Problem, bags: Sequence[DeepBag]) -> list[Trees]:
        """Trees of each bag, whose questions are about values."""
        return as_trees(problem, bags)

    def deep_scores(self, problem: Problem, bag: DeepBag, rows: slice) -> FloatArray:
        """Raw scores (n, K) of the trees of a bag on some rows, with constant and offset."""
        if len(bag.raw) == len(problem.rows.y):
            return bag.raw[rows]
        start = problem.rows.offset[rows] + problem.best_constant
        return start + raw_scores(problem, bag, rows)

    def solve_core(self, problem: Problem, limits: Limits, progress: Progress) -> Solution:
        """Grow main effects and pairs beside deep trees.

        Those grow from zero themselves, so these grow from the smooth fit alone.
        """
        return self._solve_lower(problem, limits, progress, beside_trees=True)

    def _solve_lower(
        self, problem: Problem, limits: Limits, progress: Progress, beside_trees: bool = False
    ) -> Solution:
        l2 = None if isinstance(self.l2, str) else self.l2
        rounds = 0 if self.growth == "none" else self.max_rounds
        patience = self.patience + 1  # a bag stops after more than `patience` rounds
        states = problem.states if rounds else None
        grower = BagGrower(problem.objective, limits, rounds, patience, states)
        card = None if current_place() is not None else card_for(limits.device, problem)
        return LowerOrders(problem, grower, self._ways(problem, beside_trees), l2, card).fit(
            progress
        )

    def _ways(self, problem: Problem, beside_trees: bool) -> tuple[Way, ...]:
        """How the bags grow: from zero, from the smooth fit, or both."""
        n_pairs = sum(len(component) == 2 for component in problem.components)
        from_zero = FROM_ZERO if problem.base is None else FROM_MODEL
        n_counted = max(n_pairs, FEWEST_COUNTED_PAIRS)
        is_large = problem.rows.training.size * n_counted > LARGEST_SMOOTH_START
        if self.growth != "auto":
            return (SHARP_SMOOTH,)
        if is_large and isinstance(self.l2, str):
            return (from_zero,)  # an l2 that was asked for needs the smooth fit
        if beside_trees:
            return (SHARP_SMOOTH,)
        if problem.objective.couples_outputs:  # held-out rows chose the smooth fit alone
            return (SHARP_SMOOTH, GENTLE_SMOOTH) if n_pairs else (SHARP_SMOOTH,)
        return from_zero, SMOOTH
