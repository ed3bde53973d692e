"""Cuboid trees: the compiled greedy step for triples.

A visit to a triple sums the residual and the hessian over the cells of its grid, cuts the grid into
a few cuboids where the sums have structure, and adds a small constant to each. The sum over a
cuboid takes eight look-ups in a table of summed volumes. The first two cuts, along two different
features, are drawn at random, which makes pure interactions visible.

The indicator of a cuboid is a sum of products of steps, and a step is a sigmoid of width zero, so
the result is a tensor product neural network.

Volumes have one layer of zeros in front of each axis and are stored flat: cell (a, b, c) of a grid
is entry ((a + 1) * (M_2 + 1) + b + 1) * (M_3 + 1) + c + 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tpnn._utils.arrays import CodeArray, IntArray
from tpnn._utils.compile import compiled
from tpnn.solvers.grow.rectangles import (
    MISSING,
    NOMINAL,
    SMALLEST_VISIT_PROBABILITY,
    bounded,
    draw_below,
    draw_uniform,
    increasing,
    random_sides,
)


class TripleRows(NamedTuple):
    """Training and held-out rows of one bag, for triples."""

    training: CodeArray  # (n_features, n_rows)
    held_out: CodeArray  # (n_features, n_held_out)
    triples: IntArray  # (n_triples, 3)
    sizes: IntArray  # (n_features,): number of nodes
    kinds: IntArray  # (n_features,): how each axis may be cut


class SideGrowth(NamedTuple):
    """State of one output on the rows of one side, updated in place."""

    raw: Any  # (n_rows,)
    residual: Any  # (n_rows,): negative gradient times weight
    hessian: Any  # (n_rows,): second derivative times weight
    scales: Any  # (2,): turn residuals and hessians into whole numbers


class TripleGrowth(NamedTuple):
    """State of one output of one bag, updated in place."""

    tables: Any  # (n_triples, M, M, M), float32
    training: Any  # SideGrowth
    held_out: Any  # SideGrowth
    gains: Any  # (n_triples,), of the last visit
    confirmed: Any  # (n_triples,): fall of the held-out loss over all visits, to second order
    changed: Any  # (n_triples,): whether the grid has changed since it was last copied
    state: Any  # (1,), random state


@compiled()
def _cells(codes: Any, triple: Any, sizes: Any) -> Any:
    """Entry of each row's cell in a flat volume, (n_rows,)."""
    first, second, third = codes[triple[0]], codes[triple[1]], codes[triple[2]]
    columns, layers = np.uint32(sizes[1] + 1), np.uint32(sizes[2] + 1)
    one = np.uint32(1)
    cells = np.empty(len(first), np.uint32)
    for i in range(len(first)):
        row = (np.uint32(first[i]) + one) * columns + np.uint32(second[i]) + one
        cells[i] = row * layers + np.uint32(third[i]) + one
    return cells


@compiled()
def _cell_sums(cells: Any, side: Any, n_entries: int) -> Any:
    """Sum residuals and hessians, as whole numbers, over the rows of each cell, (n_entries, 2)."""
    sums = np.zeros((n_entries, 2), np.int64)
    residual_scale, hessian_scale = side.scales[0], side.scales[1]
    for i in range(len(cells)):
        sums[cells[i], 0] += np.int64(np.rint(side.residual[i] * residual_scale))
        sums[cells[i], 1] += np.int64(np.rint(side.hessian[i] * hessian_scale))
    return sums


