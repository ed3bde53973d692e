"""Lower: a frozen model as plain nodes, cells and weights, from which every export is written.

A row is scored in three steps. The value of a column becomes a lower node and a fraction of the way
to the next one; these pick cells of each component's grid, between which the component is linear;
the components add up to the raw scores, from which the link makes predictions.

If the model has a remainder, the codes that its trees ask about are nodes, too. Raw scores are then
the intercept, the grids and the trees, less the grids that the trees hold of the components.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.anova.components import Component
from tpnn.anova.trees import TreeFeature, Trees
from tpnn.model.model import AnovaModel, column_scores, tables_by_component
from tpnn.table.axis import UNSEEN_LEVEL, Axis, within_period
from tpnn.table.columns import LARGEST_EXACT_INTEGER
from tpnn.table.encoder import TableEncoder
from tpnn.table.table import PERIODIC

MISSING, UNSEEN = -2, -1  # codes of what is no level; the places of an axis begin with these two


class Input(NamedTuple):
    """A column that the model reads."""

    name: str
    feature: int  # its number among the features of the model
    kind: str  # one of the six of ``tpnn.table.table``
    levels: tuple[Any, ...]  # str, or int, float and bool; a level's code is its position
    are_text: bool  # whether numbers are compared with the levels as text
    unit: float  # divides numbers: 2 where the distance of two nodes would overflow, else 1
    may_be_boolean: bool  # whether fit has seen 0 and 1 only: it may hold false and true
    period: float = 0.0  # of a periodic number, whose whole periods do not count; 0 for others

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


class Forest(NamedTuple):
    """Trees of a remainder."""

    trees: Trees  # of mean zero
    place_of: dict[int, int]  # place of each feature that is asked about; its nodes are codes


class Offset(NamedTuple):
    """A column that is added to the raw score, or its logarithm if it is an exposure."""

    name: str
    is_exposure: bool


@dataclass(frozen=True)
class Lowered:
    """A model as every export writes it."""

    inputs: tuple[Input, ...]  # columns that the components and trees read
    places: tuple[Place, ...]  # those of trees come last
    grids: tuple[Grid, ...]  # the components
    held: tuple[Grid, ...]  # of some components, what the trees hold of them
    forest: Forest | None
    intercepts: FloatArray  # (n_outputs,)
    link: str  # "identity", "logit", "log", "softmax" or "quantiles"
    outputs: tuple[str, ...]  # names; empty where there is one output
    offset: Offset | None  # column that holds the offset
    needs_offset: bool  # whether the model was fitted with an offset that no column holds

    @property
    def n_outputs(self) -> int:
        """Number of raw scores of a row."""
        return len(self.intercepts)

    @property
    def interpolated(self) -> list[int]:
        """Places between whose nodes components are linear."""
        used = {place for grid in self.grids + self.held for place in grid.places}
        return [number for number in sorted(used) if self.places[number].is_between]

    def in_one(self) -> Lowered:
        """Join each component with what the trees hold of it, where nobody asks for them alone."""
        held = {grid.places: grid for grid in self.held}
        joined = [
            grid._replace(cells=grid.cells - held.pop(grid.places).cells)
            if grid.places in held
            else grid
            for grid in self.grids
        ]
        return replace(self, grids=tuple(joined), held=tuple(held.values()))


def lower(model: AnovaModel) -> Lowered:
    """Nodes, cells and weights of a model; columns that it does not depend on are left out."""
    encoder, rest = model.encoder, model.remainder
    asked = [] if rest is None else rest.trees.used  # trees that ask nothing add nothing
    tables, held = tables_by_component(model), {} if rest is None or not asked else rest.held
    held = {component: table for component, table in held.items() if table.any()}
    components = [*tables, *held]
    inputs = tuple(
        input_of(encoder, j) for j in sorted({j for s in components for j in s}.union(asked))
    )
    number_of = {column.feature: number for number, column in enumerate(inputs)}
    used = sorted({(len(s), j) for s in components for j in s})
    place_of = {key: number for number, key in enumerate(used)}
    places = [_place(encoder.axes[order][j], inputs, number_of[j]) for order, j in used]
    grids, of_trees = (
        _grids(some, encoder.feature_names, places, place_of) for some in (tables, held)
    )
    forest = None
    if rest is not None and asked:
        forest = Forest(rest.centred, {j: len(used) + i for i, j in enumerate(asked)})
        places += [_code_place(rest.trees.features[j], inputs, number_of[j]) for j in asked]
    offset, column = None, encoder.offset_column
    if column is not None:
        offset = Offset(column.name or f"x{column.place}", column.is_exposure)
    return Lowered(
        inputs=inputs,
        places=tuple(places),
        grids=grids,
        held=of_trees,
        forest=forest,
        intercepts=model.intercepts,
        link=model.link.name,
        outputs=model.output_names,
        offset=offset,
        needs_offset=model.has_offset and encoder.offset_column is None,
    )


def input_of(encoder: TableEncoder, feature: int) -> Input:
    """Column of a feature."""
    name, about = encoder.feature_names[feature], encoder.features[feature]
    if len({isinstance(level, str) for level in about.levels}) > 1:
        raise ValueError(
            f"model: {name!r} has levels that are strings and levels that are numbers, and an "
            "export needs one kind. Make them strings before the fit."
        )
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
        period=float(nodes.max()) if about.kind == PERIODIC else 0.0,
    )


def _place(axis: Axis, inputs: Sequence[Input], number: int) -> Place:
    """Place of one axis; it has a last node of zeros only if some value is located there."""
    column = inputs[number]
    is_number = not column.levels and not axis.is_empty
    lower, fraction = axis.locate(_level_numbers(column))
    reached = lower[:1] if is_number else lower
    return Place(
        input=number,
        nodes=axis.values / column.unit if is_number else np.empty(0),
        lower=lower,
        fraction=fraction,
        size=max(axis.n_nodes, 1 + int(reached.max())),
    )


def _code_place(codes: TreeFeature, inputs: Sequence[Input], number: int) -> Place:
    """Place whose nodes are the codes of a feature, each of which begins above the last end."""
    column, nodes = inputs[number], np.empty(0)
    if not column.levels:
        ends = codes.ends / column.unit
        begins = np.nextafter(ends, np.inf)
        nodes = np.concatenate([ends[:1], begins, np.nextafter(begins[-1:], np.inf)])
        nodes = nodes if len(ends) else np.zeros(1)
    lower = codes.codes(_level_numbers(column)).astype(np.intp)
    return Place(number, nodes, lower, np.zeros(len(lower)), codes.n_codes)


def _level_numbers(column: Input) -> FloatArray:
    """Missing and unseen values and every level, as the encoder numbers them."""
    return np.append([np.nan, UNSEEN_LEVEL], np.arange(float(len(column.levels))))


def _grids(
    tables: Mapping[Component, FloatArray],
    names: Sequence[str],
    places: Sequence[Place],
    place_of: Mapping[tuple[int, int], int],
) -> tuple[Grid, ...]:
    grids = []
    for component, table in tables.items():
        numbers = tuple(place_of[len(component), feature] for feature in component)
        sizes = [places[number].size for number in numbers]
        extra = [(0, size - n_nodes) for size, n_nodes in zip(sizes, table.shape, strict=False)]
        padded = np.pad(table, [*extra, (0, 0)])
        strides = tuple(math.prod(sizes[axis + 1 :]) for axis in range(len(sizes)))
        beyond = sum(s for s, p in zip(strides, numbers, strict=True) if places[p].is_between)
        cells = padded.reshape(-1, table.shape[-1])
        cells = np.concatenate([cells, np.zeros((beyond, table.shape[-1]))])
        grids.append(Grid(tuple(names[j] for j in component), numbers, strides, cells))
    return tuple(grids)


TOLERANCE = 1e-12  # of a component's value, in units of the sum of all components' largest values
MOST_PROBES = 4096  # rows on which a model is compared with its export


def checked_lowering(model: AnovaModel) -> Lowered:
    """Lower a model and compare it with the model on rows that visit every node and every rule."""
    lowered, columns = lower(model), probes(model)
    scores, rest = evaluate(lowered, columns)
    known = 0.0 if model.remainder is None else model.remainder.scores(model.encoder.axes, columns)
    errors = scores - column_scores(model, columns).reshape(scores.shape), rest - known
    worst = max(float(np.abs(error).max(initial=0.0)) for error in errors)
    size = sum(float(np.abs(grid.cells).max(initial=0.0)) for grid in lowered.grids + lowered.held)
    if lowered.forest is not None:
        trees = lowered.forest.trees
        size += len(trees.roots) * float(np.abs(trees.values).max())
    if not worst <= TOLERANCE * size:
        raise AssertionError(
            f"model: the export differs from component_scores or remainder_scores by {worst!r}, "
            "which must not be. Please report this."
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
        rest = model.remainder
        ends = np.empty(0) if rest is None else rest.trees.features[feature].ends
        values = [per_order[feature].values for per_order in encoder.axes.values()]
        nodes = np.unique(np.concatenate([ends, *values]))
        if about.levels or not len(nodes):
            column = np.append(np.arange(float(len(about.levels))), [np.nan, np.inf])
        else:
            with np.errstate(over="ignore"):  # beyond the largest double, which is left out below
                below, above = np.nextafter(nodes, -np.inf), np.nextafter(nodes[-1], np.inf)
            middles = nodes[:-1] / 2 + nodes[1:] / 2
            column = np.concatenate([nodes, middles, below, [above, np.nan]])
            column = np.where(np.isinf(column), nodes[0], column)
            column = within_period(column, nodes[-1]) if about.kind == PERIODIC else column
        columns.append(rng.permutation(column))
    n_rows = min(max(map(len, columns)), MOST_PROBES)
    return [
        rng.permutation(np.resize(column, max(len(column), n_rows)))[:n_rows] for column in columns
    ]


def evaluate(lowered: Lowered, columns: list[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Scores of rows of numbers, one column for each feature.

    Returns those of components (n_rows, n_components, n_outputs), and the remainder (n_rows,
    n_outputs).
    """
    read = [columns[column.feature] / column.unit for column in lowered.inputs]
    for j, column in enumerate(lowered.inputs):
        if column.period:
            read[j] = within_period(read[j], column.period)
    located = [_located(place, read[place.input]) for place in lowered.places]
    rest = np.zeros((len(columns[0]), lowered.n_outputs))
    values = [_values(grid, located) for grid in lowered.grids]
    scores = np.stack(values, 1) if values else rest[:, None][:, :0]
    if lowered.forest is not None:
        trees, place_of = lowered.forest
        codes = {feature: located[number][0] for feature, number in place_of.items()}
        rest += trees.coded_scores(codes, len(rest))
    for grid in lowered.held:
        rest -= _values(grid, located)
    return scores, rest


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
