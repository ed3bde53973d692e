"""register: skl2onnx can convert pipelines that end in our estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier

from tpnn._utils.rules import optional, warn
from tpnn.estimators.classifier import TPNNClassifier
from tpnn.estimators.regressor import TPNNRegressor
from tpnn.export.lowering import Lowered, checked_lowering
from tpnn.export.onnx import PROBABILITIES, write_predictions, write_scores
from tpnn.export.onnx_graph import (
    DOUBLE,
    FLOAT,
    OPERATOR_SETS,
    REAL,
    Columns,
    Graph,
    form_of,
    is_time,
)
from tpnn.model.model import AnovaModel

CLASSIFIER_OPTIONS = {  # those that skl2onnx asks every classifier for
    "zipmap": [True, False, "columns"],
    "nocl": [True, False],
    "output_class_labels": [False, True],
}


def register() -> None:
    """Teach skl2onnx to convert ``TPNNRegressor`` and ``TPNNClassifier``, also inside pipelines.

    The estimator reads one array of shape (n_rows, n_columns), with the columns in the order of
    fit, and computes in double precision; declare the inputs of a pipeline as ``DoubleTensorType``
    to keep that precision throughout. Outputs are ``variable`` for regressors, and ``label`` and
    ``probabilities`` for classifiers. With ``options={"zipmap": False}`` these are an array in
    double precision; the maps that skl2onnx makes by default hold single precision only.
    """
    add = optional("skl2onnx", "register", "skl2onnx").update_registered_converter
    add(TPNNRegressor, "TPNNRegressor", _regressor_shapes, _convert)
    add(TPNNClassifier, "TPNNClassifier", _classifier_shapes, _convert, options=CLASSIFIER_OPTIONS)


def _regressor_shapes(operator: Any) -> None:
    from skl2onnx.common.data_types import DoubleTensorType

    n_outputs = len(operator.raw_operator.model_.intercepts)
    operator.outputs[0].type = DoubleTensorType([None, n_outputs])


def _classifier_shapes(operator: Any) -> None:
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType
    from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes

    calculate_linear_classifier_output_shapes(operator)
    kind = FloatTensorType if _has_maps(operator) else DoubleTensorType
    operator.outputs[1].type = kind([None, len(operator.raw_operator.classes_)])


def _has_maps(operator: Any) -> bool:
    """Whether probabilities become maps from labels to numbers."""
    options = operator.scope_inst.get_options(operator.raw_operator, {"zipmap": True}, fail=False)
    return bool(is_classifier(operator.raw_operator) and options["zipmap"] is True)


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Write one estimator into a graph of skl2onnx."""
    import onnx.helper
    from skl2onnx.common.utils_classifier import get_label_classes

    estimator = operator.raw_operator
    model: AnovaModel = estimator.model_
    lowered = checked_lowering(model)
    _check_pipeline(lowered)
    prefix = scope.get_unique_variable_name("tpnn")
    graph = Graph(scope.onnx_variable_names, prefix)
    columns = _columns(graph, model, lowered, [x.full_name for x in operator.inputs])
    scores = write_scores(graph, lowered, columns)
    classes = get_label_classes(scope, estimator).tolist() if model.classes else ()
    results = write_predictions(graph, lowered, scores, classes)
    for result, output in zip(results, operator.outputs, strict=True):
        if result.name == PROBABILITIES and _has_maps(operator):
            graph.add("Cast", result.value, output=output.full_name, to=FLOAT)
        else:
            graph.add("Identity", result.value, output=output.full_name)
    for name, values in graph.constants.items():
        code = onnx.helper.np_dtype_to_tensor_dtype(values.dtype)
        container.add_initializer(name, code, list(values.shape), values.ravel().tolist())
    for node in graph.nodes:
        container.add_node(
            node.operator, list(node.inputs), list(node.outputs), op_domain=node.domain,
            op_version=OPERATOR_SETS[node.domain], name=node.outputs[0], **node.attributes,
        )  # fmt: skip


def _check_pipeline(lowered: Lowered) -> None:
    for known in lowered.inputs:
        if form_of(known) != REAL:
            found = (
                "dates or durations" if is_time(known) else f"levels such as {known.levels[0]!r}"
            )
            raise ValueError(
                f"model: a model in a pipeline must read numbers to be converted, found {found} "
                f"in {known.name!r}. Encode them in a step before, or call model_.to_onnx."
            )
    if lowered.needs_offset:
        warn(
            "offset: a converted pipeline adds no offset, and this model was fitted with one that "
            "was passed to fit. Fit with the position of its column, or call model_.to_onnx."
        )


def _columns(graph: Graph, model: AnovaModel, lowered: Lowered, names: list[str]) -> Columns:
    """Columns of one array (n_rows, n_columns), or of several side by side."""
    add, column, kept = graph.add, model.encoder.offset_column, model.encoder.kept
    whole = add("Concat", *(add("Cast", name, to=DOUBLE) for name in names), axis=1)
    place_of = np.arange(model.encoder.n_features) if kept is None else np.array(kept.places)
    if column is not None:
        place_of += place_of >= column.place
    places = place_of[np.array([known.feature for known in lowered.inputs], np.intp)]
    offset = None if column is None else add("Gather", whole, np.array([column.place]), axis=1)
    return Columns(
        numbers=add("Gather", add("Transpose", whole), places, axis=0),
        row_of={j: j for j in range(len(places))},
        others={},
        offset=offset,
        any_column=whole,
    )