@compiled()
def _summed_volume(sums: Any, scales: Any, sizes: Any) -> Any:
    """Add up the cells (0, 0, 0) to (a, b, c), given the sums of cells as whole numbers."""
    volume = np.zeros(sums.shape)
    units = 1 / scales
    layers = sizes[2] + 1
    plane = (sizes[1] + 1) * layers
    for a in range(1, sizes[0] + 1):
        for b in range(1, sizes[1] + 1):
            start = a * plane + b * layers
            residual, mass = 0.0, 0.0
            for entry in range(start + 1, start + layers):
                residual += units[0] * sums[entry, 0]
                mass += units[1] * sums[entry, 1]
                volume[entry, 0] = residual + volume[entry - layers, 0]
                volume[entry, 1] = mass + volume[entry - layers, 1]
        for entry in range(a * plane, (a + 1) * plane):
            volume[entry, 0] += volume[entry - plane, 0]
            volume[entry, 1] += volume[entry - plane, 1]
    return volume


@compiled(inline="always")
def _face(volume: Any, low: int, high: int, wide: int, deep: int) -> Any:
    """Add up everything before one plane of a cuboid, from its four corners in that plane.

    ``low`` is the entry of one corner; ``wide`` and ``deep`` lead to the others.
    """
    corner, other = low + wide, low + deep
    residual = volume[high, 0] - volume[corner, 0] - volume[other, 0] + volume[low, 0]
    mass = volume[high, 1] - volume[corner, 1] - volume[other, 1] + volume[low, 1]
    return residual, mass


@compiled()
def _sums_below(volume: Any, strides: Any, box: Any, axis: int, place: int) -> Any:
    """Residual and mass of the part of a box with nodes before ``place``, from the grid's edge."""
    u, v = (axis + 1) % 3, (axis + 2) % 3
    wide = (box[2 * u + 1] - box[2 * u]) * strides[u]
    deep = (box[2 * v + 1] - box[2 * v]) * strides[v]
    low = place * strides[axis] + box[2 * u] * strides[u] + box[2 * v] * strides[v]
    return _face(volume, low, low + wide + deep, wide, deep)


@compiled()
def _box_sums(volume: Any, strides: Any, box: Any) -> Any:
    """Residual and mass of a box."""
    above = _sums_below(volume, strides, box, 0, box[1])
    below = _sums_below(volume, strides, box, 0, box[0])
    return above[0] - below[0], above[1] - below[1]


@compiled()
def _best_cut(volume: Any, strides: Any, box: Any, settings: Any, state: Any) -> Any:
    """Gain, axis and place of the best of some random cuts of a box; gain 0 if none is allowed."""
    best, best_axis, best_place = 0.0, 0, 0
    total, weight = _box_sums(volume, strides, box)
    if weight < 2 * settings.min_mass:
        return best, best_axis, best_place
    base = total * total / (weight + settings.ridge)
    for axis in range(3):
        low, high = box[2 * axis], box[2 * axis + 1]
        places = high - low - 1
        below, mass_below = _sums_below(volume, strides, box, axis, low)
        tries = min(places, max(settings.fewest, int(settings.share * places)))
        for attempt in range(tries):
            place = low + 1 + (attempt if tries == places else draw_below(state, places))
            upto, mass_upto = _sums_below(volume, strides, box, axis, place)
            part, part_weight = upto - below, mass_upto - mass_below
            rest, rest_weight = total - part, weight - part_weight
            if min(part_weight, rest_weight) < settings.min_mass:
                continue
            gain = part * part / (part_weight + settings.ridge) - base
            gain += rest * rest / (rest_weight + settings.ridge)
            if gain > best:
                best, best_axis, best_place = gain, axis, place
    return best, best_axis, best_place


@compiled()
def _cut(boxes: Any, leaf: int, new: int, axis: int, place: int) -> None:
    """Cut a box in two: ``leaf`` keeps the lower part, ``new`` gets the upper part."""
    boxes[new] = boxes[leaf]
    boxes[leaf, 2 * axis + 1] = place
    boxes[new, 2 * axis] = place


@compiled()
def _random_cuts(boxes: Any, state: Any) -> Any:
    """Cut the grid at random along two features, drawn at random; return the number of boxes."""
    n_boxes, left_out = 1, draw_below(state, 3)
    for step in range(1, 3):
        axis = (left_out + step) % 3
        for leaf in range(n_boxes):
            places = boxes[leaf, 2 * axis + 1] - boxes[leaf, 2 * axis] - 1
            if places >= 1:
                place = boxes[leaf, 2 * axis] + 1 + draw_below(state, places)
                _cut(boxes, leaf, n_boxes, axis, place)
                n_boxes += 1
    return n_boxes


