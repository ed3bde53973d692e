"""Nodes for the components of trees: on both sides of every cut, so that steps are steps.

A component of trees is constant between cuts, and the model interpolates linearly between nodes. So
there is a node on each side of a cut. Where trees have more cuts than a component may have nodes,
those that trees use most are kept; what the grid misses between them is in the remainder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.trees import TreeFeature, masses_of
from tpnn.lifecycle.foreign.table_sum import level_axis
from tpnn.lifecycle.foreign.tree_sum import TreeSum
from tpnn.table.axis import Axis, distinct, make_axis, place_nodes
from tpnn.table.encoder import Feature, TableEncoder
from tpnn.table.table import NOMINAL

MOST_CUTS = {1: 500, 2: 63, 3: 15}  # of a feature, in the components of each order
MOST_LEVELS = {1: 65_000, 2: 126, 3: 30}  # likewise
MOST_ANSWERS = 2e9  # of all questions, each for all intervals between the cuts of its feature


class Nodes(NamedTuple):
    """How a model sees its columns."""

    encoder: TableEncoder
    features: tuple[TreeFeature, ...]  # codes of the trees' questions
    exact_order: int  # up to which components have nodes at all cuts, and of all levels


def nodes_of(given: TreeSum, weights: FloatArray | None) -> Nodes:
    """Nodes and masses of the columns of a sum of trees."""
    table = given.table
    columns = _reader(given, {1: tuple(map(_any_axis, given.features))}).columns(table)
    counts = _cut_counts(given)
    _check_size(counts)
    features, by_feature = list[TreeFeature](), list[dict[int, Axis]]()
    for j, (column, x) in enumerate(zip(given.features, columns, strict=True)):
        if column.kind == NOMINAL:
            feature, axes = _levels(column, x, weights)
        else:
            feature, axes = _numbers(counts[j], x, weights, given.reads_missing)
        features.append(feature)
        by_feature.append(axes)
    axes_of = {order: tuple(axes[order] for axes in by_feature) for order in MOST_CUTS}
    exact = [order for order, axes in axes_of.items() if all(map(_is_exact, axes, features))]
    return Nodes(_reader(given, axes_of), tuple(features), max(exact, default=0))


def _is_exact(axis: Axis, feature: TreeFeature) -> bool:
    """Whether there are nodes on both sides of every cut, or for every level."""
    if feature.groups is not None:
        return len(axis.values[axis.seen]) == len(feature.groups)
    return bool(np.isin(_sides(feature.ends), axis.values).all())


def _sides(cuts: FloatArray) -> FloatArray:
    """Numbers on both sides of cuts."""
    return np.union1d(cuts, np.nextafter(cuts, np.inf))


def _reader(given: TreeSum, axes: Mapping[int, tuple[Axis, ...]]) -> TableEncoder:
    table = given.table
    labels = None if table.names else table.labels
    return TableEncoder(table.names, axes, given.features, labels=labels)


def _any_axis(feature: Feature) -> Axis:
    """Axis that knows levels and missing values, to read a column before its nodes are known."""
    if feature.kind == NOMINAL:
        n_levels = len(feature.levels)
        return level_axis(feature.levels, np.full(n_levels + 2, 1 / (n_levels + 2)), is_open=True)
    return Axis(np.zeros(1), np.array([1.0, 0.0]), has_missing=True)


def _cut_counts(given: TreeSum) -> list[Counter[float]]:
    """How many questions cut each feature where."""
    counts = [Counter[float]() for _ in given.features]
    for tree in given.trees:
        for question in tree.questions:
            counts[question.feature].update(question.ends)
    return counts


def _check_size(counts: list[Counter[float]]) -> None:
    """Refuse trees whose questions, times the values that they tell apart, are too many."""
    n_answers = sum(len(cuts) ** 2 for cuts in counts)
    if n_answers > MOST_ANSWERS:
        raise ValueError(
            f"model: its trees cut their features at {sum(map(len, counts)):,} different numbers, "
            f"and reading them would take more than {n_answers / 1e9:.0f} GB. Fit it with fewer or "
            "smaller trees, such as max_depth=6, or to columns that are rounded."
        )


def _levels(
    column: Feature, x: FloatArray, weights: FloatArray | None
) -> tuple[TreeFeature, dict[int, Axis]]:
    """Each level has a code and a node, the most frequent level the first one."""
    n_levels = len(column.levels)
    as_read = np.arange(n_levels, dtype=np.int32)
    feature = TreeFeature(np.empty(0), as_read, np.ones(n_levels + 2))
    masses = masses_of(feature, x, weights)
    order = np.argsort(-masses[:n_levels], kind="stable")
    groups = np.empty(n_levels, np.int32)
    groups[order] = as_read
    masses = np.concatenate([masses[order], masses[n_levels:]])
    labels = tuple(column.levels[number] for number in order)
    axis = replace(level_axis(labels, masses, is_open=True), groups=groups.astype(np.intp))
    axes = {order: axis.coarsened(most) for order, most in MOST_LEVELS.items()}
    return TreeFeature(np.empty(0), groups, masses), axes


def _numbers(
    counts: Counter[float], x: FloatArray, weights: FloatArray | None, reads_missing: bool
) -> tuple[TreeFeature, dict[int, Axis]]:
    """Intervals between cuts have a code each, and nodes at both ends."""
    ends = np.array(sorted(counts), np.float64)
    feature = TreeFeature(ends, None, np.ones(len(ends) + 3))
    feature = feature._replace(masses=masses_of(feature, x, weights))
    values, masses = distinct(x, weights)
    if reads_missing and not np.isnan(values[-1]):
        values, masses = np.append(values, np.nan), np.append(masses, 0.0)
    known = values[~np.isnan(values)]
    outer = known[[0, -1]] if len(known) else np.zeros(1)
    cuts, axes = ends, dict[int, Axis]()
    for order, most in MOST_CUTS.items():
        uses = np.array([counts[cut] for cut in cuts.tolist()], np.float64)
        cuts = place_nodes(cuts, uses, most)
        nodes = np.union1d(_sides(cuts), outer)
        axes[order] = make_axis(values, masses, nodes)
    return feature, axes
