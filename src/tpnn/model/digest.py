"""digest: the SHA-256 of everything in a model that its predictions are made of."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tpnn.model.model import AnovaModel


def digest(model: AnovaModel) -> str:
    """SHA-256 of link, intercepts, and the nodes, masses and values of all components.

    Features that no component has do not count, so it is the same after saving and loading.
    """
    column = model.encoder.offset_column
    names, features = model.feature_names, model.encoder.features
    words: dict[str, Any] = {
        "link": model.link.name,
        "outputs": list(model.output_names),
        "classes": list(model.classes),
        "has_offset": model.has_offset,
        "offset_column": None if column is None else [column.name, column.is_exposure],
        "components": [
            [[names[j], features[j].kind, list(features[j].levels)] for j in component]
            for component in model.components
        ],
    }
    whole = hashlib.sha256(json.dumps(words, sort_keys=True).encode())
    _add(whole, model.intercepts)
    for component, table in model.by_component().items():
        for axis in model.axes(component):
            whole.update(bytes([axis.has_missing, axis.has_unseen]))
            _add(whole, axis.values[: axis.n_regular])
            _add(whole, axis.weights)
            _add(whole, np.empty(0) if axis.groups is None else axis.groups)
        _add(whole, table)
    if model.baseline is not None:
        for array in model.baseline:
            _add(whole, array)
    return whole.hexdigest()


def _add(whole: Any, array: Any) -> None:
    """Add the size and the values of an array, as doubles of the same byte order everywhere."""
    whole.update(str(array.shape).encode() + np.ascontiguousarray(array, "<f8").tobytes())
