"""What trees of every order share: settings and seeded random draws, compiled."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tpnn._utils.compile import compiled
from tpnn.solvers.problem.rows import scrambled

UNVISITED_GAIN = 1e30  # gain of a component before its first visit
FROZEN_GAIN = -1.0  # of a component that is never visited
SMALLEST_VISIT_PROBABILITY = 0.03  # even if the last gain of the component was small


class TreeSettings(NamedTuple):
    """Settings of one tree."""

    n_leaves: int  # rectangles or boxes
    rate: float  # learning rate: the factor that shrinks leaf values
    ridge: float  # added to the mass of a leaf, in rows
    min_mass: float  # smallest mass of a leaf, in rows
    share: float  # of the possible cuts that are tried, drawn at random
    fewest: int  # cuts tried along an axis, if it has that many
    random_first: bool  # a first cut drawn uniformly makes pure interactions visible
    sign: float = 0.0  # 1 or -1 if values may only step up or down along the first axis, else 0
    exempt: int = -1  # place on the first axis where a cut need not obey the sign; -1 for none
    largest: float = 1e30  # absolute leaf value before shrinkage


@compiled(inline="always")
def one_way(settings: Any, sign: float, exempt: int) -> Any:
    """Return the settings of a tree with two leaves that steps in one direction."""
    return TreeSettings(
        n_leaves=2, rate=settings.rate, ridge=settings.ridge, min_mass=settings.min_mass,
        share=settings.share, fewest=settings.fewest, random_first=settings.random_first,
        sign=sign, exempt=exempt, largest=settings.largest,
    )  # fmt: skip


@compiled()
def bounded(value: float, settings: Any) -> Any:
    """Clip a leaf value to the bound of its tree."""
    return min(max(value, -settings.largest), settings.largest)


@compiled()
def draw(state: Any) -> Any:
    """Next 64 random bits (splitmix64); ``state`` is an array of one uint64."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    return scrambled(state[0])


@compiled()
def draw_uniform(state: Any) -> Any:
    """Random number in [0, 1)."""
    return (draw(state) >> np.uint64(40)) * (1.0 / (1 << 24))


@compiled()
def draw_below(state: Any, size: int) -> Any:
    """Random integer in [0, size)."""
    return np.int64(draw_uniform(state) * size)


ORDERED, MISSING, NOMINAL = 0, 1, 2  # kinds of axes; the last node of MISSING is missing values


@compiled()
def cell_sums(rows: Any, columns: Any, values: Any, scale: Any, sums: Any) -> None:
    """Sum the whole numbers round(scale * value) over the rows in each cell of a grid, int64."""
    sums[:] = 0
    for i in range(len(values)):
        sums[rows[i], columns[i]] += np.int64(np.rint(values[i] * scale))


@compiled()
def summed_area(sums: Any, unit: float, area: Any) -> None:
    """Set ``area[a, b]`` to the sum of ``unit * sums[:a, :b]``; it has one more row and column."""
    n_rows, n_columns = sums.shape
    area[0] = 0.0
    for a in range(n_rows):
        running = sums[0, 0] * 0
        area[a + 1, 0] = 0.0
        for b in range(n_columns):
            running += sums[a, b]
            area[a + 1, b + 1] = unit * running + area[a, b + 1]


@compiled(inline="always")
def _box_sum(area: Any, top: int, bottom: int, left: int, right: int) -> Any:
    return area[bottom, right] - area[top, right] - area[bottom, left] + area[top, left]


@compiled(inline="always")
def _best_cut(residual: Any, mass: Any, box: Any, settings: Any, state: Any) -> Any:
    """Gain, axis and place of the best of some random cuts of a box; gain 0 if none is allowed."""
    top, bottom, left, right = box[0], box[1], box[2], box[3]
    total = _box_sum(residual, top, bottom, left, right)
    weight = _box_sum(mass, top, bottom, left, right)
    base = total * total / (weight + settings.ridge)
    best, best_axis, best_place = 0.0, 0, 0
    if weight < 2 * settings.min_mass:
        return best, best_axis, best_place
    for axis in range(2):
        low, high = box[2 * axis], box[2 * axis + 1]
        places = high - low - 1
        tries = min(places, max(settings.fewest, int(settings.share * places)))
        for attempt in range(tries):
            place = low + 1 + (attempt if tries == places else draw_below(state, places))
            if axis == 0:
                part = _box_sum(residual, top, place, left, right)
                part_weight = _box_sum(mass, top, place, left, right)
            else:
                part = _box_sum(residual, top, bottom, left, place)
                part_weight = _box_sum(mass, top, bottom, left, place)
            rest, rest_weight = total - part, weight - part_weight
            p, q = part_weight + settings.ridge, rest_weight + settings.ridge
            gain = (part * part * q + rest * rest * p) / (p * q) - base
            better = (min(part_weight, rest_weight) >= settings.min_mass) & (gain > best)
            if settings.sign != 0.0 and axis == 0 and place != settings.exempt:
                better &= (rest * p - part * q) * settings.sign >= 0.0
            best = gain if better else best  # without a branch, which could not be predicted
            best_axis = axis if better else best_axis
            best_place = place if better else best_place
    return best, best_axis, best_place


