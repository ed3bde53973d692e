"""Frozen components: they do not grow, and what others would move into them is taken out.

The average of a pair over one feature belongs to the main effect of the other. If that is frozen,
the average is subtracted from the pair after every visit, so that growth sees what will be left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tpnn._utils.arrays import BoolArray, Float32Array, FloatArray
from tpnn.anova.components import Component
from tpnn.anova.purify import part_of
from tpnn.solvers.problem.problem import Problem
from tpnn.table.axis import Axis


@dataclass(frozen=True)
class FrozenParts:
    """Parts of one component that belong to frozen ones."""

    index: int  # of the component among those of its order
    weights: list[FloatArray]  # (M_j,), masses along each of its axes
    kept: list[tuple[int, ...]]  # axes of each part

    def taken_from(self, grid: Float32Array) -> Float32Array:
        """Grid (M_1, ..., M_d), which may be padded, without these parts."""
        cells = tuple(slice(len(masses)) for masses in self.weights)
        own = grid[cells].astype(np.float64)
        for kept in self.kept:
            part = part_of(own, self.weights, kept)
            others = tuple(axis for axis in range(own.ndim) if axis not in kept)
            own = own - np.expand_dims(part, others)
        left = grid.copy()
        left[cells] = own
        return left


@dataclass(frozen=True)
class Frozen:
    """What must not grow of main effects and pairs."""

    components: BoolArray  # (n_pairs + n_mains,): whether each is frozen, pairs first
    pair_parts: list[FrozenParts]  # what pairs would move into frozen main effects

    @classmethod
    def of(cls, problem: Problem) -> Frozen | None:
        """Read what a problem of main effects and pairs freezes; None for nothing."""
        if problem.base is None or not problem.base.frozen:
            return None
        mains, pairs = ([s for s in problem.ordered if len(s) == order] for order in (1, 2))
        return cls(are_frozen([*pairs, *mains], problem), frozen_parts(pairs, problem))


def are_frozen(components: Sequence[Component], problem: Problem) -> BoolArray:
    """Whether each of some components is frozen, (n_components,)."""
    frozen = frozenset() if problem.base is None else problem.base.frozen
    return np.array([tuple(sorted(s)) in frozen for s in components], bool)


def frozen_parts(components: Sequence[Component], problem: Problem) -> list[FrozenParts]:
    """Parts of some components of one order that belong to frozen components of lower order."""
    if problem.base is None or not problem.base.frozen:
        return []
    frozen, axes = problem.base.frozen, problem.encoder.axes
    found = []
    for index, component in enumerate(components):
        kept = [
            places
            for size in range(1, len(component))
            for places in combinations(range(len(component)), size)
            if tuple(sorted(component[place] for place in places)) in frozen
        ]
        if kept:
            found.append(FrozenParts(index, _masses(component, axes), kept))
    return found


def _masses(component: Component, axes: Mapping[int, Sequence[Axis]]) -> list[FloatArray]:
    return [axes[len(component)][feature].weights for feature in component]
