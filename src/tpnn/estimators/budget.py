"""What a time limit affords: how many bags, and how much time the solver gets."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from tpnn.anova.components import Component, ComponentSet
from tpnn.anova.measure import purify_tables
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Event, Limits

N_TIMINGS = 3  # of each component; the shortest counts
PASSES_IN_ALL, PASSES_AFTER_SOLVING = 4.0, 2.5  # work on a component, in units of what is timed
LARGEST_TIME_SHARE = 0.5  # of the time left, for all that is not training


@dataclass(frozen=True)
class Budget:
    """What a time limit affords.

    Purifying the components, averaging the bags and ranking the components take time after the
    solver has stopped. Both are proportional to the number of components, and nearly so to the
    number of bags. So the work on one component of each order is timed before the solver starts: if
    all components of all bags would take more than half of the time left, fewer bags are fitted, at
    least one. The solver gets the time that the rest of the work does not need, and at least half.
    """

    n_bags: int
    limits: Limits  # of the solver, which leave time for what comes after it
    events: list[Event]  # what was cut short


def time_budget(problem: Problem, n_bags: int, limits: Limits) -> Budget:
    """Bags that the time left affords, and the limits of a solver that fits them."""
    if limits.has_no_deadline:
        return Budget(n_bags, limits, [])
    began = time.monotonic()
    one, all_bags = (seconds_of_components(problem, count) for count in (1, n_bags))
    each = max(all_bags - one, 0.0) / max(n_bags - 1, 1)  # a further bag
    left = LARGEST_TIME_SHARE * max(limits.seconds_left, 0.0)
    affordable = n_bags
    while affordable > 1 and PASSES_IN_ALL * (one + each * (affordable - 1)) > left:
        affordable -= 1
    needed = min(PASSES_AFTER_SOLVING * (one + each * (affordable - 1)), left)
    events = []
    if affordable < n_bags:
        note = f"the time limit affords {affordable} of {n_bags} bags"
        events.append(limit_event(problem, note, began))
    return Budget(affordable, replace(limits, deadline=limits.deadline - needed), events)


def limit_event(problem: Problem, note: str, began: float) -> Event:
    """Record what a time limit cut short."""
    seconds = time.monotonic() - began
    return Event(stage="limit", note=note, n_components=len(problem.components), seconds=seconds)


def seconds_of_components(problem: Problem, n_bags: int) -> float:
    """Estimated seconds to purify all components in some bags, and to look up their values."""
    total = 0.0
    for order in problem.components.orders:
        components = [s for s in problem.components if len(s) == order]
        _ = problem.codes.by_order  # coded once, and not part of what is timed
        timings = [_seconds_of(problem, components[0], n_bags) for _ in range(N_TIMINGS)]
        total += len(components) * min(timings)
    return total


def _seconds_of(problem: Problem, component: Component, n_bags: int) -> float:
    """Seconds to purify one component in some bags and to look up its values on all rows."""
    axes, n_lanes = problem.encoder.axes, n_bags * problem.objective.n_outputs
    tables = {
        s: np.full(
            (*(axes[len(s)][feature].n_nodes for feature in s), n_lanes), float(s == component)
        )
        for s in ComponentSet((component,)).with_subsets()
    }
    began = time.monotonic()
    purify_tables(tables, axes)
    problem.codes.values(component, tables[component])
    return time.monotonic() - began
