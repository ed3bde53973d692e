"""Search: which components to include, found on residuals and confirmed on held-out rows.

Main effects first. The residual of what is included so far is screened; what stands out of the
noise joins, as long as the budget lasts and the held-out loss falls. ``history`` says what was
tried and why it stopped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from tpnn._typing import FloatArray
from tpnn.anova.components import Component, ComponentSet, InteractionRules
from tpnn.anova.measure import Marginal
from tpnn.problem.problem import Problem
from tpnn.problem.solution import Solution
from tpnn.search.screen import Ranking, ResidualScreen, affordable_features
from tpnn.search.select import HeldOut

MOST_INTERACTIONS = 500  # of each order, where no budget is given; fewer pairs are all included
# More pairs than that are all included where features have so few values that rows abound:
FEWEST_ROWS, MOST_CELLS = 100, 1000  # rows per free cell of all pairs, and free cells
MOST_MAINS = 100  # main effects of more features are screened too
PROBE_BAGS = 2  # of the fits that only tell whether to go on
TRIES = 3  # additions at most
NETWORK_SHARE = 0.5  # of the time that is left; the fit itself needs the rest


@dataclass(frozen=True)
class Request:
    """What a search is asked for.

    Parameters
    ----------
    order : int
        Largest number of features.
    method : {"histogram", "nid"}
        How pairs are ranked.
    count : int or None
        How many of the best pairs; None for those that stand out of the noise.
    budget : int
        Most interactions of each order.
    """

    order: int
    method: str
    count: int | None
    budget: int

    @classmethod
    def read(cls, interactions: Any, order: int, max_components: int | None) -> Request | None:
        """Understand "auto", a number of pairs, or a dict; None where interactions are listed."""
        if interactions == "all" or isinstance(interactions, list | tuple):
            return None
        asked = interactions if isinstance(interactions, dict) else {}
        method, count = asked.get("method", "histogram"), asked.get("count")
        if not isinstance(interactions, str | dict):
            count = int(interactions)
        budget = max_components or MOST_INTERACTIONS
        if method == "nid" and count is None:  # a network knows no noise floor
            count = budget
        if count is not None and order < 2:
            raise ValueError(
                f"interactions: pairs need an order of at least 2, found order={order} and "
                f"interactions={interactions!r}. Raise order, or pass interactions=[]."
            )
        return cls(order, method, count, count or budget)


def most_components(
    interactions: Any, order: int, n_features: int, max_components: int | None
) -> int:
    """How many components of an order a fit may have."""
    if isinstance(interactions, list | tuple) and order > 1:
        return sum(len(component) == order for component in interactions)
    request = Request.read(interactions, max(order, 2), max_components)
    count = math.comb(n_features, order)
    if order == 1:
        return count if request is None else min(count, MOST_MAINS)
    return count if request is None else min(count, max(request.budget, MOST_INTERACTIONS))


class Search:
    """Finds the components of a problem.

    Parameters
    ----------
    build : callable
        Problem of a component set and a number of bags.
    solve : callable
        Solution of a problem of main effects and pairs.
    n_features : int
        Number of features.
    request : Request
        What to find.
    seed : int
        Seed of the noise floor.
    rules : InteractionRules
        What may and what must be included.
    on_card : bool
        Whether to screen on an NVIDIA card.
    deadline : float
        Time of ``time.monotonic`` from which on nothing new is tried.

    Attributes
    ----------
    history : list of dict
        What was tried and decided.
    evident : set of tuple of int
        Components that stood out of the noise.
    takes_all : bool
        Whether main effects and pairs are so few that all are included.
    """

    def __init__(
        self,
        build: Callable[[ComponentSet, int], Problem],
        solve: Callable[[Problem], Solution],
        n_features: int,
        request: Request,
        seed: int,
        rules: InteractionRules,
        on_card: bool,
        deadline: float,
    ) -> None:
        self.build, self.solve, self.n_features = build, solve, n_features
        self.request, self.seed, self.rules = request, seed, rules
        self.on_card, self.deadline = on_card, deadline
        self.began = time.monotonic()
        self.evident: set[Component] = set()
        self.history: list[dict[str, Any]] = []
        self.takes_all = request.count is None and self._few()

    def _few(self) -> bool:
        """Whether components are few, or pairs have few free cells against the rows."""
        order = min(self.request.order, 2)
        count = math.comb(self.n_features, order)
        most = MOST_MAINS if order == 1 else min(self.request.budget, MOST_INTERACTIONS)
        if count <= most or order == 1 or count > MOST_CELLS or self.request.budget < most:
            return count <= most
        problem = self.build(ComponentSet.up_to(self.n_features, 1), 1)
        free = np.array([axis.n_nodes - 1 for axis in problem.encoder.axes[1]])
        n_cells = (free.sum() ** 2 - (free**2).sum()) // 2
        return bool(n_cells <= min(MOST_CELLS, len(problem.rows.y) / FEWEST_ROWS))

    @property
    def takes_all_mains(self) -> bool:
        """Whether main effects are so few that all are included, and kept."""
        return self.n_features <= MOST_MAINS

    def up_to_pairs(self) -> ComponentSet:
        """Choose main effects and pairs."""
        return self.rules.applied(self._up_to_pairs())

    def _up_to_pairs(self) -> ComponentSet:
        if self.takes_all:
            return ComponentSet.up_to(self.n_features, min(self.request.order, 2))
        if self.request.count is None:
            return self._while_it_gains(self._first_mains())
        mains = ComponentSet.up_to(self.n_features, 1)
        problem = self.build(mains, PROBE_BAGS)
        ranking = self._rank_pairs(problem)
        self._note(problem, ranking, "the best pairs, as many as asked for")
        permitted = list(filter(self.rules.permit, ranking.components))
        return _joined(mains, permitted[: self.request.count])

    def higher(self, problem: Problem, solution: Solution) -> list[Component]:
        """Interactions of three and more features above the noise of what a solution leaves over.

        Triples among all features where that is affordable, else among those of the best pairs;
        beyond, among the features of the interactions found one order below.
        """
        found: list[Component] = []
        screen = self._screen(problem, solution)
        features: list[int] | None = None
        for order in range(3, min(self.request.order, self.n_features) + 1):
            if self._time_is_up(problem):
                break
            most = affordable_features(order, screen.n_rows)
            if features is None and self.n_features > most:
                features = _first_features(screen.rank(2, 10 * most).components, most)
            ranking = screen.rank(order, self.request.budget, features and features[:most])
            found += filter(self.rules.permit, ranking.found)
            self._note(problem, ranking, f"order {order}, above the noise")
            features = _first_features(ranking.found, self.n_features)
            if len(features) <= order:
                break
        return found

    def _first_mains(self) -> ComponentSet:
        """All main effects or, of many, those that stand out of the noise."""
        mains = ComponentSet.up_to(self.n_features, 1)
        if self.takes_all_mains:
            return mains
        problem = self.build(mains, 1)
        ranking = self._screen(problem, None).rank(1, self.n_features)
        self._note(problem, ranking, "main effects, above the noise")
        return ComponentSet(tuple(ranking.found or ranking.components[:1]))

    def _while_it_gains(self, included: ComponentSet) -> ComponentSet:
        """Add what the residual has above the noise until the held-out rows gain nothing."""
        accepted, before = included, None
        for attempt in range(TRIES + 1):
            problem = self.build(included, PROBE_BAGS)
            solution = self.solve(problem)
            held_out = HeldOut(problem, solution)
            if before is not None and not _gains(before, held_out):
                reason = "stop: the held-out rows gain less than a standard error"
                self._note(problem, None, reason, held_out.loss)
                break
            accepted, before = included, held_out
            if attempt == TRIES or self._time_is_up(problem):
                break
            included = self._extended(problem, solution, held_out.loss)
            if included == accepted:
                break
        return accepted

    def _time_is_up(self, problem: Problem) -> bool:
        is_up = time.monotonic() >= self.deadline
        if is_up:
            self._note(problem, None, "stop: the time limit is reached")
        return is_up

    def _extended(self, problem: Problem, solution: Solution, loss: float) -> ComponentSet:
        """Components of a problem and what stands out of the noise of its solution.

        NOTE: what is below the noise cannot be tried on held-out rows. The screen sees them too, so
        the best of many pairs fit their noise; they gain there and lose on new rows.
        """
        included, screen = problem.components, self._screen(problem, solution)
        for order in (1, 2)[self.takes_all_mains : self.request.order]:
            n_known = sum(len(s) == order for s in problem.components)
            room = self.n_features if order == 1 else self.request.budget - n_known
            ranking = screen.rank(order, room + n_known)
            known = set(included)
            new = [s for s in ranking.found if s not in known and self.rules.permit(s)][:room]
            verdict = "nothing new above the noise" if room else "the budget is spent"
            self._note(problem, ranking, f"add {len(new)}" if new else verdict, loss)
            included = _joined(included, new)
        return included

    def _screen(self, problem: Problem, solution: Solution | None) -> Screen:
        return Screen(problem, solution, self.seed, self.on_card)

    def _rank_pairs(self, problem: Problem) -> Ranking:
        screen = self._screen(problem, self.solve(problem))
        if self.request.method == "nid":
            now = time.monotonic()
            share = NETWORK_SHARE * (self.deadline - now)
            return screen.rank_by_network(self.request.budget, now + share)
        return screen.rank(2, self.request.budget)

    def _note(
        self, problem: Problem, ranking: Ranking | None, decision: str, loss: float = math.nan
    ) -> None:
        """Remember what was tried."""
        record: dict[str, Any] = {"stage": "screening", "decision": decision}
        record |= {"n_components": len(problem.components), "validation_loss": loss}
        if ranking is not None:
            best = float(ranking.scores[0]) if len(ranking.scores) else 0.0
            record |= {"n_candidates": ranking.n_candidates, "n_found": len(ranking.found)}
            record |= {"best_score": best, "noise_floor": ranking.floor}
            self.evident |= set(ranking.found)
        self.history.append(record | {"seconds": time.monotonic() - self.began})


class Screen:
    """Screens the residual of a solution, features in the order that columns do not change.

    Parameters
    ----------
    problem : Problem
        Coded rows.
    solution : Solution or None
        What is fitted so far; None for the constant.
    seed : int
        Seed of the noise floor.
    on_card : bool
        Whether to screen on an NVIDIA card.
    """

    def __init__(
        self, problem: Problem, solution: Solution | None, seed: int, on_card: bool
    ) -> None:
        self.features = np.array(problem.encoder.canonical_order())
        marginal = Marginal.of([problem.encoder.axes[1][feature] for feature in self.features])
        codes = problem.coded[0].codes[self.features]
        self.n_rows, self.seed = codes.shape[1], seed
        residual = _residual(problem, solution)
        self.screen = ResidualScreen(codes, marginal, residual, seed, on_card)

    def rank(self, order: int, most: int, features: Iterable[int] | None = None) -> Ranking:
        """Rank interactions among the given features, or all; the best ``most`` are kept."""
        position = {feature: place for place, feature in enumerate(self.features.tolist())}
        among = None if features is None else [position[feature] for feature in features]
        return self._renamed(self.screen.rank(order, most, among))

    def rank_by_network(self, most: int, deadline: float) -> Ranking:
        """Rank pairs by neural interaction detection until a deadline; it needs torch."""
        try:
            nid = import_module("tpnn.search.nid")
        except ImportError as error:
            raise ImportError(
                f'interactions: the method "nid" needs torch ({error}). '
                'Run: pip install "tpnn[torch]", or use the method "histogram".'
            ) from error
        positions = self.screen.marginal.positions
        inputs = np.take_along_axis(positions, self.screen.codes.astype(np.intp), 1).T - 0.5
        residual = self.screen.residuals[0].T.astype(np.float64)
        return self._renamed(nid.rank_pairs(inputs, residual, most, self.seed, deadline))

    def _renamed(self, ranking: Ranking) -> Ranking:
        """Ranking in terms of the table's columns."""
        components = [tuple(sorted(self.features[list(s)].tolist())) for s in ranking.components]
        return replace(ranking, components=components)


