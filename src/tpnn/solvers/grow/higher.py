"""Components of three or more features, grown on the residual of what was grown before them.

Every bag starts from its fitted components and adds to the grids of the higher orders until its
held-out loss stops falling. If there is nothing to find, it stops at once and the model does not
change. The result is purified: the lower-order parts of each grid move to the components of those
orders.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import Component, ComponentSet
from tpnn.anova.purify import purify_tables
from tpnn.solvers.grow.bag import BagGrower, Grown
from tpnn.solvers.problem.coded import CodedComponents
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.problem.solution import Event, Progress, Solution


class Bags(Protocol):
    """Grows the components of some orders, bag by bag.

    Parameters
    ----------
    problem : Problem
        Components of every order, including all subsets of those that grow.
    grower : BagGrower
        Grows one bag.
    parts : list of CodedComponents
        The components that grow, one entry per order.
    """

    problem: Problem
    grower: BagGrower
    parts: list[CodedComponents]

    def grow(self, bag: int, raw: FloatArray) -> Grown:
        """Grow one bag on the residual of the raw scores ``raw`` (n, K)."""


class HigherOrders:
    """Adds the components of higher orders to a solution.

    Parameters
    ----------
    bags : Bags
        What grows.
    note : str
        What the history of the fit calls it.
    """

    def __init__(self, bags: Bags, note: str) -> None:
        self.bags, self.note = bags, note
        self.problem, self.axes = bags.problem, bags.problem.encoder.axes

    def fit(self, lower: Solution, progress: Progress) -> Solution:
        """Add higher orders to a solution of lower ones, and purify the sum."""
        began = time.monotonic()
        n_bags = self.problem.n_bags
        raw = self.problem.raw_scores_by_bag(lower)
        events: list[Event] = []

        def grow(bag: int) -> Grown:
            grown = self.bags.grow(bag, raw[bag])
            event = Event(
                stage="grow", note=self.bags.grower.noted(self.note), bag=bag, step=grown.rounds,
                n_components=len(self.problem.components), validation_loss=grown.loss,
                seconds=time.monotonic() - began,
            )  # fmt: skip
            events.append(event)
            progress.advance(event)
            return grown

        progress.begin(n_bags, "growth")
        with self.bags.grower.limits.workers() as workers:
            grown = workers.map(grow, range(n_bags))
        events.sort(key=lambda event: event.bag or 0)
        known = dict(zip(lower.components, lower.tables, strict=True))
        constants, pure = purify_tables(self._combined(known, grown), self.axes)
        components = self.problem.ordered
        return replace(
            lower,
            components=components,
            intercepts=lower.intercepts + constants,
            tables=[pure[component] for component in components],
            events=[*lower.events, *events],
        )

    def _combined(
        self, lower: Mapping[Component, FloatArray], bags: Sequence[Grown]
    ) -> dict[Component, FloatArray]:
        """Grids (M_1, ..., M_d, n_bags * K): those of the lower orders, plus what has grown."""
        n_lanes = self.problem.n_bags * self.problem.objective.n_outputs
        combined = {}
        for component in self.problem.ordered:
            sizes = (self.axes[len(component)][feature].n_nodes for feature in component)
            combined[component] = lower.get(component, np.zeros((*sizes, n_lanes)))
        for number, part in enumerate(self.bags.parts):
            shape = [part.n_nodes] * part.features.shape[1]
            lanes = np.concatenate([bag.tables.by_order[number] for bag in bags])
            for index, component in enumerate(map(tuple, part.features.tolist())):
                cells = tuple(map(slice, combined[component].shape[:-1]))
                grown = np.moveaxis(lanes[:, index].reshape(n_lanes, *shape), 0, -1)
                combined[component] = combined[component] + grown[cells]
        return combined


def with_higher(problem: Problem, lower: Solution) -> Problem:
    """Problem with a solution's components, the requested higher ones and all their subsets."""
    higher = [component for component in problem.components if len(component) > 2]
    components = ComponentSet((*lower.components, *higher)).with_subsets()
    return problem.with_components(components)
