"""The log of edits: a chain of records, and the digest of a model that they refer to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tpnn.model.model import AnovaModel


def digest(model: AnovaModel) -> str:
    """SHA-256 of link, intercepts, nodes, masses and values of all components, and remainder.

    Features that no component has do not count, so it is the same after saving and loading.
    """
    column = model.encoder.offset_column
    names, features = model.feature_names, model.encoder.features
    header: dict[str, Any] = {
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
    rest = model.remainder
    if rest is not None:
        header["remainder"] = [[names[j] for j in component] for component in rest.components]
    whole = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    _add(whole, model.intercepts)
    for component, table in zip(model.components, model.tables, strict=True):
        for axis in model.axes(component):
            whole.update(bytes([axis.has_missing, axis.has_unseen]))
            _add(whole, axis.values)
            _add(whole, axis.weights)
            _add(whole, np.empty(0) if axis.groups is None else axis.groups)
        _add(whole, table)
    for array in model.evidence.baseline or ():
        _add(whole, array)
    if rest is not None:
        for array in (rest.constants, *rest.tables, *rest.trees.arrays):
            _add(whole, array)
    return whole.hexdigest()


def _add(whole: Any, array: Any) -> None:
    """Add the size and the values of an array, as doubles of the same byte order everywhere."""
    whole.update(str(array.shape).encode() + np.ascontiguousarray(array, "<f8").tobytes())


PLACES = ("between", "levels", "missing", "output")


def edit_words(edit: Mapping[str, Any]) -> str:
    """Write an edit.

    >>> edit_words({"component": ["age"], "between": {"age": [18.0, 21.0]}, "add": 0.2})
    'age: add=0.2, between={"age": [18.0, 21.0]}'
    """
    changes = [key for key in edit if key not in ("component", *PLACES)]
    texts = [f"{key}={json.dumps(edit[key])}" for key in (*changes, *PLACES) if key in edit]
    return f"{' x '.join(edit['component'])}: {', '.join(texts)}"


FIRST = "0" * 64  # in place of the hash before the first record
MOST_EDITS = 1000
TEXTS = ("why", "by", "when", "version", "before", "after", "previous", "hash")
Record = dict[str, Any]


def record_hash(record: Mapping[str, Any]) -> str:
    """SHA-256 of a record without its own hash, as JSON with sorted keys."""
    rest = {key: value for key, value in record.items() if key != "hash"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def extended(records: Sequence[Record], record: Record) -> tuple[Record, ...]:
    """Chain with one more record."""
    previous = records[-1]["hash"] if records else FIRST
    linked = {"number": len(records) + 1, **record, "previous": previous}
    return (*records, linked | {"hash": record_hash(linked)})


def first_break(model: AnovaModel) -> str | None:
    """Say where the log of a model was tampered with; None where it is whole."""
    if model.edits is None:
        return None
    previous, state = FIRST, None
    for number, record in enumerate(model.edits.records, 1):
        if record["hash"] != record_hash(record):
            return f"record {number} was changed: its content does not have its hash"
        if record["previous"] != previous or record["number"] != number:
            return f"record {number} does not follow the one before: a record is missing or moved"
        if state is not None and record["before"] != state:
            return f"record {number} starts from another model than record {number - 1} left"
        previous, state = record["hash"], record["after"]
    if state != digest(model):
        return "the model is not the one that the last record left: it was changed without a record"
    return None


def check_log(model: AnovaModel) -> None:
    """Refuse a model whose log was tampered with."""
    fault = first_break(model)
    if fault is not None:
        raise ValueError(
            f"edits: the log of a model must be a whole chain, but {fault}. "
            "Load a file that is as it was saved."
        )


def check_records(records: Sequence[Record]) -> None:
    """Refuse records that do not have the form of a log, whatever they say."""
    if not 0 < len(records) <= MOST_EDITS:
        raise ValueError(f"a log must have 1 to {MOST_EDITS} records")
    for record in records:
        texts = all(isinstance(record.get(text), str) for text in TEXTS)
        edit = isinstance(record.get("edit"), dict)
        if not texts or not edit or type(record.get("number")) is not int:
            raise ValueError("every record of a log must have its fields")
        if not isinstance(record.get("changed"), dict):
            raise ValueError("every record of a log must say what it changed")
        if not isinstance(record.get("effect"), dict | None):
            raise ValueError("the effect of an edit must be known or null")
