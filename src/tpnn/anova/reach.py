"""Reach: how far a sum of trees can go if features move."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tpnn._utils.arrays import BoolArray, FloatArray, Int32Array
from tpnn.anova.trees import Trees

PAIRS_PER_STEP = 1 << 18  # of trees and rows


def extremes(
    trees: Trees, lows: Mapping[int, Int32Array], highs: Mapping[int, Int32Array]
) -> tuple[FloatArray, FloatArray]:
    """Bounds (n_rows, K) of the sum where each feature may have any code from low to high.

    The codes (n_rows,) are given for every feature that is asked about. The extremes of all trees
    are added, so nothing exceeds the bounds, but they need not be attained.
    """
    sizes = {len(codes) for codes in lows.values()} or {0}
    shape = max(sizes), trees.values.shape[1]
    least, most = np.zeros(shape), np.zeros(shape)
    step = max(PAIRS_PER_STEP // max(len(trees.roots), 1), 1)
    for start in range(0, shape[0], step):
        rows = slice(start, start + step)
        sides = _open_sides(
            trees, *({j: codes[rows] for j, codes in ends.items()} for ends in (lows, highs))
        )
        least[rows], most[rows] = _extremes(trees, sides)
    return least, most


def _open_sides(
    trees: Trees, lows: Mapping[int, Int32Array], highs: Mapping[int, Int32Array]
) -> BoolArray:
    """Whether some code goes left, and right, at each question: (2, n_questions, n_rows)."""
    asked, starts = trees.asked.tolist(), trees.starts
    sides = [np.zeros((2, 0, 0), bool)] if not asked else []
    for question, feature in enumerate(asked):
        right = trees.right[starts[question] : starts[question + 1]]
        counts = np.concatenate([[0], np.cumsum(right)])
        low, high = lows[feature], highs[feature] + 1
        n_right = counts[high] - counts[low]
        sides.append(np.stack([n_right < high - low, n_right > 0])[:, None])
    return np.concatenate(sides, 1)


def _extremes(trees: Trees, sides: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Sum of the smallest and of the largest values of the leaves that each row can reach."""
    n_trees, n_rows, n_outputs = len(trees.roots), sides.shape[2], trees.values.shape[1]
    least = np.full((n_trees * n_rows, n_outputs), np.inf)
    most = np.full((n_trees * n_rows, n_outputs), -np.inf)
    pairs, nodes = np.arange(n_trees * n_rows), np.repeat(trees.roots, n_rows)
    while len(nodes):  # one level deeper each time
        is_leaf = nodes < 0
        values = trees.values[-1 - nodes[is_leaf]]
        np.minimum.at(least, pairs[is_leaf], values)
        np.maximum.at(most, pairs[is_leaf], values)
        pairs, nodes = pairs[~is_leaf], nodes[~is_leaf]
        is_open = sides[:, trees.questions[nodes], pairs % n_rows]
        nodes = np.concatenate([trees.children[nodes[is_open[k]], k] for k in (0, 1)])
        pairs = np.concatenate([pairs[is_open[k]] for k in (0, 1)])
    by_tree = n_trees, n_rows, n_outputs
    return least.reshape(by_tree).sum(0), most.reshape(by_tree).sum(0)