@compiled()
def _grow_tree(volume: Any, strides: Any, sizes: Any, settings: Any, state: Any, boxes: Any) -> Any:
    """Cut the grid best-first into ``boxes`` (n_leaves, 6); return their number and the gain."""
    boxes[0] = 0
    for axis in range(3):
        boxes[0, 2 * axis + 1] = sizes[axis]
    n_boxes, total_gain = _random_cuts(boxes, state), 0.0
    gains = np.zeros(settings.n_leaves)
    axes, places = np.zeros(settings.n_leaves, np.int64), np.zeros(settings.n_leaves, np.int64)
    for leaf in range(n_boxes):
        cut = _best_cut(volume, strides, boxes[leaf], settings, state)
        gains[leaf], axes[leaf], places[leaf] = cut
    while n_boxes < settings.n_leaves:
        best = int(np.argmax(gains[:n_boxes]))
        if gains[best] <= 0.0:
            break
        total_gain += gains[best]
        _cut(boxes, best, n_boxes, axes[best], places[best])
        n_boxes += 1
        for leaf in (best, n_boxes - 1):
            cut = _best_cut(volume, strides, boxes[leaf], settings, state)
            gains[leaf], axes[leaf], places[leaf] = cut
    return n_boxes, total_gain


@compiled()
def _fill_step(
    volume: Any, strides: Any, boxes: Any, n_boxes: int, settings: Any, step: Any
) -> None:
    """Write the value of each box into the entries of its cells."""
    for leaf in range(n_boxes):
        box = boxes[leaf]
        total, weight = _box_sums(volume, strides, box)
        shrunk = total / (max(weight, 0.0) + settings.ridge)
        value = np.float32(settings.rate * bounded(shrunk, settings))
        for a in range(box[0] + 1, box[1] + 1):
            for b in range(box[2] + 1, box[3] + 1):
                start = a * strides[0] + b * strides[1]
                for entry in range(start + box[4] + 1, start + box[5] + 1):
                    step[entry] = value


@compiled()
def _node_order(axis: int, cells: Any, strides: Any, sizes: Any, kinds: Any, ridge: float,
                state: Any) -> Any:  # fmt: skip
    """Order in which a tree sees the nodes along an axis, given the sums of cells.

    Levels are sorted by the difference between their mean residuals, shrunk by a ridge, on two
    random parts of the cells of the other two features. Missing values come first or last.
    """
    order = np.arange(sizes[axis])
    if kinds[axis] == NOMINAL:
        u, v = (axis + 1) % 3, (axis + 2) % 3
        sides = random_sides(kinds[u], sizes[u], state), random_sides(kinds[v], sizes[v], state)
        scores = np.zeros(sizes[axis])
        for a in range(sizes[axis]):
            sums, masses = np.zeros(2), np.zeros(2)
            for b in range(sizes[u]):
                for c in range(sizes[v]):
                    entry = (a + 1) * strides[axis] + (b + 1) * strides[u] + (c + 1) * strides[v]
                    side = sides[0][b] ^ sides[1][c]
                    sums[side] += cells[entry, 0]
                    masses[side] += cells[entry, 1]
            scores[a] = sums[0] / (masses[0] + ridge) - sums[1] / (masses[1] + ridge)
        return increasing(scores)
    if kinds[axis] == MISSING and draw_uniform(state) < 0.5:
        return np.roll(order, 1)
    return order


