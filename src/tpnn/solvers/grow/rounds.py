"""Rounds of boosting: what is decided about one bag, and what is asked of its rows.

Every round moves the intercept and visits each component with a probability proportional to its
last gain, so that a sharp surface gets hundreds of bases and a useless pair gets almost none.

Growth never sees a row. It asks one question after the other: the sums of residuals and, now and
then, of hessians over the cells of one component. Whoever holds the rows applies the step that came
out of the last answer, then answers (``answer``); ``decide`` turns the sums into a step and chooses
the next question. Sums are whole numbers, so rows may be dealt to any number of holders: the sum of
their answers is the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import CodeArray, Float32Array, FloatArray, IntArray
from tpnn._utils.compile import compiled
from tpnn.solvers.grow.rectangles import (
    FROZEN_GAIN,
    ORDERED,
    SMALLEST_VISIT_PROBABILITY,
    TreeSettings,
    area_cells,
    arranged,
    bounded,
    cell_sums,
    draw_uniform,
    fill_step,
    grow_tree,
    node_order,
    one_way,
    subtract_step,
    summed_area,
)
from tpnn.solvers.problem.sums import whole_total

MASS_REFRESH_ROUNDS = 50  # after which the sums of the hessian are recomputed
NOTHING, INTERCEPT = -2, -1  # questions that are not about a component


class Rows(NamedTuple):
    """Coded rows of one bag."""

    fine: CodeArray  # (n_features, n_rows), for main effects
    coarse: CodeArray  # (n_features, n_rows), for pairs
    nil: NDArray[np.uint8]  # (n_rows,), zeros: the grid of a main effect has one column
    pairs: IntArray  # (n_pairs, 2), features of each pair


class Slopes(NamedTuple):
    """Slopes of the loss in the rows of one bag, for one output; updated in place."""

    residual: Float32Array  # (n_rows,): negative gradient times weight
    hessian: Float32Array  # (n_rows,): second derivative times weight
    scales: Float32Array  # (2,): turn residuals and hessians into whole numbers


class Growth(NamedTuple):
    """What has grown of one output of one bag, updated in place; it knows no rows."""

    mains: Float32Array  # (n_features, M1, 1)
    pairs: Float32Array  # (n_pairs, M2, M2)
    main_mass: FloatArray  # (n_features, M1 + 1, 2), summed areas of the hessian
    pair_mass: FloatArray  # (n_pairs, M2 + 1, M2 + 1)
    gains: FloatArray  # (n_pairs + n_features,), of the last visit; FROZEN_GAIN for none
    ages: IntArray  # (n_pairs + n_features,): rounds since the summed areas were computed
    intercept: FloatArray  # (1,)
    state: NDArray[np.uint64]  # (1,), random state
    asked: IntArray  # (2,): component, NOTHING or INTERCEPT; 1 if hessians are asked for too
    largest: FloatArray  # (1,), largest gain when the round began
    sums: NDArray[np.int64]  # (2, n_cells), the answer: residuals and hessians
    step: Float32Array  # (n_cells,), added to the cells then


class Plan(NamedTuple):
    """How components are grown; of two entries, the second is for pairs."""

    pairs: IntArray  # (n_pairs, 2), features of each pair
    sizes: tuple[IntArray, IntArray]  # (n_features,): number of nodes
    kinds: tuple[NDArray[np.int64], NDArray[np.int64]]  # (n_features,): how each axis may be cut
    signs: FloatArray  # (n_features,): 1 or -1 for main effects of one direction, else 0
    main_tree: TreeSettings
    pair_tree: TreeSettings


@compiled(inline="always")
def grid_shape(plan: Any, component: int) -> Any:
    """Rows and columns of a component's grid; the intercept has one cell."""
    n_pairs = len(plan.pairs)
    if component < 0:
        return 1, 1
    if component < n_pairs:
        return plan.sizes[1][plan.pairs[component, 0]], plan.sizes[1][plan.pairs[component, 1]]
    return plan.sizes[0][component - n_pairs], 1


