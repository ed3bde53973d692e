"""Parts: the effect of changing some features together, as a sum of independent parts.

With all other features at their values, the raw score is a sum over groups of features that
interact with each other. A group of one feature without levels moves freely. Any other group is a
list of options, the combinations of the values of its features. Options that cost more than another
one and do less are left out, which changes no optimum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise

import numpy as np

from tpnn._frozen import FrozenModel
from tpnn._typing import FloatArray
from tpnn.recourse.choices import Choice
from tpnn.sheets.frozen import values_at

SMALLEST_RUN = 1e-300
MOST_OPTIONS = 20_000_000  # of a group of features that interact


@dataclass(frozen=True, eq=False)
class Part:
    """One group of features that change together.

    Parameters
    ----------
    features : tuple of int
        The features.
    options : array of shape (n_options, n_features)
        Their values; of a free feature, the ends of the segments of its curve.
    effects, costs : array of shape (n_options,)
        Change of the raw score, and cost.
    free : Choice or None
        The choice of a feature that moves freely.
    """

    features: tuple[int, ...]
    options: FloatArray
    effects: FloatArray
    costs: FloatArray
    free: Choice | None = None

    def without_dominated(self, sign: int) -> Part:
        """Leave out options for which another one costs no more and goes as far; 0 is no side."""
        if self.free is not None or sign == 0:
            return self
        order = np.lexsort((-sign * self.effects, self.costs))
        gains = sign * self.effects[order]
        best = np.maximum.accumulate(gains)
        kept = order[np.r_[True, gains[1:] > best[:-1]]]
        return Part(self.features, self.options[kept], self.effects[kept], self.costs[kept])

    def up_to(self, cost: float) -> Part:
        """Leave out options that cost more than a change that is known already."""
        kept = self.costs <= cost
        if self.free is None:
            return Part(self.features, self.options[kept], self.effects[kept], self.costs[kept])
        near = np.flatnonzero(kept)  # neighbours on both sides of the current value
        part = slice(max(near[0] - 1, 0), near[-1] + 2)
        choice = replace(
            self.free,
            values=self.free.values[part],
            costs=self.free.costs[part],
            current=self.free.current - part.start,
        )
        effects, costs = self.effects[part], self.costs[part]
        return Part(self.features, self.options[part], effects, costs, choice)


def good_options(parts: Sequence[Part], side: int, needed: float) -> list[float] | None:
    """Values of a cheap change that goes far enough: the cheapest options of one or two parts.

    It is a start for the programme, which may choose values between options; None if there is none.
    """
    if len(parts) > 2:
        return None
    small = [Part(p.features, p.options, p.effects, p.costs).without_dominated(side) for p in parts]
    first, last = small[0], small[-1]
    gains = side * first.effects if len(parts) == 2 else np.zeros(1)
    places = np.searchsorted(side * last.effects, needed - gains)  # the first that is enough
    costs = np.append(last.costs, np.inf)[places]
    costs = costs + first.costs if len(parts) == 2 else costs
    best = int(costs.argmin())
    if not np.isfinite(costs[best]):
        return None
    chosen = [first.options[best]] * (len(parts) == 2) + [last.options[places[best]]]
    return [float(value) for option in chosen for value in option]


def least_cost(parts: Sequence[Part], side: int, needed: float) -> float:
    """Lower bound of the cost of an effect: that of mixtures of options, steepest first.

    The best effect of a mixture is a concave function of its cost, and so is the sum over parts;
    inf means that no change of these features goes so far.
    """
    slopes, gains = [], []
    for part in parts:
        pareto = Part(part.features, part.options, part.effects, part.costs).without_dominated(side)
        steep, gain = _concave(pareto.costs, side * pareto.effects)
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


def groups_of(model: FrozenModel, features: Sequence[int]) -> list[tuple[int, ...]]:
    """Features in groups that interact with each other, directly or through another one.

    >>> from tpnn import purify
    >>> nodes = {name: [0, 1] for name in "abc"}
    >>> groups_of(purify({("a", "c"): [[0, 1], [1, 5]], "b": [0, 1]}, nodes), [0, 1, 2])
    [(0, 2), (1,)]
    """
    group = {feature: {feature} for feature in features}
    for component in model.components:
        joined = [feature for feature in component if feature in group]
        if len(joined) > 1:
            union = reduce(set.union, (group[feature] for feature in joined))
            group.update(dict.fromkeys(union, union))
    return sorted({tuple(sorted(members)) for members in group.values()})


def find_parts(
    model: FrozenModel,
    row: FloatArray,
    features: Sequence[int],
    choice: Callable[[int, bool], Choice],
) -> list[Part]:
    """Parts of the change of some features; ``choice`` gives the values of a feature."""
    parts = []
    for group in groups_of(model, features):
        choices = [choice(feature, len(group) > 1) for feature in group]
        effects = _effects(model, row, set(features), choices)
        options = np.stack(np.meshgrid(*(c.values for c in choices), indexing="ij"), -1)
        costs = reduce(np.add.outer, [c.costs for c in choices])
        free = choices[0] if choices[0].is_free else None
        flat = options.reshape(-1, len(group))
        parts.append(Part(group, flat, effects.ravel(), np.ravel(costs), free))
    return parts


def _effects(
    model: FrozenModel, row: FloatArray, changing: set[int], choices: Sequence[Choice]
) -> FloatArray:
    """Change of the raw score on all combinations of values of one group, (n_1, ..., n_d)."""
    place_of = {choice.feature: place for place, choice in enumerate(choices)}
    shape = tuple(len(choice.values) for choice in choices)
    if np.prod(shape, dtype=float) > MOST_OPTIONS:
        raise ValueError(
            f"max_changes: features that interact have {shape} values to combine, which is too "
            "many. Lower max_changes, fix some features, or give them ranges."
        )
    total: FloatArray = np.zeros(shape)
    for component in model.components:
        if not changing.intersection(component) & place_of.keys():
            continue
        numbers = [choices[place_of[j]].values if j in place_of else row[j : j + 1]
                   for j in component]  # fmt: skip
        grid = values_at(model, component, numbers)
        order = sorted(range(len(component)), key=lambda a: place_of.get(component[a], -1))
        wide = [shape[k] if choices[k].feature in component else 1 for k in range(len(shape))]
        total += grid.transpose(order).reshape(wide)
    current = tuple(choice.current for choice in choices)
    return np.asarray(total - total[current])
