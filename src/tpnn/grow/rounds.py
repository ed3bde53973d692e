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
from tpnn.problem.whole import whole_total

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
    scales : array of shape (2,)
        What turns residuals and hessians into whole numbers, whose sums are exact.
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
    scales: Any
    gains: Any
    ages: Any
    intercept: Any
    state: Any


@compiled()
def _move_intercept(growth: Any, settings: Any) -> None:
    total = whole_total(growth.residual, growth.scales[0])
    shift = bounded(total / whole_total(growth.hessian, growth.scales[1]), settings)
    growth.intercept[0] += shift
    for i in range(len(growth.residual)):
        growth.residual[i] -= growth.hessian[i] * np.float32(shift)


@compiled(fastmath=True)
def _grow_unordered(
    sums: Any, unit: float, mass: Any, tree: Any, kinds: Any, sign: float, state: Any, step: Any
) -> Any:
    """``_grow_step`` for an axis with levels or missing values, whose nodes the tree reorders."""
    cells, masses = sums * unit, np.empty(sums.shape)
    area_cells(mass, masses)
    rows = node_order(kinds[0], kinds[1], cells, masses, 2 * tree.ridge, state)
    columns = node_order(kinds[1], kinds[0], cells.T, masses.T, 2 * tree.ridge, state)
    last = len(rows) - 1  # the node of missing values, which the tree sees first or last
    settings = tree if sign == 0.0 else one_way(tree, sign, 1 if rows[0] == last else last)
    area, mass_area = np.empty(mass.shape), np.empty(mass.shape)
    summed_area(arranged(cells, rows, columns), 1.0, area)
    summed_area(arranged(masses, rows, columns), 1.0, mass_area)
    boxes = np.empty((settings.n_leaves, 4), np.int64)
    n_boxes, gain = grow_tree(area, mass_area, settings, state, boxes)
    shown = np.empty(sums.shape, np.float32)
    fill_step(area, mass_area, boxes, n_boxes, settings, shown)
    for a in range(len(rows)):
        for b in range(len(columns)):
            step[rows[a], columns[b]] = shown[a, b]
    return gain


@compiled(fastmath=True)
def _grow_step(
    sums: Any, unit: float, mass: Any, tree: Any, kinds: Any, sign: float, state: Any, step: Any
) -> Any:
    """Grow one tree over the cell sums of the residual into ``step``; return its gain."""
    if kinds[0] != ORDERED or kinds[1] != ORDERED:
        return _grow_unordered(sums, unit, mass, tree, kinds, sign, state, step)
    settings = tree if sign == 0.0 else one_way(tree, sign, -1)
    area = np.empty((sums.shape[0] + 1, sums.shape[1] + 1))
    summed_area(sums, unit, area)
    boxes = np.empty((settings.n_leaves, 4), np.int64)
    n_boxes, gain = grow_tree(area, mass, settings, state, boxes)
    fill_step(area, mass, boxes, n_boxes, settings, step)
    return gain


@compiled(fastmath=True)
def _visit(
    first: Any, second: Any, growth: Any, table: Any, mass: Any, stale: bool, tree: Any,
    kinds: Any, sign: float,
) -> Any:  # fmt: skip
    """Add one tree to a component's grid; return its gain."""
    sums = np.empty(table.shape, np.int64)
    units = 1 / np.float64(growth.scales[0]), 1 / np.float64(growth.scales[1])
    if stale:
        cell_sums(first, second, growth.hessian, growth.scales[1], sums)
        summed_area(sums, units[1], mass)
    cell_sums(first, second, growth.residual, growth.scales[0], sums)
    step = np.empty(table.shape, np.float32)
    gain = _grow_step(sums, units[0], mass, tree, kinds, sign, growth.state, step)
    table += step
    subtract_step(first, second, step, growth.hessian, growth.residual)
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
