"""Parts: the effect of changing some features together, as a sum of independent parts.

With all other features at their values, the raw score is a sum over groups of features that
interact with each other, in components or in leaves of trees. A group of one feature without levels
moves freely. Any other group is a list of options, the combinations of the values of its features.
Options that cost more than another one and do less are left out, which changes no optimum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import Component
from tpnn.export.sheets.tidy import values_at
from tpnn.lifecycle.recourse.choices import Choice, Leaves
from tpnn.model.model import AnovaModel

SMALLEST_RUN = 1e-300
MOST_OPTIONS = 20_000_000  # of a group of features that interact


@dataclass(frozen=True, eq=False)
class Part:
    """One group of features that change together."""

    features: tuple[int, ...]
    options: FloatArray  # (n_options, n_features); of a free feature, the ends of its segments
    effects: FloatArray  # (n_options,), change of the raw score
    costs: FloatArray  # (n_options,)
    free: Choice | None = None  # the choice of a feature that moves freely

    def without_dominated(self, sign: int) -> Part:
        """Drop options that another one beats in cost and effect.

        With sign 0 there is no direction, so all are kept.
        """
        if self.free is not None or sign == 0:
            return self
        order = np.lexsort((-sign * self.effects, self.costs))
        gains = sign * self.effects[order]
        best = np.maximum.accumulate(gains)
        kept = order[np.r_[True, gains[1:] > best[:-1]]]
        return Part(self.features, self.options[kept], self.effects[kept], self.costs[kept])

    def pareto(self, side: int) -> Part:
        """Options alone, also of a free feature, without those that are dominated on one side."""
        listed = Part(self.features, self.options, self.effects, self.costs)
        return listed.without_dominated(side)

    def up_to(self, cost: float) -> Part:
        """Leave out options that cost more than a change that is known already."""
        kept = self.costs <= cost
        if self.free is None:
            return Part(self.features, self.options[kept], self.effects[kept], self.costs[kept])
        near = np.flatnonzero(kept)  # neighbours on both sides of the current value
        reachable = slice(max(near[0] - 1, 0), near[-1] + 2)
        choice = replace(
            self.free,
            values=self.free.values[reachable],
            costs=self.free.costs[reachable],
            jumps=self.free.jumps[reachable.start : reachable.stop - 1],
            current=self.free.current - reachable.start,
        )
        effects, costs = self.effects[reachable], self.costs[reachable]
        return Part(self.features, self.options[reachable], effects, costs, choice)


def good_options(parts: Sequence[Part], side: int, needed: float) -> list[float] | None:
    """Values of a cheap change that goes far enough: the cheapest options of one or two parts.

    No option of the parts is dominated. It is a start for the programme, which may choose values
    between options; None if there is none.
    """
    if len(parts) > 2:
        return None
    first, last = parts[0], parts[-1]
    gains = side * first.effects if len(parts) == 2 else np.zeros(1)
    enough = np.searchsorted(side * last.effects, needed - gains)  # the first that is enough
    costs = np.append(last.costs, np.inf)[enough]
    costs = costs + first.costs if len(parts) == 2 else costs
    best = int(costs.argmin())
    if not np.isfinite(costs[best]):
        return None
    chosen = [first.options[best]] * (len(parts) == 2) + [last.options[enough[best]]]
    return [float(value) for option in chosen for value in option]


def least_cost(parts: Sequence[Part], side: int, needed: float) -> float:
    """Lower bound of the cost of an effect: that of mixtures of options, steepest first.

    The best effect of a mixture is a concave function of its cost, and so is the sum over parts;
    inf means that no change of these features goes so far. No option of the parts is dominated.
    """
    slopes, gains = [], []
    for part in parts:
        steep, gain = _concave(part.costs, side * part.effects)
        slopes += steep
        gains += gain
    total, cost = 0.0, 0.0
    for k in np.argsort(slopes)[::-1]:
        if total + gains[k] >= needed:
            return float(cost + (needed - total) / slopes[k])
        total, cost = total + gains[k], cost + gains[k] / slopes[k]
    return float(np.inf)


def _concave(costs: FloatArray, gains: FloatArray) -> tuple[list[float], list[float]]:
    """Slopes and rises of the least concave function above points of increasing cost and gain."""
    hull = [(float(costs[0]), float(gains[0]))]
    for cost, gain in zip(costs[1:].tolist(), gains[1:].tolist(), strict=True):
        while len(hull) > 1:
            (c1, g1), (c2, g2) = hull[-2], hull[-1]
            if (g2 - g1) * (cost - c2) > (gain - g2) * (c2 - c1):
                break
            hull.pop()
        hull.append((cost, gain))
    steps = [(c2 - c1, g2 - g1) for (c1, g1), (c2, g2) in pairwise(hull)]
    return [rise / max(run, SMALLEST_RUN) for run, rise in steps], [rise for _, rise in steps]


def groups_of(
    having: Mapping[int, Sequence[Component]], features: Sequence[int]
) -> list[tuple[int, ...]]:
    """Features in groups that interact with each other, directly or through another one.

    ``having`` are the components of each feature.

    >>> groups_of({0: [(0,), (0, 2)], 1: [(1,)], 2: [(0, 2)]}, [0, 1, 2])
    [(0, 2), (1,)]
    """
    group = {feature: {feature} for feature in features}
    for component in {s for feature in features for s in having[feature]}:
        joined = [feature for feature in component if feature in group]
        if len(joined) > 1:
            union = reduce(set.union, (group[feature] for feature in joined))
            group.update(dict.fromkeys(union, union))
    return sorted({tuple(sorted(members)) for members in group.values()})


class Effects:
    """What components and leaves add to the raw score of a row if some of its features change.

    A curve of a component is the same in every set of features that change, so it is computed once.
    ``choice`` must return the same object each time: the values of a feature, given whether the
    feature is linked to another one that changes.
    """

    def __init__(
        self,
        model: AnovaModel,
        leaves: Leaves | None,
        row: FloatArray,
        choice: Callable[[int, bool], Choice],
    ) -> None:
        self.model, self.leaves, self.row, self.choice = model, leaves, row, choice
        self._having: dict[int, list[Component]] = {}
        for component in model.components:
            for feature in component:
                self._having.setdefault(feature, []).append(component)
        self._grids: dict[tuple[Component, tuple[Choice, ...]], FloatArray] = {}

    def parts(self, features: Sequence[int]) -> list[Part]:
        """Parts of the change of some features."""
        parts, meetings = [], [] if self.leaves is None else self.leaves.meetings(features)
        having = {
            feature: [
                *self._having.get(feature, ()),
                *(pair for pair in meetings if feature in pair),
            ]
            for feature in features
        }
        for group in groups_of(having, features):
            choices = [self.choice(feature, len(group) > 1) for feature in group]
            effects = self._of(choices)
            options = np.stack(np.meshgrid(*(c.values for c in choices), indexing="ij"), -1)
            costs = reduce(np.add.outer, [c.costs for c in choices])
            free = choices[0] if choices[0].is_free else None
            flat = options.reshape(-1, len(group))
            parts.append(Part(group, flat, effects.ravel(), np.ravel(costs), free))
        return parts

    def _of(self, choices: Sequence[Choice]) -> FloatArray:
        """Change of the raw score on all combinations of values of one group, (n_1, ..., n_d)."""
        shape = tuple(len(choice.values) for choice in choices)
        if np.prod(shape, dtype=float) > MOST_OPTIONS:
            raise ValueError(
                f"max_changes: features that interact have {shape} values to combine, which is too "
                "many. Lower max_changes, fix some features, or give them ranges."
            )
        total: FloatArray = np.zeros(shape)
        touched = {s: None for c in choices for s in self._having.get(c.feature, ())}
        for component in touched:
            moving = tuple(choice for choice in choices if choice.feature in component)
            wide = [len(c.values) if c.feature in component else 1 for c in choices]
            total += self._grid(component, moving).reshape(wide)
        if self.leaves is not None:
            total += self.leaves.effects(choices)
        current = tuple(choice.current for choice in choices)
        return np.asarray(total - total[current])

    def _grid(self, component: Component, moving: tuple[Choice, ...]) -> FloatArray:
        """Component on all values of its features that change, (n_1, ..., n_k) in their order."""
        key = component, moving
        if key not in self._grids:
            position = {choice.feature: axis for axis, choice in enumerate(moving)}
            numbers = [moving[position[j]].values if j in position else self.row[j : j + 1]
                       for j in component]  # fmt: skip
            grid = values_at(self.model, component, numbers)
            order = sorted(range(len(component)), key=lambda a: position.get(component[a], -1))
            shape = [len(choice.values) for choice in moving]
            self._grids[key] = grid.transpose(order).reshape(shape)
        return self._grids[key]