@compiled(inline="always")
def _apply(first: Any, second: Any, slopes: Any, shape: Any, step: Any) -> None:
    grid = step[: shape[0] * shape[1]].reshape(shape)
    subtract_step(first, second, grid, slopes.hessian, slopes.residual)


@compiled(inline="always")
def _sum(first: Any, second: Any, slopes: Any, shape: Any, with_masses: bool, sums: Any) -> None:
    n_cells = shape[0] * shape[1]
    grid = sums[0, :n_cells].reshape(shape)
    cell_sums(first, second, slopes.residual, slopes.scales[0], grid)
    if with_masses:
        grid = sums[1, :n_cells].reshape(shape)
        cell_sums(first, second, slopes.hessian, slopes.scales[1], grid)


@compiled(inline="always")
def apply_step(rows: Any, slopes: Any, plan: Any, component: int, step: Any) -> None:
    """Move the residuals by the step of a component; each row loses its hessian times its cell."""
    shape, n_pairs = grid_shape(plan, component), len(plan.pairs)
    if component == INTERCEPT:
        for i in range(len(slopes.residual)):
            slopes.residual[i] -= slopes.hessian[i] * step[0]
    elif component >= n_pairs:
        _apply(rows.fine[component - n_pairs], rows.nil, slopes, shape, step)
    elif component >= 0:
        a, b = plan.pairs[component]
        _apply(rows.coarse[a], rows.coarse[b], slopes, shape, step)


@compiled(inline="always")
def answer(rows: Any, slopes: Any, plan: Any, asked: Any, sums: Any) -> None:
    """Sum residuals and, if asked, hessians over the cells of a component, as whole numbers."""
    component, with_masses = asked[0], asked[1] == 1
    shape, n_pairs = grid_shape(plan, component), len(plan.pairs)
    if component == INTERCEPT:
        sums[0, 0] = whole_total(slopes.residual, slopes.scales[0])
        sums[1, 0] = whole_total(slopes.hessian, slopes.scales[1])
    elif component >= n_pairs:
        _sum(rows.fine[component - n_pairs], rows.nil, slopes, shape, with_masses, sums)
    elif component >= 0:
        a, b = plan.pairs[component]
        _sum(rows.coarse[a], rows.coarse[b], slopes, shape, with_masses, sums)


@compiled(inline="always")
def _grow_unordered(
    sums: Any, unit: float, mass: Any, tree: Any, kinds: Any, sign: float, state: Any, step: Any
) -> Any:
    """``_grow_step`` for an axis with levels or missing values, whose nodes the tree reorders."""
    cells, masses = sums * unit, np.empty(sums.shape)
    area_cells(mass, masses)
    rows = node_order(kinds[0], kinds[1], cells, masses, 2 * tree.ridge, state)
    turned = np.ascontiguousarray(cells.T), np.ascontiguousarray(masses.T)  # of one type
    columns = node_order(kinds[1], kinds[0], turned[0], turned[1], 2 * tree.ridge, state)
    last = len(rows) - 1  # the node of missing values, which the tree sees first or last
    settings = tree if sign == 0.0 else one_way(tree, sign, 1 if rows[0] == last else last)
    shape = sums.shape[0] + 1, sums.shape[1] + 1
    area, mass_area = np.empty(shape), np.empty(shape)
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


@compiled(inline="always")
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


