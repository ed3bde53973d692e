"""Search for triples: all that are affordable are grown at once, and held-out rows judge them."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb

import numpy as np

from tpnn._typing import FloatArray
from tpnn.anova.components import Component, InteractionRules, canonical
from tpnn.problem.problem import Problem
from tpnn.problem.solution import Event, Solution
from tpnn.problem.solver import Solver
from tpnn.problem.stopping import Limits
from tpnn.search.table_screen import TableScreen

MOST_CANDIDATES = 4000
MOST_CANDIDATE_ROWS = 200_000_000  # candidates times rows
N_STANDARD_ERRORS_CONFIRMED = 1.5  # by which the held-out loss must fall
RANKED_PAIRS_PER_FEATURE = 10
KEPT_SHARE_OF_FALL = 0.95
CUT_SHORT = "triples: not confirmed (the time limit cut the growth short)"


@dataclass(frozen=True)
class TripleSearch:
    """Finds the triples that held-out rows confirm.

    Parameters
    ----------
    rules : InteractionRules
        Which interactions are permitted.
    solver : Solver
        A solver that can judge triples.
    limits : Limits
        When to stop, number of threads, and device for the screen.
    most : int
        Largest number of triples to return.
    """

    rules: InteractionRules
    solver: Solver
    limits: Limits
    most: int

    def find(self, problem: Problem, solution: Solution) -> tuple[list[Component], Event | None]:
        """Triples of a solved problem, best first, and what the history says about them.

        The candidates are confirmed all together: the held-out loss must fall by some standard
        errors. Those are returned that have a share in its fall. A verdict that the time limit cut
        short confirms nothing.
        """
        began = time.monotonic()
        candidates = self._candidates(problem, solution) if self.most > 0 else []
        event = Event(
            stage="search",
            note="triples: not searched, the memory holds none",
            n_components=len(problem.components),
            n_candidates=len(candidates),
            n_found=0,
            seconds=time.monotonic() - began,
        )
        if not candidates:
            return [], event if self.most < 1 else None
        verdict = self.solver.judge(problem, solution, candidates, self.limits)
        needed = N_STANDARD_ERRORS_CONFIRMED * verdict.error
        is_cut = self.limits.are_reached()
        is_confirmed = verdict.change < -needed and not is_cut
        best = _with_most_of_the_fall(verdict.falls) if is_confirmed else []
        found = [tuple(sorted(candidates[index])) for index in best[: self.most]]
        event = replace(
            event,
            note=CUT_SHORT if is_cut else _note(len(found), len(best)),
            n_found=len(best),
            best_score=-verdict.change,
            noise_floor=needed,
            seconds=time.monotonic() - began,
        )
        return found, event

    def _candidates(self, problem: Problem, solution: Solution) -> list[Component]:
        """All permitted triples if they are affordable, else those of the best pairs' features."""
        features, n_affordable = problem.features, features_of_all_triples(problem)
        if len(features) > n_affordable:
            screen = TableScreen(problem, solution, self.limits)
            pairs = screen.rank(2, RANKED_PAIRS_PER_FEATURE * n_affordable).components
            features = list(dict.fromkeys(j for pair in pairs for j in pair))[:n_affordable]
        triples = canonical(combinations(features, 3), problem.features)
        return [triple for triple in triples if self.rules.permit(tuple(sorted(triple)))]


def features_of_all_triples(problem: Problem) -> int:
    """Return the number of features, at least three, all of whose triples can be grown at once."""
    most = max(min(MOST_CANDIDATES, MOST_CANDIDATE_ROWS // len(problem.rows.y)), 1)
    return max(n for n in range(3, len(problem.features) + 3) if comb(n, 3) <= most)


def _note(n_added: int, n_found: int) -> str:
    """Say in the history what becomes of the candidates."""
    if not n_found:
        return "triples: not confirmed"
    return f"triples: add {n_added}" + (f" of {n_found}" if n_added < n_found else "")


def _with_most_of_the_fall(falls: FloatArray) -> list[int]:
    """List the candidates, best first, that together have most of the fall of the loss."""
    best_first = np.argsort(-falls, kind="stable")
    gains = falls[best_first].clip(0)
    count = int(np.searchsorted(np.cumsum(gains), KEPT_SHARE_OF_FALL * gains.sum())) + 1
    return [int(index) for index in best_first[:count] if falls[index] > 0]