def _residual(problem: Problem, solution: Solution | None) -> FloatArray:
    """Negative gradient (n, K) of the loss at the mean of the bags, times each row's weight."""
    raw = problem.rows.offset + problem.start  # (n, K)
    if solution is not None:
        n_outputs = problem.objective.n_outputs
        raw = problem.rows.offset + solution.intercepts.reshape(-1, n_outputs).mean(0)
        codes = {part.features.shape[1]: part.codes for part in problem.coded}
        for component, table in zip(problem.ordered, solution.tables, strict=True):
            cells = tuple(codes[len(component)][feature] for feature in component)
            raw += table.reshape(*table.shape[:-1], -1, n_outputs).mean(-2)[cells]
    weights = problem.distinct.weights[:, None]
    gradient, _ = problem.objective.slopes(problem.rows.y, raw, weights)
    residual: FloatArray = -weights * gradient
    return residual


def _gains(before: HeldOut, after: HeldOut) -> bool:
    """Whether the same held-out rows gain more than a standard error."""
    mean, error = before.change(after.raw)
    return mean + error < 0


def _joined(components: ComponentSet, new: Iterable[Component]) -> ComponentSet:
    return ComponentSet((*components, *new)).with_subsets()


def _first_features(components: Iterable[Component], most: int) -> list[int]:
    """Features in the order in which they occur, at most so many."""
    return list(dict.fromkeys(feature for s in components for feature in s))[:most]
