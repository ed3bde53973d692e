"""write_results: operators of ONNX from raw scores to labels, predictions and contributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpnn.export.lowering import Lowered
from tpnn.export.onnx_graph import Graph
from tpnn.export.onnx_scores import Scores, without_refused
from tpnn.loss.links import CLASS_LINKS, LARGEST_SCORE

LABEL, PROBABILITIES, VARIABLE = "label", "probabilities", "variable"  # as skl2onnx calls them
RAW_SCORE, CONTRIBUTIONS = "raw_score", "contributions"


class Result(NamedTuple):
    """What a graph gives back.

    Parameters
    ----------
    name : str
        What users call it.
    value : str
        Name of the value in the graph, with rows on the first axis.
    columns : tuple of int
        Sizes of its other axes.
    dtype : dtype
        Type of its entries.
    """

    name: str
    value: str
    columns: tuple[int, ...]
    dtype: Any = np.float64


def result_names(link: str, contributions: bool) -> list[str]:
    """Names of all that a graph gives back."""
    means = [LABEL, PROBABILITIES] if link in CLASS_LINKS else [VARIABLE]
    return [*means, RAW_SCORE, *([CONTRIBUTIONS] if contributions else [])]


def write_results(
    graph: Graph, lowered: Lowered, scores: Scores, classes: Sequence[Any], contributions: bool
) -> list[Result]:
    """Write predictions, raw scores and, if asked for, contributions."""
    results = write_predictions(graph, lowered, scores, classes)
    results.append(Result(RAW_SCORE, scores.raw, (lowered.n_outputs,)))
    if contributions:
        results.append(_contributions(graph, lowered, scores))
    return results


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
        second = _expit(graph, raw)
        return add("Concat", add("Sub", np.array(1.0), second), second, axis=1)
    if link == "log":
        limit = np.array(LARGEST_SCORE)
        return add("Exp", add("Clip", raw, -limit, limit))
    return graph.add_sorted(raw, lowered.n_outputs) if link == "quantiles" else raw


def _expit(graph: Graph, raw: str) -> str:
    """Logistic function without overflow: a / (1 + e^-|f|), with a = 1 if f >= 0, else e^-|f|."""
    one = np.array(1.0)
    decay = graph.add("Exp", graph.add("Neg", graph.add("Abs", raw)))
    is_below = graph.add("Less", raw, np.array(0.0))
    share = graph.add("Where", is_below, decay, one)
    return graph.add("Div", share, graph.add("Add", decay, one))


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
    if not scores.effects:
        return _no_contributions(graph, lowered, scores)
    in_groups = add("Concat", *scores.effects, axis=1)
    effects = add("Gather", in_groups, scores.place_of, axis=1)
    if scores.refused is not None:
        effects = without_refused(graph, effects, add("Transpose", scores.refused))
    by_row = add("Transpose", effects, perm=[2, 1, 0])
    if lowered.n_outputs > 1:
        return Result(CONTRIBUTIONS, by_row, sizes)
    return Result(CONTRIBUTIONS, add("Reshape", by_row, np.array([0, -1])), sizes[:1])


def _no_contributions(graph: Graph, lowered: Lowered, scores: Scores) -> Result:
    """Contributions of a model without components, (n_rows, 0[, n_outputs])."""
    none, n_outputs = np.empty(0, np.int64), lowered.n_outputs
    if n_outputs == 1:
        return Result(CONTRIBUTIONS, graph.add("Gather", scores.raw, none, axis=1), (0,))
    raw = graph.add("Reshape", scores.raw, np.array([0, 1, n_outputs]))
    return Result(CONTRIBUTIONS, graph.add("Gather", raw, none, axis=1), (0, n_outputs))
