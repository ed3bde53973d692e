"""Choices: which values each feature of a row may take, what they cost and what they add.

A feature that changes alone, or with others that it does not interact with, moves freely along its
curve, which is linear between nodes but for the steps of trees. Features that change together and
interact move from node to node: products of two positions between nodes would not be linear. Levels
are what they are.

A leaf is a box. A row gets its value if all features are inside, so of all leaves only those matter
whose other features are inside already. Over the values of the features that change, the effect is
a sum of products of indicators, one product for each of these leaves.

With all other features at their values, the raw score is a sum over groups of features that
interact with each other, in components or in leaves of trees. A group of one feature without levels
moves freely. Any other group is a list of options, the combinations of the values of its features.
Options that cost more than another one and do less are left out, which changes no optimum.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations, pairwise
from math import prod
from typing import Any

import numpy as np

from tpnn._utils.arrays import BoolArray, FloatArray, IntArray
from tpnn.anova.boxes import Boxes
from tpnn.anova.components import Component, resolve_feature
from tpnn.export.sheets.tidy import values_at
from tpnn.model.model import AnovaModel
from tpnn.table.axis import Axis
from tpnn.table.encoder import Feature
from tpnn.table.table import NOMINAL
from tpnn.table.words import read_levels, read_range, shown_unit

LEVEL_COST = 1.0  # of another level without order


@dataclass(frozen=True, eq=False, kw_only=True)
class Choice:
    """What one feature may become."""

    feature: int
    values: FloatArray  # (n_values,), the current one among them; increasing if it is free
    current: int  # place of the current value
    costs: FloatArray  # (n_values,); linear between neighbours if it is free
    is_free: bool  # whether values between two neighbours may be chosen, too
    is_inside: bool  # whether the current value is within its range
    step: float | None  # unit of which values must be whole multiples, if all nodes are
    jumps: BoolArray  # (n_values - 1,): neighbours with a step of trees, and no value, between them


def movable(
    model: AnovaModel, row: FloatArray, fixed: Collection[Any], ranges: Mapping[Any, Any]
) -> tuple[list[int], dict[int, Any]]:
    """Features that may change and matter, and the ranges of all features by their number.

    Missing values and unseen levels stay: nobody knows what they could become.
    """
    names = model.feature_names
    stays = {resolve_feature(feature, names, "fixed") for feature in fixed}
    limits = {
        resolve_feature(feature, names, "ranges"): wanted for feature, wanted in ranges.items()
    }
    for feature, wanted in limits.items():  # a wrong range is an error, used or not
        _limits(model.encoder.features[feature], names[feature], wanted)
    used = {names.index(name) for name in model.required_features}
    return sorted(j for j in used - stays if np.isfinite(row[j])), limits


def choice_of(
    model: AnovaModel, feature: int, current: float, wanted: Any, is_linked: bool
) -> Choice:
    """Values that a feature may take, from node to node if it is linked to another change.

    A feature that moves freely may stop on both sides of each step of the trees.
    """
    column, name = model.encoder.features[feature], model.feature_names[feature]
    finest = model.encoder.axes[min(model.encoder.axes)][feature]
    step, is_inside = _step(column, finest, current), True
    rest, steps = model.remainder, np.empty(0)  # largest values before each step of trees
    if rest is not None and feature in rest.trees.used and not (is_linked or column.levels):
        steps = rest.trees.features[feature].ends
    if column.levels:
        values = _level_values(finest, column, current, _limits(column, name, wanted))
    else:
        low, high = _limits(column, name, wanted)
        ends = low, high  # whole multiples, if values must be
        if step is not None:
            ends = float(np.ceil(low / step)) * step, float(np.floor(high / step)) * step
        values = _number_values(model, feature, current, ends, is_linked)
        sides = _beside(steps, step)
        inside = sides[(sides >= ends[0]) & (sides <= ends[1])]
        values = np.unique(np.concatenate([values, inside]))
        is_inside = ends[0] <= current <= ends[1]
    if column.kind == NOMINAL:
        costs = np.where(values == current, 0.0, LEVEL_COST)
    else:
        costs = np.abs(values - current) / finest.tenths_range
    is_free, jumps = not (is_linked or column.levels), np.zeros(len(values) - 1, bool)
    crossed = np.searchsorted(values, steps, side="right") - 1
    jumps[crossed[(crossed >= 0) & (crossed < len(jumps))]] = True
    return Choice(
        feature=feature,
        values=values,
        current=int(np.flatnonzero(values == current)[0]),
        costs=costs,
        is_free=is_free,
        is_inside=is_inside,
        step=step if is_free else None,
        jumps=jumps,
    )


def _beside(steps: FloatArray, step: float | None) -> FloatArray:
    """Values on both sides of each step, whole multiples if values must be."""
    if step is None:
        return np.concatenate([steps, np.nextafter(steps, np.inf)])
    below = np.floor(steps / step) * step
    return np.concatenate([below, below + step])


def _limits(column: Feature, name: str, wanted: Any) -> Any:
    """Numbers of allowed levels, or the ends (low, high) of a range of numbers."""
    if column.levels:
        if wanted is None:
            return np.arange(float(len(column.levels)))
        return np.array(read_levels(name, column, _listed(wanted), "ranges"), np.float64)
    return read_range(name, column, (None, None) if wanted is None else _listed(wanted), "ranges")


def _listed(wanted: Any) -> Sequence[Any]:
    return [wanted] if isinstance(wanted, str) or not hasattr(wanted, "__iter__") else list(wanted)


def _level_values(axis: Axis, column: Feature, current: float, allowed: FloatArray) -> FloatArray:
    """Levels to choose from: of those that share a node, the first; and the current one."""
    if axis.groups is not None:
        nodes = axis.groups[allowed.astype(np.intp)]
        allowed = allowed[np.sort(np.unique(nodes, return_index=True)[1])]
    return np.unique(np.append(allowed, current))


def _number_values(
    model: AnovaModel, feature: int, current: float, ends: tuple[float, float], is_linked: bool
) -> FloatArray:
    """Nodes within the range, its ends, and the current value.

    A feature that is linked has the nodes of its highest order, or of pairs, one that moves freely
    all nodes.
    """
    held = () if model.remainder is None else model.remainder.components
    orders = {len(s) for s in (*model.components, *held) if feature in s}
    orders = orders or {min(model.encoder.axes)}
    highest = min(max(*orders, 2), max(model.encoder.axes))
    chosen = {highest} if is_linked else orders
    axes = [model.encoder.axes[order][feature] for order in chosen]
    nodes = np.concatenate([axis.values for axis in axes])
    low, high = ends
    inside = nodes[(nodes >= low) & (nodes <= high)]
    limits = [low] * bool(nodes.min() < low < np.inf) + [high] * bool(-np.inf < high < nodes.max())
    return np.unique(np.concatenate([inside, limits, [current]]))


def _step(column: Feature, axis: Axis, current: float) -> float | None:
    """Return the unit if all nodes and the current value are whole numbers, or whole days."""
    unit = shown_unit(column.kind)
    numbers = np.append(axis.values, current) / unit
    return unit if (numbers == np.rint(numbers)).all() else None


MOST_PRODUCTS = 20_000_000_000  # of leaves and combinations of values, for one set of features
PRODUCTS_PER_STEP = 1 << 24  # that are in memory at a time


@dataclass(frozen=True, eq=False)
class Leaves:
    """Leaves that a row can reach if some features move."""

    boxes: Boxes
    columns: dict[int, int]  # column of each feature that may move
    values: FloatArray  # (n_leaves,)
    intervals: IntArray  # (n_leaves, n_columns): interval of each feature; -1 where none is asked
    misses: BoolArray  # (n_leaves, n_columns): whether the row is outside of it

    @classmethod
    def of(cls, boxes: Boxes, row: FloatArray, movable: Sequence[int], most: int) -> Leaves:
        """Leaves that a row (n_features,) can reach if at most so many features change."""
        features = boxes.trees.features
        codes = np.zeros(len(features), np.intp)
        for j in boxes.trees.used:
            codes[j] = features[j].codes(row[j : j + 1])[0]
        is_inside = boxes.members[boxes.firsts + codes[boxes.features]]
        leaf = np.repeat(np.arange(len(boxes.trees.values)), np.diff(boxes.leaf_starts))
        column_of = np.full(len(features), -1)
        column_of[list(movable)] = np.arange(len(movable))
        columns, outside = column_of[boxes.features[boxes.slots]], ~is_inside[boxes.slots]
        n_leaves = len(boxes.trees.values)
        n_outside = np.bincount(leaf, outside, n_leaves)
        n_stuck = np.bincount(leaf, outside & (columns < 0), n_leaves)
        n_moving = np.bincount(leaf, columns >= 0, n_leaves)
        kept = np.flatnonzero((n_stuck == 0) & (n_outside <= most) & (n_moving > 0))
        number = np.full(n_leaves, -1)
        number[kept] = np.arange(len(kept))
        slots = np.flatnonzero((number[leaf] >= 0) & (columns >= 0))
        at = number[leaf[slots]], columns[slots]
        intervals = np.full((len(kept), len(movable)), -1)
        misses = np.zeros(intervals.shape, bool)
        intervals[at], misses[at] = boxes.slots[slots], outside[slots]
        values = boxes.trees.values[kept, 0]
        numbers = {feature: place for place, feature in enumerate(movable)}
        return cls(boxes, numbers, values, intervals, misses)

    def _reached(self, features: Sequence[int]) -> tuple[IntArray, list[int]]:
        """Leaves that matter if these features change and no others, and their columns."""
        columns = [self.columns[feature] for feature in features]
        inside = self.misses.sum(1) == self.misses[:, columns].sum(1)
        return np.flatnonzero(inside & (self.intervals[:, columns] >= 0).any(1)), columns

    def meetings(self, features: Sequence[int]) -> list[tuple[int, int]]:
        """Pairs of features that interact in these leaves."""
        leaves, columns = self._reached(features)
        asked = self.intervals[leaves][:, columns] >= 0
        places = combinations(range(len(features)), 2)
        return [(features[a], features[b]) for a, b in places if (asked[:, a] & asked[:, b]).any()]

    def effects(self, choices: Sequence[Choice]) -> FloatArray:
        """Sum of these leaves on all combinations of values of some features, (n_1, ..., n_d)."""
        leaves, columns = self._reached([choice.feature for choice in choices])
        shape = [len(choice.values) for choice in choices]
        if len(leaves) * prod(shape) > MOST_PRODUCTS:
            raise ValueError(
                f"max_changes: features that interact have {shape} values to combine in "
                f"{len(leaves)} leaves of the remainder, which is too many. Lower max_changes, fix "
                "some features, give them ranges, or fit with remainder=False."
            )
        step = max(PRODUCTS_PER_STEP // prod(shape[:-1]), 1)
        total = np.zeros((prod(shape[:-1]), shape[-1]))
        for start in range(0, len(leaves), step):
            some = leaves[start : start + step]
            *others, last = (
                self._indicators(choice, self.intervals[some, column])
                for choice, column in zip(choices, columns, strict=True)
            )
            weights = self.values[some, None]
            for indicator in others:
                weights = (weights[:, :, None] * indicator[:, None]).reshape(len(some), -1)
            total += weights.T @ last
        return total.reshape(shape)

    def _indicators(self, choice: Choice, intervals: IntArray) -> FloatArray:
        """Whether each value of a feature is in each interval (n,): 0 or 1, (n, n_values)."""
        known, which = np.unique(intervals, return_inverse=True)
        is_asked = known >= 0
        codes = self.boxes.trees.features[choice.feature].codes(choice.values)
        inside = np.ones((len(known), len(codes)))
        inside[is_asked] = self.boxes.members[self.boxes.firsts[known[is_asked], None] + codes]
        return inside[which.ravel()]


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
