"""write_scores: operators of ONNX from the columns of a table to raw scores.

All components that are linear along the same axes are evaluated at once, as one array of shape
(n_outputs, n_components, n_rows), so a model of any size needs about a hundred operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from tpnn._utils.arrays import IntArray
from tpnn.export.lowering import Grid, Lowered
from tpnn.export.onnx_graph import DOUBLE, Graph, Value
from tpnn.export.onnx_places import Columns, Located, locate

Fractions = Sequence[str | None]  # along each axis; None where values never lie between nodes


class Scores(NamedTuple):
    """Names of what a graph computes.

    Parameters
    ----------
    raw : str
        Raw scores, (n_rows, n_outputs), NaN where a row is refused.
    effects : list of str
        Values of groups of components, (n_outputs, n_components, n_rows).
    place_of : array of shape (n_components,)
        Where each component stands in these groups.
    refused : str or None
        Whether the model refuses a row, (n_rows, 1); None where it cannot.
    """

    raw: str
    effects: list[str]
    place_of: IntArray
    refused: str | None


def write_scores(graph: Graph, lowered: Lowered, columns: Columns) -> Scores:
    """Write the way from columns to raw scores."""
    groups: dict[tuple[bool, ...], list[int]] = {}
    for number, grid in enumerate(lowered.grids):
        key = tuple(lowered.places[place].is_between for place in grid.places)
        groups.setdefault(key, []).append(number)
    effects = []
    if groups:
        located = locate(graph, lowered, columns)
        chosen = [[lowered.grids[number] for number in group] for group in groups.values()]
        effects = [_effects(graph, lowered, located, grids) for grids in chosen]
    sizes = map(len, groups.values())
    sums = [_sum(graph, *both, lowered.n_outputs) for both in zip(effects, sizes, strict=True)]
    refused = _refused(graph, lowered, columns)
    return Scores(
        raw=without_refused(graph, _total(graph, lowered, columns, sums), refused),
        effects=effects,
        place_of=np.argsort([number for group in groups.values() for number in group]),
        refused=refused,
    )


def without_refused(graph: Graph, values: str, refused: str | None) -> str:
    """Values (n_rows, n_columns), NaN in the rows that the model refuses."""
    return values if refused is None else graph.add("Where", refused, np.array(np.nan), values)


def _effects(graph: Graph, lowered: Lowered, located: Located, grids: Sequence[Grid]) -> str:
    """Values of components that are linear along the same axes."""
    add = graph.add
    sizes = np.array([[len(grid.cells)] for grid in grids])
    base: Value = np.cumsum(sizes, axis=0) - sizes  # position of the lowest cell around a row
    fractions = []
    for axis in range(len(grids[0].places)):
        places = [grid.places[axis] for grid in grids]
        nodes = add("Gather", located.nodes, _rows(located.node_row, places), axis=0)
        base = add("Add", base, add("Mul", nodes, _strides(grids, axis)))
        fraction = None
        if lowered.places[places[0]].is_between:
            rows = _rows(located.fraction_row, places)
            fraction = add("Gather", located.fractions, rows, axis=0)
        fractions.append(fraction)
    assert isinstance(base, str)
    return _interpolated(graph, grids, base, fractions)


def _interpolated(graph: Graph, grids: Sequence[Grid], base: str, fractions: Fractions) -> str:
    """Multilinear interpolation between the cells around each row."""
    add, values = graph.add, np.concatenate([grid.cells for grid in grids]).T
    cells, shape = graph.constant(values), [len(values), len(grids), -1]

    def along(lowest: str, axis: int) -> str:
        if axis == len(fractions):
            return graph.add_picked(cells, lowest, shape)
        low, fraction = along(lowest, axis + 1), fractions[axis]
        if fraction is None:
            return low
        high = along(add("Add", lowest, _strides(grids, axis)), axis + 1)
        return add("Add", low, add("Mul", fraction, add("Sub", high, low)))

    return along(base, 0)


def _rows(row_of: dict[int, int], places: Sequence[int]) -> IntArray:
    return np.array([row_of[place] for place in places])


def _strides(grids: Sequence[Grid], axis: int) -> IntArray:
    return np.array([[grid.strides[axis]] for grid in grids])


def _sum(graph: Graph, effects: str, n_components: int, n_outputs: int) -> str:
    """Sum of the components of a group, (n_rows, n_outputs)."""
    total = graph.add("MatMul", np.ones((1, n_components)), effects)
    return graph.add("Transpose", graph.add("Reshape", total, np.array([n_outputs, -1])))


def _total(graph: Graph, lowered: Lowered, columns: Columns, sums: list[str]) -> str:
    """Raw scores, (n_rows, n_outputs)."""
    add = graph.add
    if not sums:
        n_rows = add("Gather", add("Shape", columns.any_column), np.array([0]))
        sums = [add("Expand", np.zeros((1, 1)), add("Concat", n_rows, np.array([1]), axis=0))]
    terms = [add("Add", sums[0], lowered.intercepts), *sums[1:]]
    if columns.offset is not None:
        is_exposure = lowered.offset is not None and lowered.offset.is_exposure
        terms.append(add("Log", columns.offset) if is_exposure else columns.offset)
    return reduce(lambda left, right: add("Add", left, right), terms)


def _refused(graph: Graph, lowered: Lowered, columns: Columns) -> str | None:
    """Whether a row has an infinite number or a wrong offset, (n_rows, 1)."""
    add, found = graph.add, []
    if columns.row_of:
        infinite = add("Cast", add("IsInf", columns.numbers), to=DOUBLE)
        count = add("MatMul", np.ones((1, len(columns.row_of))), infinite)
        found.append(add("Greater", add("Transpose", count), np.array(0.0)))
    if columns.offset is not None:
        is_finite = add("Less", add("Abs", columns.offset), np.array(np.inf))
        if lowered.offset is not None and lowered.offset.is_exposure:
            is_positive = add("Greater", columns.offset, np.array(0.0))
            is_finite = add("And", is_finite, is_positive)
        found.append(add("Not", is_finite))
    return reduce(lambda left, right: add("Or", left, right), found) if found else None
