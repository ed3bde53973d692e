"""locate: operators of ONNX from the columns of a table to nodes and fractions.

Rows of the table are the second axis, (n_places, n_rows): picking places then copies whole rows,
which is fast. All places of numbers are searched at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray
from tpnn.export.lowering import MISSING, UNSEEN, Input, Lowered
from tpnn.export.onnx_graph import Graph
from tpnn.table.table import DATE, DURATION

TEXT, WHOLE, REAL = "text", "whole number", "number"
MISSING_WHOLE = np.iinfo(np.int64).min  # as NumPy writes NaT
MISSING_CODE, UNSEEN_CODE, FIRST_CODE = 0, UNSEEN - MISSING, -MISSING  # places in Place.lower


class Columns(NamedTuple):
    """Names of the values that a graph reads."""

    numbers: str  # (n_numbers, n_rows), NaN where they are missing
    row_of: dict[int, int]  # row of each input in ``numbers``
    others: dict[int, str]  # text and whole numbers of the other inputs, (n_rows, 1)
    offset: str | None  # offset or exposure, (n_rows, 1)
    any_column: str  # a value whose first axis is the rows
    missing_text: str = ""  # stands for a missing value among text


class Located(NamedTuple):
    """Names of lower nodes and fractions, (n_places, n_rows), and the row of each place there."""

    nodes: str
    node_row: dict[int, int]
    fractions: str
    fraction_row: dict[int, int]


def form_of(column: Input) -> str:
    """Type in which an input's values are passed: times are whole numbers of microseconds."""
    if column.is_text:
        return TEXT
    return WHOLE if column.has_large_levels or is_time(column) else REAL


def is_time(column: Input) -> bool:
    """Whether an input holds dates or durations."""
    return column.kind in (DATE, DURATION) and not column.levels


def locate(graph: Graph, lowered: Lowered, columns: Columns) -> Located:
    """Write the way from columns to nodes and fractions."""
    numbered = [p for p, place in enumerate(lowered.places) if len(place.nodes)]
    levelled = [p for p, place in enumerate(lowered.places) if not len(place.nodes)]
    between = [p for p in levelled if lowered.places[p].is_between]
    nodes, fractions = [], []
    if numbered:
        node, fraction = _locate_numbers(graph, lowered, columns, numbered)
        nodes.append(node)
        fractions.append(fraction)
    if levelled:
        codes = {
            j: _codes(graph, lowered.inputs[j], j, columns)
            for j in sorted({lowered.places[p].input for p in levelled})
        }
        nodes.append(_looked_up(graph, lowered, codes, levelled, "lower"))
        if between:
            fractions.append(_looked_up(graph, lowered, codes, between, "fraction"))
    return Located(
        nodes=graph.add("Concat", *nodes, axis=0),
        node_row={p: row for row, p in enumerate(numbered + levelled)},
        fractions=graph.add("Concat", *fractions, axis=0) if fractions else "",
        fraction_row={p: row for row, p in enumerate(numbered + between)},
    )


def _locate_numbers(
    graph: Graph, lowered: Lowered, columns: Columns, chosen: Sequence[int]
) -> tuple[str, str]:
    """Lower node and fraction of places of numbers, (n_places, n_rows)."""
    add, places = graph.add, [lowered.places[p] for p in chosen]
    x, is_missing = _numbers(graph, columns, [place.input for place in places])
    units = np.array([[lowered.inputs[place.input].unit] for place in places])
    if (units != 1).any():
        x = add("Div", x, units)
    x = add("Max", x, np.array([[place.nodes[0]] for place in places]))
    x = add("Min", x, np.array([[place.nodes[-1]] for place in places]))
    lower = [place.nodes[: max(len(place.nodes) - 1, 1)] for place in places]
    position, first = graph.add_last_below(x, lower)
    above = add("Sub", x, _picked(graph, lower, position))
    steps = [_steps(place.nodes) for place in places]
    fraction = add("Div", above, _picked(graph, steps, position))
    missing = np.array([[place.lower[MISSING_CODE]] for place in places])
    node = add("Where", is_missing, missing, add("Sub", position, first))
    return node, add("Where", is_missing, np.array(0.0), fraction)


def _steps(nodes: FloatArray) -> FloatArray:
    """Distance of each node from the next one; 1 where there is one node only."""
    return np.diff(nodes) if len(nodes) > 1 else np.ones(1)


def _numbers(graph: Graph, columns: Columns, inputs: Sequence[int]) -> tuple[str, str]:
    """Numbers of some inputs, 0 where they are missing, and whether they are, (n, n_rows)."""
    rows = np.array([columns.row_of[j] for j in inputs])
    x = graph.add("Gather", columns.numbers, rows, axis=0)
    is_missing = graph.add("IsNaN", x)
    return graph.add("Where", is_missing, np.array(0.0), x), is_missing


def _codes(graph: Graph, column: Input, number: int, columns: Columns) -> str:
    """Where the level of each row stands in ``Place.lower``, (1, n_rows)."""
    add, form = graph.add, form_of(column)
    if form == TEXT:
        code_of = {level: code for code, level in enumerate(column.levels, FIRST_CODE)}
        code_of[columns.missing_text] = MISSING_CODE
        return add("Transpose", graph.add_codes(columns.others[number], code_of, UNSEEN_CODE))
    if form == WHOLE:
        x = add("Transpose", columns.others[number])
        is_missing = add("Equal", x, np.array(MISSING_WHOLE))
    else:
        x, is_missing = _numbers(graph, columns, [number])
    code = _number_code(graph, column, x, np.int64 if form == WHOLE else np.float64)
    return add("Where", is_missing, np.array(MISSING_CODE), code)


def _number_code(graph: Graph, column: Input, x: str, dtype: Any) -> Any:
    """Codes of levels that are numbers; without levels, fit has seen missing values alone."""
    if not column.levels:
        return np.array(UNSEEN_CODE)
    levels = np.array(column.levels, dtype)
    order = np.argsort(levels)
    position, _ = graph.add_last_below(x, [levels[order]])
    is_level = graph.add("Equal", x, _picked(graph, [levels[order]], position))
    codes = _picked(graph, [order + FIRST_CODE], position)
    return graph.add("Where", is_level, codes, np.array(UNSEEN_CODE))


def _looked_up(
    graph: Graph, lowered: Lowered, codes: dict[int, str], chosen: Sequence[int], field: str
) -> str:
    """Node or fraction of places of levels, (n_places, n_rows)."""
    tables = [getattr(lowered.places[p], field) for p in chosen]
    sizes = np.array([[len(table)] for table in tables])
    wanted = graph.add("Concat", *(codes[lowered.places[p].input] for p in chosen), axis=0)
    position = graph.add("Add", wanted, np.cumsum(sizes, axis=0) - sizes)
    return _picked(graph, tables, position)


def _picked(graph: Graph, tables: Sequence[NDArray[Any]], position: str) -> str:
    """Entries of some tables, by positions (n_tables, n_rows) in all of them as one array."""
    values = graph.constant(np.concatenate(tables)[None])
    return graph.add_picked(values, position, [len(tables), -1])
