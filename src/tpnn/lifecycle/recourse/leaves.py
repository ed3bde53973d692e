"""Leaves: what the trees of a remainder add if a few features of a row change.

A leaf is a box. A row gets its value if all features are inside, so of all leaves only those matter
whose other features are inside already. Over the values of the features that change, the effect is
a sum of products of indicators, one product for each of these leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np

from tpnn._utils.arrays import BoolArray, FloatArray, IntArray
from tpnn.anova.boxes import Boxes
from tpnn.lifecycle.recourse.choices import Choice

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
