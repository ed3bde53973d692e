"""Box trees: the compiled greedy step for interactions of three or more features.

A visit cuts the grid of a component into boxes and adds a small constant to each. The first cuts,
along all features but one, are drawn at random, which makes pure interactions visible; each later
cut is the best of a few random candidates. With many features a grid has more cells than there are
rows, so sums run over the rows of a box and not over a summed-area table.

The indicator of a box is a sum of products of steps, so the result is a tensor product neural
network.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tpnn._utils.compile import compiled
from tpnn.solvers.grow.trees import SMALLEST_VISIT_PROBABILITY, bounded, draw_below, draw_uniform


class BoxRows(NamedTuple):
    """Coded rows of one side of a bag; each tuple has one entry per order.

    Parameters
    ----------
    codes : tuple of array of shape (n_features, n_rows)
        Node of each feature in each row.
    features : tuple of array of shape (n_components, order)
        Features of each component.
    sizes : tuple of array of shape (n_features,)
        Number of nodes of each feature.
    nodes : tuple of int
        Number of nodes along each axis of a grid, padding included.
    """

    codes: Any
    features: Any
    sizes: Any
    nodes: Any


class BoxGrowth(NamedTuple):
    """State of one output of one bag, updated in place.

    Parameters
    ----------
    tables : tuple of array of shape (n_components, M^order)
        Grids of values of the components, one array per order, with cells in row-major order.
    residual, hessian : array of shape (n_rows,)
        Negative gradient and second derivative of the loss, times the row's weight.
    scales : array of shape (2,)
        What turns residuals and hessians into whole numbers, whose sums are exact.
    gains : array of shape (n_all_components,)
        Gain of each component's last visit, sorted by order.
    state : array of shape (1,), uint64
        Random state.
    """

    tables: Any
    residual: Any
    hessian: Any
    scales: Any
    gains: Any
    state: Any


@compiled()
def _partition(codes: Any, rows: Any, low: int, high: int, place: int) -> Any:
    """Move the rows with codes below ``place`` to the front; return where the others begin."""
    left, right = low, high - 1
    while left <= right:
        if codes[rows[left]] < place:
            left += 1
        else:
            rows[left], rows[right] = rows[right], rows[left]
            right -= 1
    return left


@compiled()
def _node_sums(codes: Any, inside: Any, bottom: int, top: int, growth: Any) -> Any:
    """Residual and mass of each node from ``bottom`` to ``top``, summed as whole numbers."""
    sums, masses = np.zeros(top - bottom, np.int64), np.zeros(top - bottom, np.int64)
    scales = growth.scales
    for row in inside:
        sums[codes[row] - bottom] += np.int64(np.rint(growth.residual[row] * scales[0]))
        masses[codes[row] - bottom] += np.int64(np.rint(growth.hessian[row] * scales[1]))
    return sums / scales[0], masses / scales[1]


@compiled(fastmath=True)
def _best_cut(
    codes: Any, rows: Any, low: int, high: int, box: Any, growth: Any, settings: Any
) -> Any:
    """Gain, axis and place of the best of some random cuts of a box; gain 0 if none is allowed."""
    best, best_axis, best_place = 0.0, 0, 0
    for axis in range(len(codes)):
        bottom, top = box[axis]
        places = top - bottom - 1
        if places < 1:
            continue
        node_sums, node_masses = _node_sums(codes[axis], rows[low:high], bottom, top, growth)
        sums, masses = np.cumsum(node_sums), np.cumsum(node_masses)
        total, weight = sums[-1], masses[-1]
        base = total * total / (weight + settings.ridge)
        tries = min(places, max(settings.fewest, int(settings.share * places)))
        for attempt in range(tries):
            place = attempt if tries == places else draw_below(growth.state, places)
            part, part_weight = sums[place], masses[place]
            rest, rest_weight = total - part, weight - part_weight
            if min(part_weight, rest_weight) < settings.min_mass:
                continue
            gain = part * part / (part_weight + settings.ridge) - base
            gain += rest * rest / (rest_weight + settings.ridge)
            if gain > best:
                best, best_axis, best_place = gain, axis, bottom + place + 1
    return best, best_axis, best_place


@compiled()
def _cut(
    codes: Any, rows: Any, ends: Any, boxes: Any, leaf: int, new: int, axis: int, place: int
) -> None:
    """Cut a leaf in two: ``leaf`` keeps the lower part, ``new`` gets the upper part."""
    middle = _partition(codes[axis], rows, ends[leaf, 0], ends[leaf, 1], place)
    ends[new, 0], ends[new, 1] = middle, ends[leaf, 1]
    ends[leaf, 1] = middle
    boxes[new] = boxes[leaf]
    boxes[leaf, axis, 1] = place
    boxes[new, axis, 0] = place


@compiled()
def _random_cuts(codes: Any, rows: Any, ends: Any, boxes: Any, state: Any, n_leaves: int) -> Any:
    """Cut every leaf at a random place along all features but one, in random order."""
    order, n_boxes = len(codes), 1
    axes = np.arange(order)
    for place in range(order - 1, 0, -1):
        other = draw_below(state, place + 1)
        axes[place], axes[other] = axes[other], axes[place]
    for axis in axes[: order - 1]:
        for leaf in range(n_boxes):
            places = boxes[leaf, axis, 1] - boxes[leaf, axis, 0] - 1
            if places < 1 or n_boxes == n_leaves:
                continue
            place = boxes[leaf, axis, 0] + 1 + draw_below(state, places)
            _cut(codes, rows, ends, boxes, leaf, n_boxes, axis, place)
            n_boxes += 1
    return n_boxes


@compiled(fastmath=True)
def _add_to_table(table: Any, box: Any, n_nodes: int, value: Any) -> None:
    """Add a value to all cells of a box; grids are flat, with cells in row-major order."""
    node = box[:, 0].copy()
    while True:
        cell = 0
        for axis in range(len(node)):
            cell = cell * n_nodes + node[axis]
        for last in range(box[-1, 1] - box[-1, 0]):
            table[cell + last] += value
        axis = len(node) - 2
        while axis >= 0:
            node[axis] += 1
            if node[axis] < box[axis, 1]:
                break
            node[axis] = box[axis, 0]
            axis -= 1
        if axis < 0:
            return


@compiled()
def _subtract(growth: Any, inside: Any, value: Any) -> None:
    """Update the residuals of some rows, each by its hessian times a value."""
    for row in inside:
        growth.residual[row] -= growth.hessian[row] * value


@compiled(fastmath=True)
def visit(codes: Any, sizes: Any, growth: Any, table: Any, n_nodes: int, settings: Any) -> Any:
    """Add one tree to a component's grid; return its gain.

    ``codes`` (order, n_rows) and ``sizes`` (order,) belong to the component's features.
    """
    rows = np.arange(codes.shape[1])
    ends = np.zeros((settings.n_leaves, 2), np.int64)
    boxes = np.zeros((settings.n_leaves, len(codes), 2), np.int64)
    ends[0, 1] = len(rows)
    boxes[0, :, 1] = sizes
    n_boxes = _random_cuts(codes, rows, ends, boxes, growth.state, settings.n_leaves)
    gains = np.zeros(settings.n_leaves)
    axes, places = np.zeros(settings.n_leaves, np.int64), np.zeros(settings.n_leaves, np.int64)
    total_gain = 0.0
    for leaf in range(n_boxes):
        cut = _best_cut(codes, rows, ends[leaf, 0], ends[leaf, 1], boxes[leaf], growth, settings)
        gains[leaf], axes[leaf], places[leaf] = cut
    while n_boxes < settings.n_leaves:
        best = int(np.argmax(gains[:n_boxes]))
        if gains[best] <= 0.0:
            break
        total_gain += gains[best]
        _cut(codes, rows, ends, boxes, best, n_boxes, axes[best], places[best])
        for leaf in (best, n_boxes):
            cut = _best_cut(
                codes, rows, ends[leaf, 0], ends[leaf, 1], boxes[leaf], growth, settings
            )
            gains[leaf], axes[leaf], places[leaf] = cut
        n_boxes += 1
    for leaf in range(n_boxes):
        inside = rows[ends[leaf, 0] : ends[leaf, 1]]
        sums, masses = _node_sums(codes[0], inside, boxes[leaf, 0, 0], boxes[leaf, 0, 1], growth)
        shrunk = sums.sum() / (masses.sum() + settings.ridge)
        value = np.float32(settings.rate * bounded(shrunk, settings))
        _subtract(growth, inside, value)
        _add_to_table(table, boxes[leaf], n_nodes, value)
    return total_gain


@compiled()
def grow_visits(rows: Any, growth: Any, n_visits: int, settings: Any) -> None:
    """Visit components at random, those with larger gains more often."""
    done = 0
    while done < n_visits:
        index = draw_below(growth.state, len(growth.gains))
        largest = max(growth.gains.max(), 1e-30)
        probability = max(SMALLEST_VISIT_PROBABILITY, growth.gains[index] / largest)
        if draw_uniform(growth.state) > probability:
            continue
        done += 1
        order, component = 0, index
        while component >= len(rows.features[order]):
            component -= len(rows.features[order])
            order += 1
        features = rows.features[order][component]
        growth.gains[index] = visit(
            rows.codes[order][features], rows.sizes[order][features], growth,
            growth.tables[order][component], rows.nodes[order], settings[order],
        )  # fmt: skip
