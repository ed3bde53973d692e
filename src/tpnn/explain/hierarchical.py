"""Hierarchical: the same function in components that fit features that depend on each other.

A component is then uncorrelated, under the joint distribution of rows, with all functions of fewer
of its features (Hooker, 2007). With the joint masses W of rows on the nodes of a component,

    f_S = g_S + sum over j in S of h_j,    sum W g_S h = 0 for all functions h of S without one j,

so that h, the projection of f_S, joins components of lower order. The sum stays the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.measure import moved
from tpnn.model.model import AnovaModel, changed, tables_by_component
from tpnn.table.axis import Axis

MOST_SWEEPS, SMALLEST_STEP = 2000, 1e-10  # of projections, relative to the largest value


def hierarchical(model: AnovaModel, columns: Sequence[FloatArray]) -> AnovaModel:
    """Model with the hierarchical components of rows, whose columns are numbers; a remainder stays.

    Values that fit has not seen contribute 0, in these components too.
    """
    components, axes = model.components.with_subsets(), model.encoder.axes
    n_outputs = len(model.intercepts)
    tables = model.encoder.zeros(components, n_outputs) | tables_by_component(model)
    intercepts = model.intercepts.copy()
    for component in sorted(components, key=len, reverse=True):
        own = [axes[len(component)][j] for j in component]
        masses = joint_masses(own, [columns[j] for j in component])
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


def joint_masses(axes: Sequence[Axis], columns: Sequence[FloatArray]) -> FloatArray:
    """Share of the rows on each node, (M_1, ..., M_d); a row shares its mass linearly.

    >>> axis = Axis(np.array([0.0, 1.0]), np.array([0.5, 0.5]))
    >>> joint_masses([axis], [np.array([0.25, 1.0, np.nan])]) * 3
    array([0.75, 1.25])
    """
    shape = tuple(axis.n_nodes + 2 for axis in axes)  # what fit has not seen is on node M
    places = [axis.locate(column) for axis, column in zip(axes, columns, strict=True)]
    masses = np.zeros(math.prod(shape))
    for corner in product((0, 1), repeat=len(axes)):
        nodes = [lower + up for (lower, _), up in zip(places, corner, strict=True)]
        parts = [f if up else 1 - f for (_, f), up in zip(places, corner, strict=True)]
        masses += np.bincount(
            np.ravel_multi_index(nodes, shape), np.prod(parts, axis=0), len(masses)
        )
    seen = tuple(slice(axis.n_nodes) for axis in axes)
    return np.asarray(masses.reshape(shape)[seen] / len(columns[0]))


def projected(table: FloatArray, masses: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
    """Split a table (M_1, ..., M_d, K) by weighted least squares.

    Its projection is a sum of one function of all features but each, and the rest comes first.
    Means along one axis after the other, which are exact projections, lead to it.
    """
    weights, axes = masses[..., None], range(masses.ndim)
    sums = [weights.sum(axis, keepdims=True) for axis in axes]
    parts = [np.zeros_like(table.sum(axis)) for axis in axes]
    close_enough = SMALLEST_STEP * np.abs(table).max(initial=0.0)
    for _ in range(MOST_SWEEPS):
        step = 0.0
        for axis, total in zip(axes, sums, strict=True):
            means = (weights * table).sum(axis, keepdims=True)
            means = np.divide(means, total, out=np.zeros_like(means), where=total > 0)
            table, parts[axis] = table - means, parts[axis] + means.squeeze(axis)
            step = max(step, float(np.abs(means).max(initial=0.0)))
        if step <= close_enough:
            break
    return table, parts
