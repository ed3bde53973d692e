"""Rounds of boosting: compiled visits to the components of one bag.

Every round visits each component with a probability proportional to its last gain, so that a sharp
surface gets hundreds of bases and a useless pair gets almost none.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tpnn._compile import compiled
from tpnn.grow.rectangles import (
    ORDERED,
    area_cells,
    arranged,
    cell_sums,
    fill_step,
    grow_tree,
    node_order,
    subtract_step,
    summed_area,
)
from tpnn.grow.trees import SMALLEST_VISIT_PROBABILITY, bounded, draw_uniform, one_way

MASS_REFRESH_ROUNDS = 50  # after which the sums of the hessian are recomputed


class Rows(NamedTuple):
    """Coded rows of one bag.

    Parameters
    ----------
    fine, coarse : array of shape (n_features, n_rows)
        Node of each feature in each row, for main effects and for pairs.
    nil : array of shape (n_rows,)
        Zeros: a main effect has a grid with one column.
    pairs : array of shape (n_pairs, 2)
        Features of each pair.
    """

    fine: Any
    coarse: Any
    nil: Any
    pairs: Any


class Growth(NamedTuple):
    """State of one output of one bag, updated in place.

    Parameters
    ----------
    mains : array of shape (n_features, M1, 1)
        Grids of values of the main effects.
    pairs : array of shape (n_pairs, M2, M2)
        Grids of values of the pairs.
    main_mass, pair_mass : arrays of shape (..., M + 1, ...)
        Summed areas of the hessian for each component.
    residual, hessian : array of shape (n_rows,)
        Negative gradient and second derivative of the loss, times the row's weight.
    gains : array of shape (n_pairs + n_features,)
        Gain of each component's last visit, pairs first.
    ages : array of shape (n_pairs + n_features,)
        Rounds since each summed area of the hessian was computed.
    intercept : array of shape (1,)
        Intercept.
    state : array of shape (1,), uint64
        Random state.
    """

    mains: Any
    pairs: Any
    main_mass: Any
    pair_mass: Any
    residual: Any
    hessian: Any
    gains: Any
    ages: Any
    intercept: Any
    state: Any


@compiled(fastmath=True)
def _move_intercept(growth: Any, settings: Any) -> None:
    shift = bounded(growth.residual.sum() / growth.hessian.sum(), settings)
    growth.intercept[0] += shift
    for i in range(len(growth.residual)):
        growth.residual[i] -= growth.hessian[i] * shift


@compiled(fastmath=True)
def _visit_unordered(
    first: Any, second: Any, growth: Any, table: Any, mass: Any, stale: bool, tree: Any,
    kinds: Any, sign: float,
) -> Any:  # fmt: skip
    """``_visit`` for an axis with levels or missing values, whose nodes the tree sees reordered."""
    sums = np.empty(table.shape, np.float32)
    masses = np.empty(table.shape, np.float32)
    if stale:
        cell_sums(first, second, growth.hessian, masses)
        summed_area(masses, mass)
    area_cells(mass, masses)
    cell_sums(first, second, growth.residual, sums)
    ridge, state = 2 * tree.ridge, growth.state
    rows = node_order(kinds[0], kinds[1], sums, masses, ridge, state)
    columns = node_order(kinds[1], kinds[0], sums.T, masses.T, ridge, state)
    last = len(rows) - 1  # the node of missing values, which the tree sees first or last
    settings = tree if sign == 0.0 else one_way(tree, sign, 1 if rows[0] == last else last)
    area, mass_area = np.empty(mass.shape, np.float64), np.empty(mass.shape, np.float64)
    summed_area(arranged(sums, rows, columns), area)
    summed_area(arranged(masses, rows, columns), mass_area)
    boxes = np.empty((settings.n_leaves, 4), np.int64)
    n_boxes, gain = grow_tree(area, mass_area, settings, state, boxes)
    added, step = np.zeros(table.shape, np.float32), np.empty(table.shape, np.float32)
    fill_step(area, mass_area, boxes, n_boxes, settings, added, step)
    for a in range(len(rows)):
        for b in range(len(columns)):
            sums[rows[a], columns[b]] = step[a, b]
            table[rows[a], columns[b]] += step[a, b]
    subtract_step(first, second, sums, growth.hessian, growth.residual)
    return gain


@compiled(fastmath=True)
def _visit(
    first: Any, second: Any, growth: Any, table: Any, mass: Any, stale: bool, tree: Any,
    kinds: Any, sign: float,
) -> Any:  # fmt: skip
    """Add one tree to a component's grid; return its gain."""
    if kinds[0] != ORDERED or kinds[1] != ORDERED:
        return _visit_unordered(first, second, growth, table, mass, stale, tree, kinds, sign)
    settings = tree if sign == 0.0 else one_way(tree, sign, -1)
    sums = np.empty(table.shape, np.float32)
    area = np.empty((table.shape[0] + 1, table.shape[1] + 1), np.float64)
    if stale:
        cell_sums(first, second, growth.hessian, sums)
        summed_area(sums, mass)
    cell_sums(first, second, growth.residual, sums)
    summed_area(sums, area)
    boxes = np.empty((settings.n_leaves, 4), np.int64)
    n_boxes, gain = grow_tree(area, mass, settings, growth.state, boxes)
    fill_step(area, mass, boxes, n_boxes, settings, table, sums)
    subtract_step(first, second, sums, growth.hessian, growth.residual)
    return gain


@compiled(fastmath=True)
def grow_rounds(
    rows: Any, growth: Any, n_rounds: int, sizes: Any, kinds: Any, signs: Any, main_tree: Any,
    pair_tree: Any, with_pairs: bool,
) -> None:  # fmt: skip
    """Run some rounds of visits; ``signs`` (n_features,) make main effects monotone."""
    fine_sizes, coarse_sizes = sizes
    fine_kinds, coarse_kinds = kinds
    n_pairs = len(growth.pairs)
    one_column = np.int64(ORDERED)  # typed like the kinds of pairs: one compiled visit serves both
    for _ in range(n_rounds):
        _move_intercept(growth, main_tree)
        first = 0 if with_pairs else n_pairs
        largest = max(growth.gains[first:].max(), 1e-30)
        for index in range(first, len(growth.gains)):
            probability = max(SMALLEST_VISIT_PROBABILITY, growth.gains[index] / largest)
            if draw_uniform(growth.state) > probability:
                continue
            stale = growth.ages[index] >= MASS_REFRESH_ROUNDS
            if index < n_pairs:
                a, b = rows.pairs[index]
                m, k = coarse_sizes[a], coarse_sizes[b]
                growth.gains[index] = _visit(
                    rows.coarse[a], rows.coarse[b], growth, growth.pairs[index, :m, :k],
                    growth.pair_mass[index, : m + 1, : k + 1], stale, pair_tree,
                    (coarse_kinds[a], coarse_kinds[b]), 0.0,
                )  # fmt: skip
            else:
                j = index - n_pairs
                m = fine_sizes[j]
                growth.gains[index] = _visit(
                    rows.fine[j], rows.nil, growth, growth.mains[j, :m, :1],
                    growth.main_mass[j, : m + 1, :2], stale, main_tree, (fine_kinds[j], one_column),
                    signs[j],
                )  # fmt: skip
            if stale:
                growth.ages[index] = 0
