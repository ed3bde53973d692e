"""to_onnx: a model as operators of ONNX, from columns to labels, predictions and contributions."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import IntArray
from tpnn._utils.files import write_file
from tpnn._utils.rules import optional
from tpnn.export.lowering import Grid, Input, Lowered, checked_lowering, input_of
from tpnn.export.onnx_graph import (
    DOUBLE,
    MISSING_WHOLE,
    OPERATOR_SETS,
    REAL,
    TEXT,
    WHOLE,
    Columns,
    Graph,
    Located,
    Value,
    form_of,
    is_time,
    locate,
    write_trees,
)
from tpnn.loss.links import CLASS_LINKS, LARGEST_SCORE
from tpnn.model.model import AnovaModel

LABEL, PROBABILITIES, VARIABLE = "label", "probabilities", "variable"  # as skl2onnx calls them
RAW_SCORE, CONTRIBUTIONS, REMAINDER = "raw_score", "contributions", "remainder"


class Result(NamedTuple):
    """An output of a graph."""

    name: str  # for users
    value: str  # name of the value in the graph, with rows on the first axis
    columns: tuple[int, ...]  # sizes of its other axes
    dtype: Any = np.float64


def result_names(lowered: Lowered, contributions: bool) -> list[str]:
    """Names of the outputs of a graph."""
    means = [LABEL, PROBABILITIES] if lowered.link in CLASS_LINKS else [VARIABLE]
    parts = [CONTRIBUTIONS] if lowered.forest is None else [CONTRIBUTIONS, REMAINDER]
    return [*means, RAW_SCORE, *(parts if contributions else [])]


def write_predictions(
    graph: Graph, lowered: Lowered, scores: Scores, classes: Sequence[Any]
) -> list[Result]:
    """Write labels and probabilities of a classifier, or the means of other models."""
    means = _means(graph, lowered, scores)
    if lowered.link not in CLASS_LINKS:
        return [Result(VARIABLE, means, (lowered.n_outputs,))]
    labels = _labels(classes, max(lowered.n_outputs, 2))
    return [
        Result(LABEL, _label(graph, scores.raw, labels), (), labels.dtype),
        Result(PROBABILITIES, means, (len(labels),)),
    ]


def _means(graph: Graph, lowered: Lowered, scores: Scores) -> str:
    """Inverse of the link, (n_rows, n_columns): probabilities of all classes of a classifier."""
    add, raw, link = graph.add, scores.raw, lowered.link
    if link == "softmax":
        return add("Softmax", raw, axis=1)
    if link == "logit":
        one = np.array(1.0)  # a / (1 + e^-|f|) with a = 1 if f >= 0, else e^-|f|, cannot overflow
        decay = add("Exp", add("Neg", add("Abs", raw)))
        share = add("Where", add("Less", raw, np.array(0.0)), decay, one)
        second = add("Div", share, add("Add", decay, one))
        return add("Concat", add("Sub", one, second), second, axis=1)
    if link == "log":
        limit = np.array(LARGEST_SCORE)
        return add("Exp", add("Clip", raw, -limit, limit))
    return graph.add_sorted(raw, lowered.n_outputs) if link == "quantiles" else raw


def _labels(classes: Sequence[Any], n_classes: int) -> NDArray[Any]:
    """Labels as an array of strings or, where that changes none of them, of whole numbers."""
    labels = np.array(classes or range(n_classes))
    if labels.dtype.kind == "U":
        return labels.astype(object)
    whole = labels.astype(np.int64)
    return whole if (whole == labels).all() else labels


def _label(graph: Graph, raw: str, labels: NDArray[Any]) -> str:
    """Label of the largest raw score; of two classes, the second one if the score is positive."""
    if len(labels) > 2:
        best = graph.add("ArgMax", raw, axis=1, keepdims=0)
        return graph.add("Gather", graph.constant(labels), best)
    is_second = graph.add("Reshape", graph.add("Greater", raw, np.array(0.0)), np.array([-1]))
    return graph.add("Where", is_second, labels[1:], labels[:1])


def _contributions(graph: Graph, lowered: Lowered, scores: Scores) -> Result:
    """Values of all components in their order, (n_rows, n_components[, n_outputs])."""
    add, sizes = graph.add, (len(lowered.grids), lowered.n_outputs)
    if not scores.effects:  # (n_rows, 0[, n_outputs])
        none, n_outputs = np.empty(0, np.int64), lowered.n_outputs
        if n_outputs == 1:
            return Result(CONTRIBUTIONS, add("Gather", scores.raw, none, axis=1), (0,))
        raw = add("Reshape", scores.raw, np.array([0, 1, n_outputs]))
        return Result(CONTRIBUTIONS, add("Gather", raw, none, axis=1), (0, n_outputs))
    in_groups = add("Concat", *scores.effects, axis=1)
    effects = add("Gather", in_groups, scores.position_of, axis=1)
    if scores.refused is not None:
        effects = without_refused(graph, effects, add("Transpose", scores.refused))
    by_row = add("Transpose", effects, perm=[2, 1, 0])
    if lowered.n_outputs > 1:
        return Result(CONTRIBUTIONS, by_row, sizes)
    return Result(CONTRIBUTIONS, add("Reshape", by_row, np.array([0, -1])), sizes[:1])


Fractions = Sequence[str | None]  # along each axis; None where values never lie between nodes


class Scores(NamedTuple):
    """Names of the scores in a graph."""

    raw: str  # raw scores, (n_rows, n_outputs), NaN where a row is refused
    effects: list[str]  # groups of components, (n_outputs, n_components, n_rows) each
    position_of: IntArray  # (n_components,), of each component in these groups
    remainder: str | None  # (n_rows, n_outputs)
    refused: str | None  # whether the model refuses a row, (n_rows, 1); None where it cannot


def write_scores(graph: Graph, lowered: Lowered, columns: Columns) -> Scores:
    """Write the way from columns to raw scores."""
    groups = _alike(lowered, lowered.grids)
    effects, rest = [], None
    if lowered.places:
        located = locate(graph, lowered, columns)
        chosen = [[lowered.grids[number] for number in group] for group in groups.values()]
        effects = [_effects(graph, lowered, located, grids) for grids in chosen]
        rest = _remainder(graph, lowered, located)
    sizes = map(len, groups.values())
    sums = [_sum(graph, *both, lowered.n_outputs) for both in zip(effects, sizes, strict=True)]
    refused = _refused(graph, lowered, columns)
    total = _total(graph, lowered, columns, sums if rest is None else [*sums, rest])
    return Scores(
        raw=without_refused(graph, total, refused),
        effects=effects,
        position_of=np.argsort([number for group in groups.values() for number in group]),
        remainder=rest,
        refused=refused,
    )


def without_refused(graph: Graph, values: str, refused: str | None) -> str:
    """Values (n_rows, n_columns), NaN in the rows that the model refuses."""
    return values if refused is None else graph.add("Where", refused, np.array(np.nan), values)


def _remainder(graph: Graph, lowered: Lowered, located: Located) -> str | None:
    """Trees less what they hold of components, (n_rows, n_outputs)."""
    if lowered.forest is None:
        return None
    trees = write_trees(graph, lowered.forest, located)
    rest = _sum(graph, trees, len(lowered.forest.trees.roots), lowered.n_outputs)
    for group in _alike(lowered, lowered.held).values():
        held = _effects(graph, lowered, located, [lowered.held[number] for number in group])
        rest = graph.add("Sub", rest, _sum(graph, held, len(group), lowered.n_outputs))
    return rest


def _alike(lowered: Lowered, grids: Sequence[Grid]) -> dict[tuple[bool, ...], list[int]]:
    """Numbers of grids, by the axes along which they are linear."""
    groups: dict[tuple[bool, ...], list[int]] = {}
    for number, grid in enumerate(grids):
        key = tuple(lowered.places[place].is_between for place in grid.places)
        groups.setdefault(key, []).append(number)
    return groups


def _effects(graph: Graph, lowered: Lowered, located: Located, grids: Sequence[Grid]) -> str:
    """Values of components that are linear along the same axes."""
    add = graph.add
    sizes = np.array([[len(grid.cells)] for grid in grids])
    base: Value = np.cumsum(sizes, axis=0) - sizes  # position of the lowest cell around a row
    fractions = []
    for axis in range(len(grids[0].places)):
        places = [grid.places[axis] for grid in grids]
        rows = np.array([located.node_row[place] for place in places])
        nodes = add("Gather", located.nodes, rows, axis=0)
        base = add("Add", base, add("Mul", nodes, _strides(grids, axis)))
        fraction = None
        if lowered.places[places[0]].is_between:
            rows = np.array([located.fraction_row[place] for place in places])
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
    add, reasons = graph.add, []
    if columns.row_of:
        infinite = add("Cast", add("IsInf", columns.numbers), to=DOUBLE)
        count = add("MatMul", np.ones((1, len(columns.row_of))), infinite)
        reasons.append(add("Greater", add("Transpose", count), np.array(0.0)))
    if columns.offset is not None:
        is_finite = add("Less", add("Abs", columns.offset), np.array(np.inf))
        if lowered.offset is not None and lowered.offset.is_exposure:
            is_positive = add("Greater", columns.offset, np.array(0.0))
            is_finite = add("And", is_finite, is_positive)
        reasons.append(add("Not", is_finite))
    return reduce(lambda left, right: add("Or", left, right), reasons) if reasons else None


ROWS = "rows"  # name of the axis of rows in the shapes of inputs and outputs
MISSING_TEXT = "<missing>"  # what stands for a missing value among text
MICROSECONDS = 1e6  # in a second
LARGEST_WHOLE = np.iinfo(np.int64).max
NUMPY_TYPES = {REAL: np.float64, WHOLE: np.int64, TEXT: np.object_}


class Entry(NamedTuple):
    """An input of a graph."""

    name: str  # in the graph
    column: str  # of the table
    form: str  # type of its values
    words: str  # for people


def to_onnx(model: AnovaModel, path: str | os.PathLike[str], contributions: bool) -> None:
    """Write a model in the ONNX format; docs/export.md describes inputs and outputs."""
    lowered = checked_lowering(model)
    if not contributions:
        lowered = lowered.in_one()
    names = result_names(lowered, contributions)
    missing_text = _free_name(MISSING_TEXT, {level for x in lowered.inputs for level in x.levels})
    entries = _entries(model, lowered, names, missing_text)
    graph = Graph([*names, *(entry.name for entry in entries)])
    columns = _columns(graph, lowered, [entry.name for entry in entries], missing_text)
    scores = write_scores(graph, lowered, columns)
    results = write_predictions(graph, lowered, scores, model.classes)
    results.append(Result(RAW_SCORE, scores.raw, (lowered.n_outputs,)))
    if contributions:
        results.append(_contributions(graph, lowered, scores))
    if contributions and scores.remainder is not None:
        rest = without_refused(graph, scores.remainder, scores.refused)
        results.append(Result(REMAINDER, rest, (lowered.n_outputs,)))
    for result in results:
        graph.add("Identity", result.value, output=result.name)
    facts = {
        "components": json.dumps([grid.names for grid in lowered.grids], ensure_ascii=False),
        "inputs": json.dumps([entry._asdict() for entry in entries], ensure_ascii=False),
        "link": lowered.link,
        "missing_text": missing_text,
        "outputs": json.dumps(lowered.outputs, ensure_ascii=False),
    }
    onnx = optional("onnx", "to_onnx", "tpnn[onnx]")
    proto = _proto(onnx, graph, entries, results)
    onnx.helper.set_model_props(proto, facts)
    onnx.checker.check_model(proto, full_check=True)
    write_file(path, proto.SerializeToString())


def _entries(
    model: AnovaModel, lowered: Lowered, taken: Sequence[str], missing_text: str
) -> list[Entry]:
    """Values that the graph reads: the inputs of the model, then its offset."""
    inputs, offset = lowered.inputs, _offset(lowered)
    if not inputs and not offset:  # a constant model still has to know the number of rows
        inputs = (input_of(model.encoder, 0),)
    columns = [x.name for x in inputs] + [entry.column for entry in offset]
    _check_unicode([*columns, *(level for x in inputs if x.is_text for level in x.levels)])
    names: list[str] = []
    for column in columns:
        is_free = column and column not in [*taken, *names]
        others = [*taken, *columns, *names]
        names.append(column if is_free else _free_name(column or "unnamed", others))
    entries = [*(_entry(x, missing_text) for x in inputs), *offset]
    return [entry._replace(name=name) for entry, name in zip(entries, names, strict=True)]


def _offset(lowered: Lowered) -> list[Entry]:
    """Offset of the rows, where there is one."""
    if lowered.offset is not None:
        name, is_exposure = lowered.offset
        return [Entry(name, name, REAL, "exposure" if is_exposure else "offset")]
    return [Entry("offset", "offset", REAL, "offset")] if lowered.needs_offset else []


def _entry(column: Input, missing_text: str) -> Entry:
    form = form_of(column)
    if form == TEXT:
        words = f"text, {missing_text!r} where missing"
    elif is_time(column):
        since = " since 1970 in UTC" if column.kind == "date" else ""
        words = f"microseconds{since}, {MISSING_WHOLE} where missing"
    elif form == WHOLE:
        _check_whole(column)
        words = f"whole number, {MISSING_WHOLE} where missing"
    else:
        words = "number, NaN where missing"
    return Entry(column.name, column.name, form, words)


def _check_unicode(texts: Iterable[str]) -> None:
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(
                f"model: names and levels must be valid Unicode to be exported, found {text!r}. "
                "Rename it before the fit."
            ) from None


def _check_whole(column: Input) -> None:
    for level in column.levels:
        if level != int(level) or not MISSING_WHOLE < level <= LARGEST_WHOLE:
            raise ValueError(
                f"model: levels beside one beyond 2**53 must be whole numbers of 64 bits to be "
                f"exported, found {level!r} in {column.name!r}. Make them strings before the fit."
            )


def _free_name(name: str, taken: Collection[Any]) -> str:
    """Name with as many underscores as make it new."""
    while name in taken:
        name += "_"
    return name


def _columns(graph: Graph, lowered: Lowered, names: Sequence[str], missing_text: str) -> Columns:
    """Columns that are separate inputs of the graph."""
    times = [j for j, column in enumerate(lowered.inputs) if is_time(column)]
    reals = [j for j, column in enumerate(lowered.inputs) if form_of(column) == REAL]
    numbers = [_stacked(graph, [names[j] for j in reals])] if reals else []
    if times:
        microseconds = _stacked(graph, [names[j] for j in times])
        seconds = graph.add("Cast", microseconds, to=DOUBLE)
        seconds = graph.add("Div", seconds, np.array(MICROSECONDS))
        is_missing = graph.add("Equal", microseconds, np.array(MISSING_WHOLE))
        numbers.append(graph.add("Where", is_missing, np.array(np.nan), seconds))
    return Columns(
        numbers=graph.add("Concat", *numbers, axis=0) if numbers else "",
        row_of={j: row for row, j in enumerate(reals + times)},
        others={j: names[j] for j in range(len(lowered.inputs)) if j not in {*reals, *times}},
        offset=names[-1] if _offset(lowered) else None,
        any_column=names[0],
        missing_text=missing_text,
    )


def _stacked(graph: Graph, names: Sequence[str]) -> str:
    """Columns (n_rows, 1) as (n_columns, n_rows)."""
    return graph.add("Transpose", graph.add("Concat", *names, axis=1))


def _proto(onnx: Any, graph: Graph, entries: Sequence[Entry], results: Sequence[Result]) -> Any:
    """Graph as the message of ONNX."""
    helper = onnx.helper

    def described(name: str, dtype: Any, shape: list[Any], words: str = "") -> Any:
        code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return helper.make_tensor_value_info(name, code, shape, words)

    nodes = [
        helper.make_node(
            node.operator, node.inputs, node.outputs, node.outputs[0], domain=node.domain,
            **node.attributes,
        )
        for node in graph.nodes
    ]  # fmt: skip
    written = helper.make_graph(
        nodes,
        "tpnn",
        [described(x.name, NUMPY_TYPES[x.form], [ROWS, 1], x.words) for x in entries],
        [described(x.name, x.dtype, [ROWS, *x.columns]) for x in results],
        [onnx.numpy_helper.from_array(x, name) for name, x in graph.constants.items()],
    )
    domains = sorted({"", *(node.domain for node in graph.nodes)})
    opsets = [helper.make_opsetid(domain, OPERATOR_SETS[domain]) for domain in domains]
    version = helper.find_min_ir_version_for(opsets)
    return helper.make_model(
        written, opset_imports=opsets, ir_version=version, producer_name="tpnn"
    )
