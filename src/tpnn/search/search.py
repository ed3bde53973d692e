"""Search: which components to include, by the user's request and by what held-out rows confirm."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from tpnn.anova.components import (
    Component,
    ComponentSet,
    InteractionRules,
    resolve_components,
    resolve_feature,
    resolve_interactions,
)
from tpnn.search.confirm import JudgedSearch, features_grown_at_once
from tpnn.search.screen import Ranking, affordable_features
from tpnn.search.select import HeldOut
from tpnn.search.table_screen import MOST_SCREENED_ROWS, TableScreen, screen_limits
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Event, Limits, NoProgress, Solution
from tpnn.solvers.solver import Solver

MOST_INTERACTIONS = 500  # of each order, unless max_components is given; fewer pairs are all taken
MOST_MAINS = 100  # with more features, main effects are screened too

Features = Sequence[Sequence[int | str]]  # subsets of features, by name or index


@dataclass(frozen=True)
class Request:
    """What a search has to find."""

    order: int  # largest order of a component
    method: str  # how pairs are ranked: "histogram" or "nid"
    count: int | None  # pairs to include, best first; None for those above the noise
    budget: int  # largest number of interactions of each order


@dataclass(frozen=True, kw_only=True)
class Interactions:
    """The parameter ``interactions`` of an estimator, parsed."""

    listed: Features | None = None  # the interactions, if the user lists them
    are_exact: bool = False  # whether ``listed`` are all components, main effects included
    count: Any = "auto"  # else "auto" (those above the noise), "all", or how many pairs
    method: str = "histogram"  # how pairs are ranked: "histogram" or "nid"
    required: Features = ()  # always included
    forbidden: Features = ()  # features that never interact all together
    groups: Features = ()  # features may interact within a group
    heredity: bool = False  # whether the model must have all subsets of its components

    @classmethod
    def read(cls, given: Any, components: Features | None = None) -> Interactions:
        """Parse "auto", "all", a number, a list or a dict; or the components of the whole model."""
        if components is not None:
            return cls(listed=components, are_exact=True)
        if isinstance(given, Mapping):
            return cls(**given)
        return cls(listed=given) if isinstance(given, list | tuple) else cls(count=given)

    @property
    def are_searched(self) -> bool:
        """Whether a search has to find the interactions."""
        return self.listed is None and self.count != "all"

    @property
    def has_noise_floor(self) -> bool:
        """Whether the interactions are those above the noise, whatever their number."""
        return self.listed is None and self.count == "auto" and self.method == "histogram"

    def components(self, names: Sequence[str], order: int) -> ComponentSet:
        """Return what is listed, with all main effects unless exact, or all up to an order."""
        if self.listed is None:
            return ComponentSet.up_to(len(names), order)
        if self.are_exact:
            return resolve_components(self.listed, names, order)
        chosen = resolve_interactions(self.listed, names, order)
        return ComponentSet.with_mains(len(names), chosen)

    def request(self, order: int, max_components: int | None) -> Request:
        """Return what a search has to find."""
        count = None if self.count == "auto" else int(self.count)
        budget = max(max_components or 0, MOST_INTERACTIONS)  # the best are chosen after fitting
        if self.method == "nid" and count is None:  # a network has no noise floor
            count = max_components or budget
        if count is not None and order < 2:
            raise ValueError(
                f"interactions: pairs need an order of at least 2, found order={order} and "
                f"{count} interactions. Raise order, or pass interactions=[]."
            )
        return Request(order, self.method, count, count or budget)

    def most(self, order: int, n_features: int, max_components: int | None) -> int:
        """Return the largest number of components of an order that a fit may have."""
        count = math.comb(n_features, order)
        if self.listed is not None and order > 1:
            return sum(len(component) == order for component in self.listed)
        if not self.are_searched:
            return count
        if order == 1:
            return min(count, MOST_MAINS)
        if order > 2:  # a search finds no more than the memory holds
            return sum(len(component) == order for component in self.required)
        budget = self.request(order, max_components).budget
        return min(count, max(budget, MOST_INTERACTIONS))

    def rules(
        self, names: Sequence[str], order: int, alone: Iterable[int] = ()
    ) -> InteractionRules:
        """Rules with features as indices; no required interaction may contain a forbidden one.

        Features that are ``alone`` have no interactions.
        """
        required = resolve_interactions(
            self.required, names, order, "interactions['required']", fewest=1
        )
        forbidden = resolve_interactions(self.forbidden, names, None, "interactions['forbidden']")
        for one, other in product(required, forbidden):
            if set(one) >= set(other):
                raise ValueError(
                    f"interactions: a required interaction must not contain a forbidden one, found "
                    f"{tuple(names[j] for j in one)} and {tuple(names[j] for j in other)}. "
                    "Remove one of the two."
                )
        groups = tuple(
            tuple(resolve_feature(feature, names, "interactions['groups']") for feature in group)
            for group in self.groups
        )
        forbidden += [(feature,) for feature in alone]
        return InteractionRules(tuple(forbidden), groups, tuple(required))


# More pairs than MOST_INTERACTIONS are all included if they have few free cells and many rows:
FEWEST_ROWS_PER_CELL, MOST_CELLS = 100, 1000  # rows per free cell of all pairs, and free cells
PROBE_BAGS = 2  # of the fits that only decide whether to go on
MOST_ADDITIONS = 3
JUDGING_BAGS, MOST_JUDGED_PAIRS = 8, 50
PROBE_TIME_SHARE = 0.5  # of the time limit; the fit itself needs the rest
NETWORK_TIME_SHARE = 0.5  # of what the probes have left
QUICK_SCREEN_SHARE = 0.05  # of the largest screen, for triples that nobody asked for


@dataclass(kw_only=True)
class Search:
    """Finds the components of a problem."""

    problem: Problem  # with the main effects of all features
    request: Request
    rules: InteractionRules  # which interactions are permitted, and which required
    solver: Solver  # the user's own, with its penalties
    limits: Limits  # also the device of the screens
    most_triples: int = 0  # that the memory holds
    screens_all_triples: bool = False  # of as many features as possible, however long it takes
    events: list[Event] = field(default_factory=list)  # what was tried and decided
    evident: set[Component] = field(default_factory=set)  # components above the noise
    last: float = field(default_factory=time.monotonic)  # when the last entry was made

    @cached_property
    def probe_limits(self) -> Limits:
        """Limits of all probes together; the fit itself needs the rest of the time."""
        return self.limits.share(PROBE_TIME_SHARE)

    @cached_property
    def probed(self) -> Problem:
        """Problem of the probes, with so many rows that more would decide no better."""
        return self.problem.sampled(MOST_SCREENED_ROWS)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.problem.encoder.n_features

    @cached_property
    def takes_all(self) -> bool:
        """Whether there are so few main effects and pairs that all are included.

        They are few in number, or the pairs have few free cells compared with the rows.
        """
        order = min(self.request.order, 2)
        count = math.comb(self.n_features, order)
        most = MOST_MAINS if order == 1 else min(self.request.budget, MOST_INTERACTIONS)
        if self.request.count is not None:
            return False
        if count <= most or order == 1 or count > MOST_CELLS or self.request.budget < most:
            return count <= most
        free = np.array([axis.n_nodes - 1 for axis in self.problem.encoder.axes[1]])
        n_cells = (free.sum() ** 2 - (free**2).sum()) // 2
        n_rows = len(self.problem.rows.y)
        return bool(n_cells <= min(MOST_CELLS, n_rows / FEWEST_ROWS_PER_CELL))

    @property
    def takes_all_mains(self) -> bool:
        """Whether there are so few main effects that all are included and kept."""
        return self.n_features <= MOST_MAINS

    @property
    def is_screened(self) -> bool:
        """Whether main effects and pairs have to rise above the noise."""
        return self.request.count is None and not self.takes_all

    def up_to_pairs(self) -> ComponentSet:
        """Choose main effects and pairs."""
        return self.rules.applied(self._up_to_pairs())

    def _up_to_pairs(self) -> ComponentSet:
        if self.takes_all:
            return ComponentSet.up_to(self.n_features, min(self.request.order, 2))
        if self.request.count is None:
            return self._with_judged_pairs(self._while_it_gains(self._first_mains()))
        mains = ComponentSet.up_to(self.n_features, 1)
        problem = self.probed.with_bags(PROBE_BAGS)
        ranking = self._rank_pairs(problem)
        self._note(problem, ranking, "the requested number of best pairs")
        permitted = list(filter(self.rules.permit, ranking.components))
        return _joined(mains, permitted[: self.request.count])

    def higher(self, problem: Problem, solution: Solution) -> list[Component]:
        """Interactions of three or more features above the noise in the residual of a solution.

        A solver that can judge triples does; otherwise they are screened. Candidates come from all
        features if that is affordable, else from the features of the best pairs. Those of each
        higher order come from the features of what was found one order below.
        """
        highest = min(self.request.order, self.n_features)
        if highest < 3 or self._time_is_up(problem, self.limits):
            return []
        if not self.solver.judges:
            return self._screened(problem, solution, range(3, highest + 1), None)
        triples = self._triples(problem, solution)
        if highest == 3 or not triples:
            return triples
        return [*triples, *self._screened(problem, solution, range(4, highest + 1), triples)]

    def _triples(self, problem: Problem, solution: Solution) -> list[Component]:
        """Triples that held-out rows confirm: those above the noise, then all that growth can try.

        A few triples stand out when they grow alone, and many weak ones when they grow together.
        """
        most, found = min(self.request.budget, self.most_triples), list[Component]()
        search = JudgedSearch(self.rules, self.solver, self.limits, most)
        share = 1.0 if self.screens_all_triples else QUICK_SCREEN_SHARE
        screened = self._screened(problem, solution, range(3, 4), None, share)
        for candidates in (screened, None):
            confirmed, event = search.find(problem, solution, candidates)
            if event is not None:
                self._record(event)
            found += confirmed
        self.evident |= set(found)
        return list(dict.fromkeys(found))[:most]

    def _screened(
        self,
        problem: Problem,
        solution: Solution,
        orders: range,
        known: list[Component] | None,
        share: float = 1.0,
    ) -> list[Component]:
        """Interactions of some orders whose projections rise above the noise.

        They are of the features of known components, or of as many features as a share of the
        largest screen affords.
        """
        found: list[Component] = []
        screen = TableScreen(problem, solution, screen_limits(self.solver, self.limits))
        features = None if known is None else screen.features_of(known, self.n_features)
        for order in orders:
            if self._time_is_up(problem, self.limits):
                break
            most = affordable_features(order, screen.n_rows, share)
            if features is None and self.n_features > most:
                features = screen.features_of_best_pairs(most)
            ranking = screen.rank(order, self.request.budget, features and features[:most])
            found += filter(self.rules.permit, ranking.found)
            self._note(problem, ranking, f"order {order}, above the noise")
            features = screen.features_of(ranking.found, self.n_features)
            if len(features) <= order:
                break
        return found

    def _first_mains(self) -> ComponentSet:
        """All main effects or, if there are many, those that rise above the noise."""
        mains = ComponentSet.up_to(self.n_features, 1)
        if self.takes_all_mains:
            return mains
        ranking = self._screen(self.probed, None).rank(1, self.n_features)
        self._note(self.probed, ranking, "main effects, above the noise")
        return ComponentSet(tuple(ranking.found or ranking.components[:1]))

    def _while_it_gains(self, included: ComponentSet) -> ComponentSet:
        """Add what rises above the noise of the residual until the held-out loss stops falling."""
        accepted, before, probe = included, None, self.probed.with_bags(PROBE_BAGS)
        for attempt in range(MOST_ADDITIONS + 1):
            problem = probe.with_components(included)
            if self._time_is_up(problem, self.probe_limits):
                break
            solution = self._probe(problem)
            held_out = HeldOut(problem, solution)
            if before is not None and not _gains(before, held_out):
                reason = "stop: the held-out loss falls by less than a standard error"
                self._note(problem, None, reason, held_out.loss)
                break
            accepted, before = included, held_out
            if attempt == MOST_ADDITIONS or self._time_is_up(problem, self.probe_limits):
                break
            included = self._extended(problem, solution, held_out.loss)
            if included == accepted:
                break
        return accepted

    def _with_judged_pairs(self, included: ComponentSet) -> ComponentSet:
        """Add the pairs that growth confirms though their projections may not rise above the noise.

        Bags grow them on their training rows alone, so their held-out rows can judge them.
        """
        problem = self.probed.with_bags(JUDGING_BAGS).with_components(included)
        most = min(MOST_JUDGED_PAIRS, self.request.budget - sum(len(s) == 2 for s in included))
        can_be_judged = self.solver.judges and self.request.order > 1 and most > 0
        is_affordable = self.n_features <= features_grown_at_once(problem, 2)
        if not (can_be_judged and is_affordable) or self._time_is_up(problem, self.probe_limits):
            return included
        search = JudgedSearch(self.rules, self.solver, self.probe_limits, most, order=2)
        found, event = search.find(problem, self._probe(problem))
        if event is not None:
            self._record(event)
        self.evident |= set(found)
        return _joined(included, found)

    def _time_is_up(self, problem: Problem, limits: Limits) -> bool:
        is_up = limits.are_reached()
        if is_up:
            self._note(problem, None, "stop: the time limit is reached")
        return is_up

    def _extended(self, problem: Problem, solution: Solution, loss: float) -> ComponentSet:
        """Components of a problem, and those that rise above the noise of its residual.

        NOTE: held-out rows cannot judge candidates below the noise. The screen sees these rows too,
        so the best of many pairs fit their noise: they gain there and lose on new rows.
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

    def _probe(self, problem: Problem) -> Solution:
        """Solve a problem to see whether to go on."""
        return self.solver.solve(problem, self.probe_limits, NoProgress())

    def _screen(self, problem: Problem, solution: Solution | None) -> TableScreen:
        return TableScreen(problem, solution, screen_limits(self.solver, self.probe_limits))

    def _rank_pairs(self, problem: Problem) -> Ranking:
        screen = self._screen(problem, self._probe(problem))
        if self.request.method == "nid":
            limits = self.probe_limits.share(NETWORK_TIME_SHARE)
            return screen.rank_by_network(self.request.budget, limits.deadline)
        return screen.rank(2, self.request.budget)

    def _note(
        self, problem: Problem, ranking: Ranking | None, note: str, loss: float | None = None
    ) -> None:
        """Record what was tried."""
        last, self.last = self.last, time.monotonic()
        event = Event(
            stage="search",
            note=note,
            n_components=len(problem.components),
            validation_loss=loss,
            seconds=self.last - last,
        )
        if ranking is not None:
            cut = " (the time limit cut the screen short)" if ranking.is_cut else ""
            event = replace(
                event,
                note=note + cut,
                n_candidates=ranking.n_candidates,
                n_found=len(ranking.found),
                best_score=float(ranking.scores[0]) if len(ranking.scores) else 0.0,
                noise_floor=ranking.floor,
            )
            self.evident |= set(ranking.found)
        self._record(event)

    def _record(self, event: Event) -> None:
        self.events.append(event)
        event.log(logging.INFO)


def _gains(before: HeldOut, after: HeldOut) -> bool:
    """Whether the loss of the same held-out rows falls by more than a standard error."""
    mean, error = before.change(after.raw)
    return mean + error < 0


def _joined(components: ComponentSet, new: Iterable[Component]) -> ComponentSet:
    return ComponentSet((*components, *new)).with_subsets()
