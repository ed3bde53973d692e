"""Choices: which values each feature of a row may take, what they cost and what they add.

A feature that changes alone, or with others that it does not interact with, moves freely along its
curve, which is linear between nodes but for the steps of trees. Features that change together and
interact move from node to node: products of two positions between nodes would not be linear. Levels
are what they are.

A leaf is a box. A row gets its value if all features are inside, so of all leaves only those matter
whose other features are inside already. Over the values of the features that change, the effect is
a sum of products of indicators, one product for each of these leaves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any

import numpy as np

from tpnn._utils.arrays import BoolArray, FloatArray, IntArray
from tpnn.anova.boxes import Boxes
from tpnn.anova.components import resolve_feature
from tpnn.model.model import AnovaModel
from tpnn.table.axis import Axis
from tpnn.table.encoder import Feature
from tpnn.table.table import DATE, DURATION, NOMINAL
from tpnn.table.words import SECONDS_PER_DAY, read_levels, read_range

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
    steps = np.empty(0) if is_linked or column.levels else _tree_steps(model, feature)
    if column.levels:
        values = _level_values(finest, column, current, _limits(column, name, wanted))
    else:
        ends = _whole_ends(_limits(column, name, wanted), step)
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


def _tree_steps(model: AnovaModel, feature: int) -> FloatArray:
    """Largest values before each step of the trees of the remainder along a feature of numbers."""
    rest = model.remainder
    known = rest is not None and feature in rest.trees.used
    return rest.trees.features[feature].ends if rest is not None and known else np.empty(0)


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


def _whole_ends(ends: tuple[float, float], step: float | None) -> tuple[float, float]:
    """Move the ends of a range to whole multiples of a step within it."""
    if step is None:
        return ends
    return float(np.ceil(ends[0] / step)) * step, float(np.floor(ends[1] / step)) * step


def _step(column: Feature, axis: Axis, current: float) -> float | None:
    """Return the unit if all nodes and the current value are whole numbers, or whole days."""
    unit = SECONDS_PER_DAY if column.kind in (DATE, DURATION) else 1.0
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
