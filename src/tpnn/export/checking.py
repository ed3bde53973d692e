"""Check: the lowered model, evaluated in NumPy, must give the model's own component scores."""

from __future__ import annotations

import operator

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.export.lowering import MISSING, UNSEEN, Grid, Lowered, Place, lower
from tpnn.model.model import AnovaModel

TOLERANCE = 1e-12  # of a component's value, in units of the sum of all components' largest values
MOST_PROBES = 4096  # rows on which a model is compared with its export


def checked_lowering(model: AnovaModel) -> Lowered:
    """Lower a model and compare it with the model on rows that visit every node and every rule."""
    lowered = lower(model)
    columns = probes(model)
    expected = model.column_scores(columns)
    found = evaluate(lowered, columns).reshape(expected.shape)
    size = sum(float(np.abs(grid.cells).max(initial=0.0)) for grid in lowered.grids)
    worst = float(np.abs(found - expected).max(initial=0.0))
    if not worst <= TOLERANCE * size:
        raise AssertionError(
            f"model: the export must equal component_scores, found a difference of {worst!r}. "
            "Please report this."
        )
    return lowered


def probes(model: AnovaModel) -> list[FloatArray]:
    """Columns of rows, as the encoder would number them, one column for each feature.

    Each column runs through the nodes, points beside and between them, points beyond, a missing
    value and, for levels, an unseen one; the columns are shuffled against each other.
    """
    encoder, rng = model.encoder, np.random.default_rng(0)
    columns = []
    for feature, known in enumerate(encoder.features):
        axes = [per_order[feature] for per_order in encoder.axes.values()]
        nodes = np.unique(np.concatenate([axis.values[: axis.n_regular] for axis in axes]))
        if known.levels or not len(nodes):
            column = np.append(np.arange(float(len(known.levels))), [np.nan, np.inf])
        else:
            with np.errstate(over="ignore"):  # beyond the largest double, which is left out below
                below, above = np.nextafter(nodes, -np.inf), np.nextafter(nodes[-1], np.inf)
            middles = nodes[:-1] / 2 + nodes[1:] / 2
            column = np.concatenate([nodes, middles, below, [above, np.nan]])
            column = np.where(np.isinf(column), nodes[0], column)
        columns.append(rng.permutation(column))
    n_rows = min(max(map(len, columns)), MOST_PROBES)
    return [
        rng.permutation(np.resize(column, max(len(column), n_rows)))[:n_rows] for column in columns
    ]


def evaluate(lowered: Lowered, columns: list[FloatArray]) -> FloatArray:
    """Component scores (n_rows, n_components, n_outputs) of numbers, one column a feature."""
    located = []
    for place in lowered.places:
        known = lowered.inputs[place.input]
        located.append(_located(place, columns[known.feature] / known.unit))
    shape = len(columns[0]), 0, lowered.n_outputs
    values = [_values(grid, located) for grid in lowered.grids]
    return np.stack(values, 1) if values else np.empty(shape)


def _located(place: Place, x: FloatArray) -> tuple[IntArray, FloatArray]:
    """Lower node and fraction of numbers: NaN is missing, inf is unseen."""
    if not len(place.nodes):
        codes = np.where(np.isnan(x), MISSING, np.where(np.isinf(x), UNSEEN, np.nan_to_num(x)))
        codes = codes.astype(np.intp) - MISSING
        return place.lower[codes], place.fraction[codes]
    nodes, missing = place.nodes, np.isnan(x)
    known = np.clip(np.where(missing, nodes[0], x), nodes[0], nodes[-1])
    lower = np.searchsorted(nodes[1:-1], known, side="right")
    fraction = np.zeros(len(x))
    if len(nodes) > 1:
        fraction = (known - nodes[lower]) / (nodes[lower + 1] - nodes[lower])
    return np.where(missing, place.lower[0], lower), np.where(missing, 0.0, fraction)


def _values(grid: Grid, located: list[tuple[IntArray, FloatArray]]) -> FloatArray:
    """Multilinear interpolation of one component, (n_rows, n_outputs)."""
    nodes = [located[place][0] for place in grid.places]
    fractions = [located[place][1][:, None] for place in grid.places]

    def along(base: IntArray, axis: int) -> FloatArray:
        if axis == len(grid.strides):
            return grid.cells[base]
        low = along(base, axis + 1)
        if not fractions[axis].any():
            return low
        return low + fractions[axis] * (along(base + grid.strides[axis], axis + 1) - low)

    return along(sum(map(operator.mul, nodes, grid.strides)), 0)
