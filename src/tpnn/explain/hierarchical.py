"""Hierarchical: the same function in components that fit features that depend on each other.

A component is then uncorrelated, under the joint distribution of rows, with all functions of fewer
of its features (Hooker, 2007). With the joint masses W of rows on the nodes of a component,

    f_S = g_S + sum over j in S of h_j,    sum W g_S h = 0 for all functions h of S without one j,

so that h, the projection of f_S, joins components of lower order. The sum stays the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import Component
from tpnn.anova.measure import moved
from tpnn.explain.contributions import node_shares
from tpnn.model.model import AnovaModel, changed, tables_by_component
from tpnn.table.axis import Axis

SMALLEST_REST = 1e-10  # of a projection, on the average row, relative to the largest value


def hierarchical(model: AnovaModel, columns: Sequence[FloatArray]) -> AnovaModel:
    """Model with the hierarchical components of rows, whose columns are numbers; a remainder stays.

    Where fit has not seen a value, f_S is 0, but what moves out of it need not be. So rows with
    such values are refused: their sum would change.
    """
    components, axes = model.components.with_subsets(), model.encoder.axes
    _check_rows(components, axes, columns)
    n_outputs = len(model.intercepts)
    tables = model.encoder.zeros(components, n_outputs) | tables_by_component(model)
    intercepts = model.intercepts.copy()
    for component in sorted(components, key=len, reverse=True):
        own = [axes[len(component)][j] for j in component]
        masses = node_shares(own, [columns[j] for j in component])
        tables[component], parts = projected(tables[component], masses)
        for axis, part in enumerate(parts):
            target = component[:axis] + component[axis + 1 :]
            if target:
                finer = [axes[len(target)][j] for j in target]
                tables[target] = tables[target] + moved(part, own[:axis] + own[axis + 1 :], finer)
            else:
                intercepts += part
    ordered = tuple(tables[component] for component in components)
    return changed(model, components=components, tables=ordered, intercepts=intercepts)


def _check_rows(
    components: Iterable[Component],
    axes: Mapping[int, Sequence[Axis]],
    columns: Sequence[FloatArray],
) -> None:
    """Refuse no rows, and rows where components are 0, so that what moves would not cancel."""
    n_rows = len(columns[0])
    check_any_row(n_rows)
    lost = np.zeros(n_rows, bool)
    for component in components:
        for j in component:
            axis = axes[len(component)][j]
            lost |= axis.locate(columns[j])[0] >= axis.n_nodes
    if lost.any():
        raise ValueError(
            f"X: hierarchical components need values that the fit has seen, found gaps or levels "
            f"that it has not in {lost.sum()} of {n_rows} rows, such as row {lost.argmax()}. Leave "
            "these rows out, or call explain(X) without hierarchical."
        )


def check_any_row(n_rows: int) -> None:
    """Refuse an empty table, which has no joint distribution."""
    if n_rows == 0:
        raise ValueError("X: at least one row is needed, found none. Pass rows such as the fit's.")


def projected(table: FloatArray, masses: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
    """Split a table (M_1, ..., M_d, K) by weighted least squares.

    Its projection is a sum of one function of all features but each, and the rest comes first.
    Exact projections along one axis after the other, and back, would lead to it, slowly where
    features nearly determine each other. They are a symmetric operator, so conjugate gradients do.
    """
    weights, axes = masses[..., None], range(masses.ndim)
    sums = [weights.sum(axis, keepdims=True) for axis in axes]
    shapes = [table.sum(axis, keepdims=True).shape for axis in axes]
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    unit = np.abs(table).max(initial=0.0) or 1.0  # in which no square overflows

    def parts_of(vector: FloatArray) -> list[FloatArray]:
        pieces = np.split(vector, ends)
        return [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]

    def whole(vector: FloatArray) -> FloatArray:
        return sum(parts_of(vector), np.zeros_like(table))

    def swept(values: FloatArray) -> FloatArray:
        """Take away the means along each axis, forth and back; return all of them."""
        parts = [np.zeros(shape) for shape in shapes]
        for axis in (*axes, *axes[-2::-1]):
            means = (weights * values).sum(axis, keepdims=True)
            means = np.divide(means, sums[axis], out=np.zeros_like(means), where=sums[axis] > 0)
            values, parts[axis] = values - means, parts[axis] + means
        return np.concatenate([part.ravel() for part in parts])

    left = direction = swept(table / unit)
    found, size = np.zeros_like(left), float((weights * whole(left) ** 2).sum())
    for _ in range(table.size):  # steps, after which nothing would be left but for rounding
        if size <= SMALLEST_REST**2:
            break
        values, change = whole(direction), swept(whole(direction))
        step = size / float((weights * values * whole(change)).sum())
        found, left = found + step * direction, left - step * change
        former, size = size, float((weights * whole(left) ** 2).sum())
        direction = left + size / former * direction
    rest = table - unit * whole(found)
    return rest, [unit * part.squeeze(axis) for axis, part in enumerate(parts_of(found))]