@compiled(inline="always")
def _visit(
    growth: Any, plan: Any, units: Any, shape: Any, table: Any, mass: Any, kinds: Any
) -> Any:
    """Turn the answer about a component into a step, and add it to the grid; return its gain.

    ``table`` and ``mass`` may be larger than the grid, for which ``shape`` is there: unlike parts
    of an array they are contiguous, so that loops over them can be vectorised.
    """
    component, n_pairs = growth.asked[0], len(plan.pairs)
    n_cells = shape[0] * shape[1]
    tree, sign = plan.pair_tree, 0.0
    if component >= n_pairs:
        tree, sign = plan.main_tree, plan.signs[component - n_pairs]
    if growth.asked[1] == 1:
        summed_area(growth.sums[1, :n_cells].reshape(shape), units[1], mass)
    sums, step = growth.sums[0, :n_cells].reshape(shape), growth.step[:n_cells].reshape(shape)
    gain = _grow_step(sums, units[0], mass, tree, kinds, sign, growth.state, step)
    for a in range(shape[0]):
        for b in range(shape[1]):
            table[a, b] += step[a, b]
    return gain


@compiled(inline="always")
def _take_answer(growth: Any, plan: Any, units: Any) -> None:
    """Turn the last answer into a step of the intercept or of a component."""
    component, n_pairs = growth.asked[0], len(plan.pairs)
    if component == INTERCEPT:
        total, mass = growth.sums[0, 0] * units[0], growth.sums[1, 0] * units[1]
        growth.step[0] = bounded(total / mass, plan.main_tree)
        growth.intercept[0] += growth.step[0]
    elif component >= 0:
        if component < n_pairs:
            a, b = plan.pairs[component]
            kinds = plan.kinds[1][a], plan.kinds[1][b]
            table, mass = growth.pairs[component], growth.pair_mass[component]
        else:
            j = component - n_pairs
            kinds = plan.kinds[0][j], np.int64(ORDERED)
            table, mass = growth.mains[j], growth.main_mass[j]
        shape = grid_shape(plan, component)
        growth.gains[component] = _visit(growth, plan, units, shape, table, mass, kinds)


@compiled(inline="always")
def _ask_next(growth: Any, first: int) -> None:
    """Choose the next component of the round to ask about; NOTHING at its end."""
    for component in range(max(growth.asked[0] + 1, first), len(growth.gains)):
        if growth.gains[component] == FROZEN_GAIN:
            continue
        probability = growth.gains[component] / growth.largest[0]
        if draw_uniform(growth.state) <= max(SMALLEST_VISIT_PROBABILITY, probability):
            stale = growth.ages[component] >= MASS_REFRESH_ROUNDS
            growth.asked[0], growth.asked[1] = component, np.int64(stale)
            if stale:
                growth.ages[component] = 0
            return
    growth.asked[0] = NOTHING


@compiled(inline="always")
def begin_round(growth: Any, plan: Any, with_pairs: bool) -> None:
    """Ask about the intercept, which every round moves first."""
    first = 0 if with_pairs else len(plan.pairs)
    growth.largest[0] = 1e-30
    for component in range(first, len(growth.gains)):
        growth.largest[0] = max(growth.largest[0], growth.gains[component])
    growth.asked[0], growth.asked[1] = INTERCEPT, 1


@compiled(inline="always")
def decide(growth: Any, plan: Any, scales: Any, with_pairs: bool) -> None:
    """Turn the last answer into ``growth.step`` and choose the next question of the round.

    ``scales`` (2,) are those of the whole numbers.
    """
    units = 1 / np.float64(scales[0]), 1 / np.float64(scales[1])
    _take_answer(growth, plan, units)
    _ask_next(growth, 0 if with_pairs else len(plan.pairs))


@compiled()
def grow_rounds(
    rows: Any, slopes: Any, growth: Any, plan: Any, n_rounds: int, with_pairs: bool
) -> None:
    """Run some rounds on rows in memory."""
    for _ in range(n_rounds):
        begin_round(growth, plan, with_pairs)
        while growth.asked[0] != NOTHING:
            last = growth.asked[0]
            answer(rows, slopes, plan, growth.asked, growth.sums)
            decide(growth, plan, slopes.scales, with_pairs)
            apply_step(rows, slopes, plan, last, growth.step)
