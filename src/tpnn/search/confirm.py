"""Candidates that are grown at once, pairs or triples, and confirmed by held-out rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import Component, InteractionRules, canonical
from tpnn.search.table_screen import TableScreen, screen_limits
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Event, Limits, Solution
from tpnn.solvers.solver import Solver

MOST_CANDIDATES = 4000
MOST_CANDIDATE_ROWS = 200_000_000  # candidates times rows
MOST_JUDGED_ROWS = 250_000  # more confirm no better
N_STANDARD_ERRORS_CONFIRMED = 2.0  # by which the held-out loss must fall
CLEAR_FALL = 2.0  # times the largest rise by a candidate
KEPT_SHARE_OF_FALL = 0.95
NAMES = {2: "pairs", 3: "triples"}


@dataclass(frozen=True)
class JudgedSearch:
    """Finds the pairs or triples that held-out rows confirm."""

    rules: InteractionRules
    solver: Solver  # can judge candidates
    limits: Limits  # also the device of the screen
    most: int  # largest number of components to return
    order: int = 3  # 2 or 3

    def find(
        self, problem: Problem, solution: Solution, some: Sequence[Component] | None = None
    ) -> tuple[list[Component], Event | None]:
        """Components that a solved problem lacks, best first, and what the history says about them.

        Candidates are ``some`` that a screen has found or, by default, as many as can be grown.
        They are confirmed all together: the held-out loss must fall by some standard errors. Those
        are returned that have a share in its fall. A verdict that the time limit cut short confirms
        nothing.
        """
        began, problem = time.monotonic(), problem.sampled(MOST_JUDGED_ROWS)
        if self.most < 1:
            without = f"{NAMES[self.order]}: not searched, the memory holds none"
            return [], self._event(problem, without, began) if some is None else None
        candidates = (
            self._candidates(problem, solution)
            if some is None
            else list(canonical(some, problem.features))
        )
        if not candidates:
            return [], None
        verdict = self.solver.judge(problem, solution, candidates, self.limits)
        needed = N_STANDARD_ERRORS_CONFIRMED * verdict.error
        is_cut = self.limits.are_reached()
        is_confirmed = verdict.change < -needed and not is_cut
        best = _with_most_of_the_fall(verdict.falls) if is_confirmed else []
        found = [tuple(sorted(candidates[index])) for index in best[: self.most]]
        name = NAMES[self.order] + (" above the noise" if some else "")
        event = self._event(problem, _note(name, len(found), len(best), is_cut), began)
        counted = replace(event, n_candidates=len(candidates), n_found=len(best))
        return found, replace(counted, best_score=-verdict.change, noise_floor=needed)

    def _candidates(self, problem: Problem, solution: Solution) -> list[Component]:
        """All permitted ones if they are affordable, else those of the best pairs' features."""
        features, known = problem.features, set(problem.components)
        n_affordable = features_grown_at_once(problem, self.order)
        if len(features) > n_affordable:
            screen = TableScreen(problem, solution, screen_limits(self.solver, self.limits))
            features = screen.features_of_best_pairs(n_affordable)
        given = canonical(combinations(features, self.order), problem.features)
        named = [(component, tuple(sorted(component))) for component in given]
        return [s for s, name in named if name not in known and self.rules.permit(name)]

    def _event(self, problem: Problem, note: str, began: float) -> Event:
        return Event(
            stage="search",
            note=note,
            n_components=len(problem.components),
            n_candidates=0,
            n_found=0,
            seconds=time.monotonic() - began,
        )


def _note(name: str, n_added: int, n_found: int, is_cut: bool) -> str:
    """Say in the history what becomes of the candidates."""
    if is_cut:
        return f"{name}: not confirmed (the time limit cut the growth short)"
    if not n_found:
        return f"{name}: not confirmed"
    return f"{name}: add {n_added}" + (f" of {n_found}" if n_added < n_found else "")


def features_grown_at_once(problem: Problem, order: int) -> int:
    """Return the number of features all of whose pairs or triples can be grown at once."""
    n_rows = min(len(problem.rows.y), MOST_JUDGED_ROWS)
    most = max(min(MOST_CANDIDATES, MOST_CANDIDATE_ROWS // n_rows), 1)
    sizes = range(order, len(problem.features) + order)
    return max(n for n in sizes if comb(n, order) <= most)


def _with_most_of_the_fall(falls: FloatArray) -> list[int]:
    """List the candidates, best first, that together have most of the fall of the loss.

    A useless candidate makes the loss rise as often as fall. So the fall of all is their sum, rises
    included: the falls of the useless ones cancel. A fall that is not clearly larger than any rise
    may be one of theirs.
    """
    best_first = np.argsort(-falls, kind="stable")
    gains = falls[best_first].clip(0)
    count = int(np.searchsorted(np.cumsum(gains), KEPT_SHARE_OF_FALL * falls.sum())) + 1
    noise = max(-CLEAR_FALL * falls.min(), 0.0)
    return [int(index) for index in best_first[:count] if falls[index] > noise]
