"""Lower: a frozen model as plain nodes, cells and weights, from which every export is written.

A row is scored in three steps. The value of a column becomes a lower node and a fraction of the way
to the next one; these pick cells of each component's grid, between which the component is linear;
the components add up to the raw scores, from which the link makes predictions.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.model.model import AnovaModel, column_scores, tables_by_component
from tpnn.table.axis import UNSEEN_LEVEL, Axis
from tpnn.table.columns import LARGEST_EXACT_INTEGER
from tpnn.table.encoder import Feature, TableEncoder

MISSING, UNSEEN = -2, -1  # codes of what is no level; the places of an axis begin with these two


class Input(NamedTuple):
    """A column that the model reads."""

    name: str
    feature: int  # its number among the features of the model
    kind: str  # "number", "date", "duration", "ordered" or "nominal"
    levels: tuple[Any, ...]  # str, or int, float and bool; a level's code is its position
    are_text: bool  # whether numbers are compared with the levels as text
    unit: float  # divides numbers: 2 where the distance of two nodes would overflow, else 1
    may_be_boolean: bool  # whether fit has seen 0 and 1 only: it may hold false and true

    @property
    def is_text(self) -> bool:
        """Whether its values are text."""
        return bool(self.levels) and isinstance(self.levels[0], str)

    @property
    def has_large_levels(self) -> bool:
        """Whether a level is a whole number that a double may round."""
        return any(isinstance(x, int) and abs(x) > LARGEST_EXACT_INTEGER for x in self.levels)


class Place(NamedTuple):
    """How the values of one input become nodes, at the resolution of one order."""

    input: int  # its number
    nodes: FloatArray  # (n_nodes,), of a column of numbers in its unit; none for levels
    lower: IntArray  # (2 + n_levels,), node of missing values, of unseen levels, of every level
    fraction: FloatArray  # (2 + n_levels,), how far each lies towards the next node, in [0, 1)
    size: int  # number of nodes, those of missing and unseen values included

    @property
    def is_between(self) -> bool:
        """Whether values can lie between two nodes."""
        return len(self.nodes) > 1 or bool(self.fraction.any())


class Grid(NamedTuple):
    """Values of one component."""

    names: tuple[str, ...]  # of its features
    places: tuple[int, ...]  # number of the place of each axis
    strides: tuple[int, ...]  # cells from one node to the next along each axis
    # (n_cells, n_outputs) in row-major order, with zeros behind: a neighbour can always be read
    cells: FloatArray


class Offset(NamedTuple):
    """A column that is added to the raw score, or its logarithm if it is an exposure."""

    name: str
    is_exposure: bool


@dataclass(frozen=True)
class Lowered:
    """A model as every export writes it."""

    inputs: tuple[Input, ...]  # columns that the components read
    places: tuple[Place, ...]
    grids: tuple[Grid, ...]  # the components
    intercepts: FloatArray  # (n_outputs,)
    link: str  # "identity", "logit", "log", "softmax" or "quantiles"
    outputs: tuple[str, ...]  # names; empty where there is one output
    offset: Offset | None  # column that holds the offset
    needs_offset: bool  # whether the model was fitted with an offset that no column holds

    @property
    def n_outputs(self) -> int:
        """Number of raw scores of a row."""
        return len(self.intercepts)


def lower(model: AnovaModel) -> Lowered:
    """Nodes, cells and weights of a model; columns that no component reads are left out."""
    encoder, components = model.encoder, tuple(model.components)
    inputs = tuple(input_of(encoder, j) for j in sorted({j for s in components for j in s}))
    number_of = {column.feature: number for number, column in enumerate(inputs)}
    used = sorted({(len(s), j) for s in components for j in s})
    place_of = {key: number for number, key in enumerate(used)}
    places = tuple(
        _place(encoder.axes[order][j], inputs[number_of[j]], number_of[j]) for order, j in used
    )
    return Lowered(
        inputs=inputs,
        places=places,
        grids=_grids(model, places, place_of),
        intercepts=model.intercepts,
        link=model.link.name,
        outputs=model.output_names,
        offset=_offset(encoder),
        needs_offset=model.has_offset and encoder.offset_column is None,
    )


def input_of(encoder: TableEncoder, feature: int) -> Input:
    """Column of a feature."""
    name, about = encoder.feature_names[feature], encoder.features[feature]
    _check_levels(name, about)
    axes = [per_order[feature] for per_order in encoder.axes.values()]
    nodes = np.concatenate([axis.values for axis in axes])
    values = about.levels or nodes.tolist()
    with np.errstate(over="ignore"):
        overflows = bool(len(nodes)) and not np.isfinite(nodes.max() - nodes.min())
    return Input(
        name=name,
        feature=feature,
        kind=about.kind,
        levels=about.levels,
        are_text=about.are_text,
        unit=2.0 if overflows else 1.0,
        may_be_boolean=bool(values) and all(value in (0, 1) for value in values),
    )


def _check_levels(name: str, feature: Feature) -> None:
    if len({isinstance(level, str) for level in feature.levels}) > 1:
        raise ValueError(
            f"model: {name!r} has levels that are strings and levels that are numbers, and an "
            "export needs one kind. Make them strings before the fit."
        )


def _place(axis: Axis, column: Input, number: int) -> Place:
    """Place of one axis; it has a last node of zeros only if some value is located there."""
    is_number = not column.levels and not axis.is_empty
    numbers = np.append([np.nan, UNSEEN_LEVEL], np.arange(float(len(column.levels))))
    lower, fraction = axis.locate(numbers)
    reached = lower[:1] if is_number else lower
    return Place(
        input=number,
        nodes=axis.values / column.unit if is_number else np.empty(0),
        lower=lower,
        fraction=fraction,
        size=max(axis.n_nodes, 1 + int(reached.max())),
    )


def _grids(
    model: AnovaModel, places: Sequence[Place], place_of: Mapping[tuple[int, int], int]
) -> tuple[Grid, ...]:
    names = model.encoder.feature_names
    grids = []
    for component, table in tables_by_component(model).items():
        numbers = tuple(place_of[len(component), feature] for feature in component)
        sizes = [places[number].size for number in numbers]
        extra = [(0, size - n_nodes) for size, n_nodes in zip(sizes, table.shape, strict=False)]
        padded = np.pad(table, [*extra, (0, 0)])
        strides = tuple(math.prod(sizes[axis + 1 :]) for axis in range(len(sizes)))
        beyond = sum(
            stride
            for stride, number in zip(strides, numbers, strict=True)
            if places[number].is_between
        )
        cells = padded.reshape(-1, table.shape[-1])
        cells = np.concatenate([cells, np.zeros((beyond, table.shape[-1]))])
        grids.append(Grid(tuple(names[j] for j in component), numbers, strides, cells))
    return tuple(grids)


def _offset(encoder: TableEncoder) -> Offset | None:
    column = encoder.offset_column
    if column is None:
        return None
    return Offset(f"x{column.place}" if column.name is None else column.name, column.is_exposure)


TOLERANCE = 1e-12  # of a component's value, in units of the sum of all components' largest values
MOST_PROBES = 4096  # rows on which a model is compared with its export


def checked_lowering(model: AnovaModel) -> Lowered:
    """Lower a model and compare it with the model on rows that visit every node and every rule."""
    lowered = lower(model)
    columns = probes(model)
    expected = column_scores(model, columns)
    scores = evaluate(lowered, columns).reshape(expected.shape)
    size = sum(float(np.abs(grid.cells).max(initial=0.0)) for grid in lowered.grids)
    worst = float(np.abs(scores - expected).max(initial=0.0))
    if not worst <= TOLERANCE * size:
        raise AssertionError(
            f"model: the export differs from component_scores by {worst!r}, which must not be. "
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
    for feature, about in enumerate(encoder.features):
        axes = [per_order[feature] for per_order in encoder.axes.values()]
        nodes = np.unique(np.concatenate([axis.values for axis in axes]))
        if about.levels or not len(nodes):
            column = np.append(np.arange(float(len(about.levels))), [np.nan, np.inf])
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
        column = lowered.inputs[place.input]
        located.append(_located(place, columns[column.feature] / column.unit))
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
    inside = np.clip(np.where(missing, nodes[0], x), nodes[0], nodes[-1])
    lower = np.searchsorted(nodes[1:-1], inside, side="right")
    fraction = np.zeros(len(x))
    if len(nodes) > 1:
        fraction = (inside - nodes[lower]) / (nodes[lower + 1] - nodes[lower])
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
