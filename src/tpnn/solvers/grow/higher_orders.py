"""Higher orders: components of three and more features, grown by deep trees on a residual.

The features of a tree are all in one of the components, so the tree is a function on the grid of
that component.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import Component, ComponentSet
from tpnn.anova.measure import purify_tables
from tpnn.solvers.grow.deep import DeepBag, DeepGrowth
from tpnn.solvers.grow.deep_trees import add_tree
from tpnn.solvers.grow.forest import are_frozen, frozen_parts
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Solution


def with_higher(problem: Problem, lower: Solution) -> Problem:
    """Problem with a solution's components, the requested higher ones and all their subsets."""
    higher = [component for component in problem.components if len(component) > 2]
    components = ComponentSet((*lower.components, *higher)).with_subsets()
    return problem.with_components(components)


@dataclass(frozen=True)
class HigherOrders:
    """Adds the components of one order to a solution of lower orders."""

    growth: DeepGrowth  # of the components and all their subsets
    order: int

    @property
    def problem(self) -> Problem:
        """Problem of the growth."""
        return self.growth.problem

    @property
    def components(self) -> list[Component]:
        """Components that grow, in canonical order."""
        own = [s for s in self.problem.ordered if len(s) == self.order]
        frozen = are_frozen(own, self.problem)
        return [s for s, is_frozen in zip(own, frozen, strict=True) if not is_frozen]

    def fit(self, lower: Solution) -> Solution:
        """Add the components to a solution, and purify the sum."""
        growth = self.growth.within(self.components, self.problem.raw_scores_by_bag(lower))
        with growth.limits.workers() as workers:
            grown = workers.map(self._grids, growth.grow())
        constants, pure = purify_tables(self._combined(lower, grown), self.problem.encoder.axes)
        ordered = self.problem.ordered
        events = [replace(event, n_components=len(ordered)) for event in growth.events]
        return replace(
            lower,
            components=ordered,
            intercepts=lower.intercepts + constants,
            tables=[pure[component] for component in ordered],
            events=[*lower.events, *events],
        )

    def _shape(self, component: Component) -> tuple[int, ...]:
        axes = self.problem.encoder.axes[len(component)]
        return tuple(axes[feature].n_nodes for feature in component)

    def _grids(self, bag: DeepBag) -> dict[Component, FloatArray]:
        """Sum of the trees within each component on its grid, (M_1, ..., M_d, K)."""
        columns, grids = bag.columns, dict[Component, FloatArray]()
        left = list(zip(bag.trees, bag.asked, strict=True))
        for component in self.components:
            shape = self._shape(component)
            cells = np.indices(shape).reshape(len(shape), -1)
            codes = np.zeros((len(columns.features), cells.shape[1]), np.uint8)
            for place, feature in enumerate(columns.features.tolist()):
                if feature in component:
                    codes[place] = columns.codes[place][cells[component.index(feature)]]
            raw = np.zeros((cells.shape[1], self.problem.objective.n_outputs))
            for tree, asked in left:
                if asked <= set(component):
                    add_tree(codes, *tree, raw)
            left = [(tree, asked) for tree, asked in left if not asked <= set(component)]
            grids[component] = raw.reshape(*shape, -1)
        return grids

    def _combined(
        self, lower: Solution, bags: Sequence[Mapping[Component, FloatArray]]
    ) -> dict[Component, FloatArray]:
        """Grids (M_1, ..., M_d, n_bags * K): those of the lower orders, plus what has grown.

        What trees would move into frozen components is taken out.
        """
        known = dict(zip(lower.components, lower.tables, strict=True))
        n_lanes = len(lower.intercepts)
        combined = {
            s: known.get(s, np.zeros((*self._shape(s), n_lanes))) for s in self.problem.ordered
        }
        components = self.components
        parts = {part.index: part for part in frozen_parts(components, self.problem)}
        for index, component in enumerate(components):
            grown = np.concatenate([bag[component] for bag in bags], axis=-1)
            if index in parts:
                lanes = np.moveaxis(grown, -1, 0)
                grown = np.stack([parts[index].taken_from(lane) for lane in lanes], axis=-1)
            combined[component] = combined[component] + grown
        return combined
