"""Worst case: how far the raw score of a row can move if each number moves by a given amount.

Within a cell between nodes a component is linear in each feature, so over a box it is largest at a
corner of the box, on a node or where both meet. All of these are tried, for every component by
itself: no value in the box is left out, and no search is needed. Main effects share no feature, so
the sum of their worst cases is attained. Interactions share features, which cannot be at several
places at once: then the sum is a bound, which is never exceeded but need not be attained. A search
feature after feature shows a move that is attained; the truth lies between the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.model.model import AnovaModel
from tpnn.table.axis import Axis

VALUES_PER_STEP = 1_000_000


class Moves(NamedTuple):
    """Largest rise and largest fall of every component, both (n_rows, n_components, n_outputs)."""

    rises: FloatArray
    falls: FloatArray


def worst_moves(
    model: AnovaModel, columns: Sequence[FloatArray], amounts: Mapping[int, float]
) -> Moves:
    """Worst case of every component on every row.

    Parameters
    ----------
    model : AnovaModel
        The model.
    columns : sequence of array of shape (n_rows,)
        Every feature as the numbers that the encoder reads.
    amounts : dict from int to float
        How far each feature may move, in its own unit; other features and missing values stay.
    """
    shape = len(columns[0]), len(model.components), model.n_outputs
    rises, falls = np.empty(shape), np.empty(shape)
    for place, (component, table) in enumerate(model.by_component().items()):
        axes = model.axes(component)
        tried = [values_to_try(axis, columns[feature], amounts.get(feature, 0.0))
                 for axis, feature in zip(axes, component, strict=True)]  # fmt: skip
        step = max(VALUES_PER_STEP // int(np.prod([each.shape[1] for each in tried])), 1)
        for start in range(0, shape[0], step):
            rows = slice(start, start + step)
            values = _values(table, axes, [each[rows] for each in tried])
            rises[rows, place] = values.max(1) - values[:, 0]
            falls[rows, place] = values[:, 0] - values.min(1)
    return Moves(rises, falls)


def attained_moves(
    model: AnovaModel,
    columns: Sequence[FloatArray],
    amounts: Mapping[int, float],
    sign: int,
    output: int,
) -> FloatArray:
    """Rise (sign 1) or fall (-1) of one output that some values attain, (n_rows,).

    Each feature in turn goes to the best of its values, the features before it where they are now.
    """
    moved, n_rows = list(columns), len(columns[0])
    for feature, amount in amounts.items():
        part = model.restrict(s for s in model.components if feature in s)
        axes = [model.encoder.axes[order][feature] for order in sorted(set(part.components.orders))]
        tried = np.column_stack([values_to_try(axis, columns[feature], amount) for axis in axes])
        wide = [np.repeat(column, tried.shape[1]) for column in moved]
        wide[feature] = tried.ravel()
        scores = _output_sums(part, wide, output).reshape(tried.shape)
        moved[feature] = tried[np.arange(n_rows), (sign * scores).argmax(1)]
    return sign * (_output_sums(model, moved, output) - _output_sums(model, columns, output))


def _output_sums(model: AnovaModel, columns: Sequence[FloatArray], output: int) -> FloatArray:
    """Sum of all components of one output, (n_rows,)."""
    shape = len(columns[0]), len(model.components), model.n_outputs
    return np.asarray(model.column_scores(columns).reshape(shape)[..., output].sum(1))


def values_to_try(axis: Axis, column: FloatArray, amount: float) -> FloatArray:
    """Value of each row, the ends of its interval and the nodes inside, (n_rows, n_values).

    >>> axis = Axis(np.array([0.0, 1.0, 2.0]), np.full(3, 1 / 3))
    >>> values_to_try(axis, np.array([0.9, 5.0]), 0.5)
    array([[0.9, 0.4, 1.4, 1. ],
           [5. , 4.5, 5.5, 5. ]])
    """
    if amount == 0:
        return column[:, None]
    nodes, low, high = axis.values[: axis.n_regular], column - amount, column + amount
    first = np.searchsorted(nodes, low, side="right")
    last = np.searchsorted(nodes, high, side="left")
    places = first[:, None] + np.arange((last - first).max(initial=0))
    inside = places < last[:, None]
    on_nodes = np.where(inside, nodes[np.minimum(places, len(nodes) - 1)], column[:, None])
    return np.column_stack([column, low, high, on_nodes])


def _values(table: FloatArray, axes: Sequence[Axis], tried: Sequence[FloatArray]) -> FloatArray:
    """Component at all combinations of values of each row, (n_rows, n_combinations, n_outputs)."""
    grid = np.pad(table, [(0, 2)] * len(axes) + [(0, 0)])  # the null node, and a neighbour of it
    n_rows, shape = len(tried[0]), [each.shape[1] for each in tried]
    nodes, shares = [], []
    for place, (axis, values) in enumerate(zip(axes, tried, strict=True)):
        lower, fraction = axis.locate(values.ravel())
        wide = [n_rows, *(shape[place] if k == place else 1 for k in range(len(axes)))]
        nodes.append(lower.reshape(wide))
        shares.append(fraction.reshape(wide))
    total: FloatArray = np.zeros((n_rows, *shape, table.shape[-1]))
    for corner in product((0, 1), repeat=len(axes)):
        weight: FloatArray = np.ones([n_rows, *[1] * len(axes)])
        for up, share in zip(corner, shares, strict=True):
            weight = weight * (share if up else 1 - share)
        at = tuple(lower + up for lower, up in zip(nodes, corner, strict=True))
        total += weight[..., None] * grid[at]
    return total.reshape(n_rows, -1, table.shape[-1])