@compiled(inline="always")
def _cut(boxes: Any, leaf: int, new: int, axis: int, place: int) -> None:
    """Cut a box in two: ``leaf`` keeps the lower part, ``new`` gets the upper part."""
    for side in range(4):
        boxes[new, side] = boxes[leaf, side]
    boxes[leaf, 2 * axis + 1] = place
    boxes[new, 2 * axis] = place


@compiled()
def grow_tree(residual: Any, mass: Any, settings: Any, state: Any, boxes: Any) -> Any:
    """Cut the grid best-first into ``boxes`` (n_leaves, 4); return their number and the gain."""
    n_rows, n_columns = residual.shape[0] - 1, residual.shape[1] - 1
    boxes[0, 0], boxes[0, 1], boxes[0, 2], boxes[0, 3] = 0, n_rows, 0, n_columns
    n_boxes, total_gain = 1, 0.0
    changed: Any = 0
    if settings.random_first and n_rows + n_columns > 2:
        axis = draw_below(state, 2)
        if boxes[0, 2 * axis + 1] < 2:
            axis = 1 - axis
        _cut(boxes, 0, 1, axis, 1 + draw_below(state, boxes[0, 2 * axis + 1] - 1))
        n_boxes = 2
    gains = np.zeros(settings.n_leaves)
    axes = np.zeros(settings.n_leaves, np.int64)
    places = np.zeros(settings.n_leaves, np.int64)
    while n_boxes < settings.n_leaves:
        for leaf in range(changed, n_boxes, max(n_boxes - 1 - changed, 1)):  # and the last one
            cut = _best_cut(residual, mass, boxes[leaf], settings, state)
            gains[leaf], axes[leaf], places[leaf] = cut
        changed = np.argmax(gains[:n_boxes])
        if gains[changed] <= 0.0:
            break
        total_gain += gains[changed]
        _cut(boxes, changed, n_boxes, axes[changed], places[changed])
        n_boxes += 1
    return n_boxes, total_gain


@compiled()
def fill_step(residual: Any, mass: Any, boxes: Any, n_boxes: int, settings: Any, step: Any) -> None:
    """Write the value of each box into the cells of ``step``."""
    for leaf in range(n_boxes):
        top, bottom, left, right = boxes[leaf]
        weight = max(_box_sum(mass, top, bottom, left, right), 0.0)
        total = _box_sum(residual, top, bottom, left, right)
        value = np.float32(settings.rate * bounded(total / (weight + settings.ridge), settings))
        for a in range(top, bottom):
            for b in range(left, right):
                step[a, b] = value


@compiled()
def subtract_step(rows: Any, columns: Any, step: Any, hessian: Any, residual: Any) -> None:
    """Update the residual: each row loses its hessian times the step in its cell."""
    for i in range(len(residual)):
        residual[i] -= hessian[i] * step[rows[i], columns[i]]


@compiled(inline="always")
def random_sides(kind: int, size: int, state: Any) -> Any:
    """Divide the nodes of an axis at random: at one place or, without order, one by one."""
    sides = np.zeros(size, np.int64)
    place = 1 + draw_below(state, max(size - 1, 1))
    for node in range(size):
        cut = draw_uniform(state) < 0.5 if kind == NOMINAL else node >= place
        sides[node] = np.int64(cut)
    return sides


@compiled()
def increasing(scores: Any) -> Any:
    """Return indices that sort scores (Shell sort); NumPy's argsort takes seconds to compile."""
    order = np.arange(len(scores))
    gap = 1
    while gap < len(scores) // 3:
        gap = 3 * gap + 1
    while gap >= 1:
        for i in range(gap, len(scores)):
            moving, place = order[i], i
            while place >= gap and scores[order[place - gap]] > scores[moving]:
                order[place] = order[place - gap]
                place -= gap
            order[place] = moving
        gap //= 3
    return order


@compiled()
def node_order(
    kind: int, other_kind: int, residual: Any, mass: Any, ridge: float, state: Any
) -> Any:
    """Order in which a tree sees the nodes along the first axis of cell sums.

    Levels are sorted by their mean residual, shrunk by a ridge; in a pair, by the difference
    between their means on two random parts of the other axis. Missing values come first or last.
    """
    n_nodes, n_others = residual.shape
    if kind == NOMINAL:
        sides = random_sides(other_kind, n_others, state)
        scores = np.zeros(n_nodes)
        for a in range(n_nodes):
            sums, masses = np.zeros(2), np.zeros(2)
            for b in range(n_others):
                sums[sides[b]] += residual[a, b]
                masses[sides[b]] += mass[a, b]
            scores[a] = sums[0] / (masses[0] + ridge) - sums[1] / (masses[1] + ridge)
        return increasing(scores)
    order = np.arange(n_nodes)
    if kind == MISSING and draw_uniform(state) < 0.5:
        for place in range(n_nodes):
            order[place] = (place + n_nodes - 1) % n_nodes
    return order


@compiled(inline="always")
def area_cells(area: Any, cells: Any) -> None:
    """Recover the cells from their summed areas: the inverse of ``summed_area``."""
    for a in range(cells.shape[0]):
        for b in range(cells.shape[1]):
            cells[a, b] = _box_sum(area, a, a + 1, b, b + 1)


@compiled()
def arranged(cells: Any, rows: Any, columns: Any) -> Any:
    """Return the cells with their rows and columns in the given order."""
    answer = np.empty_like(cells)
    for a in range(len(rows)):
        for b in range(len(columns)):
            answer[a, b] = cells[rows[a], columns[b]]
    return answer
