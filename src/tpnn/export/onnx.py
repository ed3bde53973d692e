"""to_onnx: a file in the ONNX format that scores rows as the model does, in double precision."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tpnn._utils.files import write_file
from tpnn.export.checking import checked_lowering
from tpnn.export.lowering import Input, Lowered, input_of
from tpnn.export.onnx_graph import DOUBLE, OPERATOR_SETS, Graph, Node
from tpnn.export.onnx_places import MISSING_WHOLE, REAL, TEXT, WHOLE, Columns, form_of, is_time
from tpnn.export.onnx_results import Result, result_names, write_results
from tpnn.export.onnx_scores import write_scores
from tpnn.model.model import AnovaModel

ROWS = "rows"  # name of the axis of rows in the shapes of inputs and outputs
MISSING_TEXT = "<missing>"  # what stands for a missing value among text
MICROSECONDS = 1e6  # in a second
LARGEST_WHOLE = np.iinfo(np.int64).max
NUMPY_TYPES = {REAL: np.float64, WHOLE: np.int64, TEXT: np.object_}


class Entry(NamedTuple):
    """A value that is passed to the graph: its name there, the column, and the type of values."""

    name: str
    column: str
    form: str
    words: str


def to_onnx(model: AnovaModel, path: str | os.PathLike[str], contributions: bool) -> None:
    """Write a model in the ONNX format; docs/export.md says what it reads and gives back.

    Parameters
    ----------
    model : AnovaModel
        The model.
    path : str or path
        File to write.
    contributions : bool
        Whether the graph gives back the value of every component.
    """
    lowered = checked_lowering(model)
    names = result_names(lowered.link, contributions)
    missing_text = _free_name(MISSING_TEXT, {level for x in lowered.inputs for level in x.levels})
    entries = _entries(model, lowered, names, missing_text)
    graph = Graph([*names, *(entry.name for entry in entries)])
    columns = _columns(graph, lowered, [entry.name for entry in entries], missing_text)
    scores = write_scores(graph, lowered, columns)
    results = write_results(graph, lowered, scores, model.classes, contributions)
    for result in results:
        graph.add("Identity", result.value, output=result.name)
    facts = {
        "components": _json([grid.names for grid in lowered.grids]),
        "inputs": _json([entry._asdict() for entry in entries]),
        "link": lowered.link,
        "missing_text": missing_text,
        "outputs": _json(lowered.outputs),
    }
    onnx = _onnx()
    proto = _proto(onnx, graph, entries, results)
    onnx.helper.set_model_props(proto, facts)
    onnx.checker.check_model(proto, full_check=True)
    write_file(path, proto.SerializeToString())


def _onnx() -> Any:
    try:
        import onnx
        import onnx.checker
    except ImportError as error:
        raise ImportError(
            'to_onnx: needs onnx, which is not installed. pip install "tpnn[onnx]".'
        ) from error
    return onnx


def _entries(
    model: AnovaModel, lowered: Lowered, taken: Sequence[str], missing_text: str
) -> list[Entry]:
    """Values that the graph reads: the inputs of the model, then its offset."""
    known = lowered.inputs
    offset = _offset(lowered)
    if not known and not offset:  # a constant model still has to know the number of rows
        known = (input_of(model.encoder, 0),)
    columns = [x.name for x in known] + [entry.column for entry in offset]
    _check_unicode([*columns, *(level for x in known if x.is_text for level in x.levels)])
    names: list[str] = []
    for column in columns:
        is_free = column and column not in [*taken, *names]
        others = [*taken, *columns, *names]
        names.append(column if is_free else _free_name(column or "unnamed", others))
    entries = [*(_entry(x, missing_text) for x in known), *offset]
    return [entry._replace(name=name) for entry, name in zip(entries, names, strict=True)]


def _offset(lowered: Lowered) -> list[Entry]:
    """Offset of the rows, where there is one."""
    if lowered.offset is not None:
        name, is_exposure = lowered.offset
        return [Entry(name, name, REAL, "exposure" if is_exposure else "offset")]
    return [Entry("offset", "offset", REAL, "offset")] if lowered.needs_offset else []


def _entry(known: Input, missing_text: str) -> Entry:
    form = form_of(known)
    if form == TEXT:
        words = f"text, {missing_text!r} where missing"
    elif is_time(known):
        since = " since 1970 in UTC" if known.kind == "date" else ""
        words = f"microseconds{since}, {MISSING_WHOLE} where missing"
    elif form == WHOLE:
        _check_whole(known)
        words = f"whole number, {MISSING_WHOLE} where missing"
    else:
        words = "number, NaN where missing"
    return Entry(known.name, known.name, form, words)


def _check_unicode(texts: Iterable[str]) -> None:
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(
                f"model: names and levels must be valid Unicode to be exported, found {text!r}. "
                "Rename it before the fit."
            ) from None


def _check_whole(known: Input) -> None:
    for level in known.levels:
        if level != int(level) or not MISSING_WHOLE < level <= LARGEST_WHOLE:
            raise ValueError(
                f"model: levels beside one beyond 2**53 must be whole numbers of 64 bits to be "
                f"exported, found {level!r} in {known.name!r}. Make them strings before the fit."
            )


def _free_name(name: str, taken: Collection[Any]) -> str:
    """Name with as many underscores as make it new."""
    while name in taken:
        name += "_"
    return name


def _columns(graph: Graph, lowered: Lowered, names: Sequence[str], missing_text: str) -> Columns:
    """Columns that are separate inputs of the graph."""
    times = [j for j, known in enumerate(lowered.inputs) if is_time(known)]
    reals = [j for j, known in enumerate(lowered.inputs) if form_of(known) == REAL]
    parts = [_stacked(graph, [names[j] for j in reals])] if reals else []
    if times:
        parts.append(_seconds(graph, _stacked(graph, [names[j] for j in times])))
    return Columns(
        numbers=graph.add("Concat", *parts, axis=0) if parts else "",
        row_of={j: row for row, j in enumerate(reals + times)},
        others={j: names[j] for j in range(len(lowered.inputs)) if j not in {*reals, *times}},
        offset=names[-1] if _offset(lowered) else None,
        any_column=names[0],
        missing_text=missing_text,
    )


def _stacked(graph: Graph, names: Sequence[str]) -> str:
    """Columns (n_rows, 1) as (n_columns, n_rows)."""
    return graph.add("Transpose", graph.add("Concat", *names, axis=1))


def _seconds(graph: Graph, microseconds: str) -> str:
    """Numbers of microseconds as seconds, NaN where missing."""
    seconds = graph.add("Cast", microseconds, to=DOUBLE)
    seconds = graph.add("Div", seconds, np.array(MICROSECONDS))
    is_missing = graph.add("Equal", microseconds, np.array(MISSING_WHOLE))
    return graph.add("Where", is_missing, np.array(np.nan), seconds)


def _proto(onnx: Any, graph: Graph, entries: Sequence[Entry], results: Sequence[Result]) -> Any:
    """Graph as the message of ONNX."""
    helper = onnx.helper

    def described(name: str, dtype: Any, shape: list[Any], words: str = "") -> Any:
        code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return helper.make_tensor_value_info(name, code, shape, words)

    written = helper.make_graph(
        [_node(helper, node) for node in graph.nodes],
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


def _node(helper: Any, node: Node) -> Any:
    return helper.make_node(
        node.operator, node.inputs, node.outputs, node.outputs[0], domain=node.domain,
        **node.attributes,
    )  # fmt: skip


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
