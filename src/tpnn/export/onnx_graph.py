"""Graph: operators of ONNX and the constants that they read, as they are being written.

Only operators are used whose meaning has not changed since version 12 of the operator set, so that
a graph can be part of a larger one of any later version.

Rows of the table are the second axis, (n_places, n_rows): picking places then copies whole rows,
which is fast. All places of numbers are searched at once. If trees ask few questions, the answers
are the bits of a number that picks the value of a tree. Otherwise all trees go down one level after
the other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import Int32Array, IntArray
from tpnn.anova.trees import Trees
from tpnn.export.lowering import MISSING, UNSEEN, Forest, Input, Lowered
from tpnn.table.table import DATE, DURATION

ML_DOMAIN = "ai.onnx.ml"
OPERATOR_SETS = {"": 12, ML_DOMAIN: 2}  # the lowest in which the graph is valid
FLOAT, DOUBLE = 1, 11  # codes of types in ONNX

Value = str | NDArray[Any]  # name of a value, or a constant


class Node(NamedTuple):
    """An operator with its inputs, outputs and attributes."""

    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    domain: str = ""


class Graph:
    """Operators and constants that are being written; names in ``taken`` are not used."""

    def __init__(self, taken: Collection[str] = (), prefix: str = "tpnn") -> None:
        self.nodes: list[Node] = []  # in the order in which they run
        self.constants: dict[str, NDArray[Any]] = {}  # by name
        while any(name.startswith(prefix) for name in taken):
            prefix += "_"
        self._new_names = (f"{prefix}_{number}" for number in count())

    def add(self, operator: str, *inputs: Value, output: str = "", **attributes: Any) -> str:
        """Apply an operator with one output; return the name of its result."""
        name = output or next(self._new_names)
        self.nodes.append(Node(operator, self._names(inputs), (name,), attributes))
        return name

    def add_sorted(self, values: str, n_columns: int) -> str:
        """Sort the numbers of each row of (n_rows, n_columns)."""
        inputs = self._names([values, np.array([n_columns])])
        name = next(self._new_names)
        outputs = (name, f"{name}_places")
        self.nodes.append(Node("TopK", inputs, outputs, {"largest": 0, "axis": 1}))
        return name

    def add_codes(self, texts: str, codes: dict[str, int], default: int) -> str:
        """Code of each text."""
        name = next(self._new_names)
        attributes = {
            "keys_strings": list(codes), "values_int64s": list(codes.values()),
            "default_int64": default,
        }  # fmt: skip
        self.nodes.append(Node("LabelEncoder", (texts,), (name,), attributes, ML_DOMAIN))
        return name

    def add_picked(self, values: str, positions: str, shape: Sequence[int]) -> str:
        """Pick columns of values (n, n_values) by positions; the result has this shape.

        ``ArrayFeatureExtractor`` is about twenty times as fast as ``Gather`` in onnxruntime.
        """
        flat = self.add("Reshape", positions, np.array([-1]))
        name = next(self._new_names)
        self.nodes.append(Node("ArrayFeatureExtractor", (values, flat), (name,), {}, ML_DOMAIN))
        return self.add("Reshape", name, np.array(shape))

    def add_last_below(self, x: str, axes: Sequence[NDArray[Any]]) -> tuple[str, NDArray[Any]]:
        """Search the last number at or below x in sorted axes by halving, for all axes at once.

        ``x`` is (n_axes, n_rows). Returns its positions in the joined axes, (n_axes, n_rows), and
        the position of the first number of each axis, (n_axes, 1). A number below its whole axis
        gets this first position.
        """
        sizes = np.array([len(axis) for axis in axes])[:, None]
        first = np.cumsum(sizes, axis=0) - sizes
        numbers = self.constant(np.concatenate(axes)[None])
        position: Value = first
        n_halvings = max(int(sizes.max() - 1).bit_length(), 1)
        for step in 2 ** np.arange(n_halvings)[::-1]:
            next_one = self.add("Min", self.add("Add", position, step), first + sizes - 1)
            is_below = self.add("Less", x, self.add_picked(numbers, next_one, [len(axes), -1]))
            position = self.add("Where", is_below, position, next_one)
        assert isinstance(position, str)
        return position, first

    def _names(self, values: Sequence[Value]) -> tuple[str, ...]:
        return tuple(x if isinstance(x, str) else self.constant(x) for x in values)

    def constant(self, values: NDArray[Any]) -> str:
        """Name of a new constant."""
        name = next(self._new_names)
        self.constants[name] = np.asarray(values)
        return name


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
    periods = np.array([[lowered.inputs[place.input].period] for place in places])
    if periods.any():
        turns = add("Floor", add("Div", x, np.where(periods > 0, periods, 1.0)))
        x = add("Where", periods > 0, add("Sub", x, add("Mul", turns, periods)), x)
    x = add("Max", x, np.array([[place.nodes[0]] for place in places]))
    x = add("Min", x, np.array([[place.nodes[-1]] for place in places]))
    lower = [place.nodes[: max(len(place.nodes) - 1, 1)] for place in places]
    position, first = graph.add_last_below(x, lower)
    above = add("Sub", x, _picked(graph, lower, position))
    steps = [np.diff(p.nodes) if len(p.nodes) > 1 else np.ones(1) for p in places]
    fraction = add("Div", above, _picked(graph, steps, position))
    missing = np.array([[place.lower[MISSING_CODE]] for place in places])
    node = add("Where", is_missing, missing, add("Sub", position, first))
    return node, add("Where", is_missing, np.array(0.0), fraction)


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


def write_trees(graph: Graph, forest: Forest, located: Located) -> str:
    """Values of all trees, (n_outputs, n_trees, n_rows)."""
    trees, values = forest.trees, forest.trees.values  # (n, n_outputs)
    answers = _answers(graph, forest, located)
    if trees.tables is None:
        places = _leaves(graph, trees, answers)
    else:
        asked, values = trees.tables
        places = _entries(graph, asked, answers)
    shape = [values.shape[1], len(trees.roots), -1]
    return graph.add_picked(graph.constant(values.T), places, shape)


def _answers(graph: Graph, forest: Forest, located: Located) -> str:
    """Whether each row goes right at each question, 0 or 1, (n_questions, n_rows)."""
    trees, place_of = forest
    rows = np.array([located.node_row[place_of[feature]] for feature in trees.asked.tolist()])
    codes = graph.add("Gather", located.nodes, rows, axis=0)
    positions = graph.add("Add", codes, trees.starts[:-1, None])
    right = graph.constant(trees.right[None].astype(np.int64))
    return graph.add_picked(right, positions, [len(rows), -1])


def _entries(graph: Graph, asked: IntArray, answers: str) -> str:
    """Entry of each tree in its table, (n_trees, n_rows), given its questions (d, n_trees)."""
    numbers = ""
    for place, questions in enumerate(asked):
        bit = graph.add("Gather", answers, questions, axis=0)
        first = (np.arange(len(questions)) << len(asked))[:, None]
        weighted = graph.add("Mul", bit, np.array(1 << place))
        numbers = graph.add("Add", weighted, numbers or first)
    return numbers


def _leaves(graph: Graph, trees: Trees, answers: str) -> str:
    """Leaf of each tree, (n_trees, n_rows); a leaf is a node without a way out."""
    n_nodes, n_leaves = len(trees.questions), len(trees.values)

    def numbers(places: Int32Array) -> IntArray:
        return np.where(places >= 0, places, n_nodes - 1 - places).astype(np.int64)

    leaves = n_nodes + np.arange(n_leaves)
    children = np.concatenate([numbers(trees.children).ravel(), np.repeat(leaves, 2)])
    ways = graph.constant(children[None])
    asked = graph.constant(np.append(trees.questions, np.zeros(n_leaves, np.int64))[None])
    roots = numbers(trees.roots)[:, None]
    first_row = graph.add("Mul", graph.add("Gather", answers, np.array([0]), axis=0), np.array(0))
    place, shape = graph.add("Add", first_row, roots), [len(roots), -1]
    for _ in trees.levels:
        question = graph.add_picked(asked, place, shape)
        right = graph.add("GatherElements", answers, question, axis=0)
        twice = graph.add("Mul", place, np.array(2))
        place = graph.add_picked(ways, graph.add("Add", twice, right), shape)
    return graph.add("Sub", place, np.array(n_nodes))