@compiled()
def _entries(orders: Any, strides: Any, sizes: Any) -> Any:
    """Entry of the cell that each entry of a rearranged volume shows, (n_entries,)."""
    entries = np.zeros((sizes[0] + 1) * strides[0], np.int64)
    for a in range(sizes[0]):
        for b in range(sizes[1]):
            shown = (orders[0][a] + 1) * strides[0] + (orders[1][b] + 1) * strides[1]
            start = (a + 1) * strides[0] + (b + 1) * strides[1]
            for c in range(sizes[2]):
                entries[start + c + 1] = shown + orders[2][c] + 1
    return entries


@compiled()
def grow_cuboids(
    sums: Any, scales: Any, sizes: Any, kinds: Any, state: Any, settings: Any, step: Any
) -> Any:
    """Grow one tree over the sums of cells (n_entries, 2) into ``step``; return its gain."""
    strides = np.array([(sizes[1] + 1) * (sizes[2] + 1), sizes[2] + 1, 1])
    is_rearranged = kinds.max() > 0
    entries = np.empty(0, np.int64)
    if is_rearranged:
        ridge = 2 * settings.ridge
        known = sums / scales
        first = _node_order(0, known, strides, sizes, kinds, ridge, state)
        second = _node_order(1, known, strides, sizes, kinds, ridge, state)
        third = _node_order(2, known, strides, sizes, kinds, ridge, state)
        entries = _entries((first, second, third), strides, sizes)
        sums = sums[entries]
    volume = _summed_volume(sums, scales, sizes)
    boxes = np.empty((settings.n_leaves, 6), np.int64)
    n_boxes, gain = _grow_tree(volume, strides, sizes, settings, state, boxes)
    if is_rearranged:
        shown = np.zeros_like(step)
        _fill_step(volume, strides, boxes, n_boxes, settings, shown)
        step[entries] = shown
    else:
        _fill_step(volume, strides, boxes, n_boxes, settings, step)
    return gain


@compiled()
def _take_step(cells: Any, side: Any, step: Any) -> Any:
    """Move raw scores and residuals by the values of their cells; return the fall of the loss."""
    fall, scale = np.int64(0), side.scales[0]
    for i in range(len(cells)):
        value = step[cells[i]]
        change = side.hessian[i] * value
        fall += np.int64(np.rint(value * (side.residual[i] - 0.5 * change) * scale))
        side.raw[i] += value
        side.residual[i] -= change
    return fall / scale


@compiled()
def add_to_table(step: Any, sizes: Any, table: Any) -> None:
    """Add the cells of a flat volume to a grid of values."""
    for a in range(sizes[0]):
        for b in range(sizes[1]):
            start = ((a + 1) * (sizes[1] + 1) + b + 1) * (sizes[2] + 1) + 1
            for c in range(sizes[2]):
                table[a, b, c] += step[start + c]


@compiled()
def next_triple(growth: Any) -> Any:
    """Choose a triple at random, one with a larger gain more often."""
    largest = max(growth.gains.max(), 1e-30)
    while True:
        index = draw_below(growth.state, len(growth.gains))
        probability = max(SMALLEST_VISIT_PROBABILITY, growth.gains[index] / largest)
        if draw_uniform(growth.state) <= probability:
            return index


@compiled()
def grow_triples(rows: Any, growth: Any, n_visits: int, settings: Any) -> None:
    """Visit triples at random, those with larger gains more often."""
    for _ in range(n_visits):
        index = next_triple(growth)
        triple = rows.triples[index]
        sizes, kinds = rows.sizes[triple], rows.kinds[triple]
        cells = _cells(rows.training, triple, sizes)
        step = np.empty((sizes + 1).prod(), np.float32)
        sums, scales = _cell_sums(cells, growth.training, len(step)), growth.training.scales
        gain = grow_cuboids(sums, scales, sizes, kinds, growth.state, settings, step)
        growth.gains[index], growth.changed[index] = gain, True
        _take_step(cells, growth.training, step)
        cells = _cells(rows.held_out, triple, sizes)
        growth.confirmed[index] += _take_step(cells, growth.held_out, step)
        add_to_table(step, sizes, growth.tables[index])
