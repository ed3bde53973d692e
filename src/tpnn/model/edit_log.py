"""The log of edits: a chain of records, and the digest of a model that they refer to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import Component

if TYPE_CHECKING:
    from tpnn.model.model import AnovaModel


def digest(model: AnovaModel) -> str:
    """SHA-256 of everything that predictions and the names and values of components are made of.

    Features that the model does not depend on do not count, so it is the same after saving and
    loading.
    """
    whole = hashlib.sha256(json.dumps(_header(model), sort_keys=True).encode())
    _add(whole, model.intercepts)
    rest = model.remainder
    tables = [*zip(model.components, model.tables, strict=True), *_held(model).items()]
    for component, table in tables:
        for axis in model.axes(component):
            whole.update(bytes([axis.has_missing, axis.has_unseen]))
            _add(whole, axis.values)
            _add(whole, axis.weights)
            _add(whole, np.empty(0) if axis.groups is None else axis.groups)
        _add(whole, table)
    baseline = model.evidence.baseline
    if baseline is not None:
        for array in (baseline.times, baseline.log_hazard):
            _add(whole, array)
    if rest is not None:
        for array in (rest.constants, *rest.trees.arrays):
            _add(whole, array)
    return whole.hexdigest()


def _held(model: AnovaModel) -> dict[Component, FloatArray]:
    """Return what the trees hold of components of features that the model depends on."""
    rest, needed = model.remainder, set(map(model.feature_names.index, model.required_features))
    held = {} if rest is None else rest.held
    return {component: table for component, table in held.items() if needed.issuperset(component)}


def _header(model: AnovaModel) -> dict[str, Any]:
    """Text and structure of a model, for its digest."""
    encoder, names, rest = model.encoder, model.feature_names, model.remainder
    column = encoder.offset_column
    known = dict(zip(names, encoder.features, strict=True))
    baseline = model.evidence.baseline
    strata = (
        {}
        if baseline is None or baseline.starts is None
        else {"strata": [list(baseline.strata), baseline.starts.tolist()]}
    )
    return strata | {
        "link": model.link.name,
        "outputs": list(model.output_names),
        "classes": list(model.classes),
        "has_offset": model.has_offset,
        "offset_column": None if column is None else [column.name, column.is_exposure],
        "labels": encoder.labels,
        "features": [[name, *known[name]] for name in model.required_features],
        "components": model.component_names,
        "nodes": [[axis.levels for axis in model.axes(s)] for s in model.components],
        "has_baseline": baseline is not None,
        "remainder": rest
        and [[[names[j] for j in s] for s in _held(model)], [names[j] for j in rest.trees.asked]],
    }


def _add(whole: Any, array: Any) -> None:
    """Add the size and the values of an array, as doubles of the same byte order everywhere."""
    whole.update(str(array.shape).encode() + np.ascontiguousarray(array, "<f8").tobytes())


PLACES = ("between", "levels", "missing", "output")


def edit_words(edit: Mapping[str, Any]) -> str:
    """Write an edit.

    >>> edit_words({"component": ["age"], "between": {"age": [18.0, 21.0]}, "add": 0.2})
    'age: add=0.2, between={"age": [18.0, 21.0]}'
    >>> edit_words({"restrict": [["age"], ["age", "town"]]})
    'restricted to: age, age x town'
    """
    if "restrict" in edit:
        return f"restricted to: {', '.join(map(' x '.join, edit['restrict'])) or 'the intercept'}"
    if "merge" in edit:
        return f"mean of {len(edit['merge'])} models"
    changes = [key for key in edit if key not in ("component", *PLACES)]
    texts = [f"{key}={json.dumps(edit[key])}" for key in (*changes, *PLACES) if key in edit]
    return f"{' x '.join(edit['component'])}: {', '.join(texts)}"


FIRST = "0" * 64  # in place of the hash before the first record
MOST_EDITS = 1000
Record = dict[str, Any]


LONGEST_TEXT = 10_000  # characters


def check_text(name: str, text: Any) -> None:
    """Refuse what is no text, or too long to be kept."""
    if not isinstance(text, str) or len(text) > LONGEST_TEXT:
        raise ValueError(
            f"{name}: must be text of at most {LONGEST_TEXT} characters, found "
            f"{type(text).__name__}. Pass a sentence."
        )


@dataclass(frozen=True)
class Note:
    """Why a model is edited, by whom and when."""

    why: str = ""  # free text
    by: str = ""  # free text
    when: str = ""  # ISO 8601; now, if it is empty

    def as_dict(self) -> dict[str, str]:
        """Check the texts and fill in the time."""
        texts = {"why": self.why, "by": self.by, "when": self.when}
        for name, text in texts.items():
            check_text(name, text)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        when = self.when or now
        try:
            datetime.fromisoformat(when)
        except ValueError as error:
            raise ValueError(
                f"when: must be a time in ISO 8601, found {when!r}. Pass for example {now!r}."
            ) from error
        return texts | {"when": when}


def record_hash(record: Mapping[str, Any]) -> str:
    """SHA-256 of a record without its own hash, as JSON with sorted keys."""
    rest = {key: value for key, value in record.items() if key != "hash"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def extended(records: Sequence[Record], record: Record, what: str = "edit") -> tuple[Record, ...]:
    """Chain with one more record."""
    if len(records) >= MOST_EDITS:
        raise ValueError(
            f"{what}: the log of this model is full, with {MOST_EDITS} {what}s. Start from a model "
            f"without {what}s."
        )
    previous = records[-1]["hash"] if records else FIRST
    linked = {"number": len(records) + 1, **record, "previous": previous}
    return (*records, linked | {"hash": record_hash(linked)})


def first_break(model: AnovaModel) -> str | None:
    """Say where the log of a model was tampered with; None where it is whole."""
    if model.edits is None:
        return None
    records, formers = model.edits.records, model.edits.formers
    for record, former in zip(records[len(records) - len(formers) :], formers, strict=True):
        if digest(former) != record["before"]:
            return f"the model before edit {record['number']} is not the one that was edited"
    return _chain_break(records, digest(model))


def _chain_break(records: Sequence[Record], last: str) -> str | None:
    """Say where records are no chain that ends with a model of this digest."""
    previous, state = FIRST, None
    for number, record in enumerate(records, 1):
        if record["hash"] != record_hash(record):
            return f"record {number} was changed: its content does not have its hash"
        if record["previous"] != previous or record["number"] != number:
            return f"record {number} does not follow the one before: a record is missing or moved"
        if state is not None and record["before"] != state:
            return f"record {number} starts from another model than record {number - 1} left"
        for one in record["edit"].get("merge", ()):
            fault = _chain_break(one["edits"], one["model"]) if one["edits"] else None
            if fault is not None:
                return f"in the log of a merged model {fault}"
        previous, state = record["hash"], record["after"]
    if state != last:
        return "the model is not the one that the last record left: it was changed without a record"
    return None


def check_log(model: AnovaModel) -> None:
    """Refuse a model whose log was tampered with."""
    refuse(first_break(model))


def refuse(fault: str | None) -> None:
    """Raise the error of a log with a fault, if there is one."""
    if fault is not None:
        raise ValueError(
            f"edits: the log of a model must be a whole chain, but {fault}. "
            "Load a file that is as it was saved."
        )


def check_last_hash(model: AnovaModel, expected: str, argument: str) -> None:
    """Refuse a model whose log does not end with a record of this hash, or is not whole."""
    check_log(model)
    last = None if model.edits is None else model.edits.records[-1]["hash"]
    if last != expected:
        found = "no edits" if last is None else f"{last!r}"
        raise ValueError(
            f"{argument}: the last record of the log must have the hash {expected!r}, and it has "
            f"{found}. Somebody edited the model, or wrote another log: ask who keeps the file."
        )


Form = Any  # a type, a list of one form, a tuple of forms, or a dict of them
NAMES: Form = [str]
CHANGED: Form = {
    "intercept": ([float], [float]),
    "components": [(NAMES, float)],
    "removed": [NAMES],
    "shapes_lost": NAMES,
}
EFFECT: Form = {"loss": str, "n_rows": int, "before": float, "after": float}
TEXTS = ("why", "by", "when", "version", "before", "after", "previous", "hash")
RECORD: Form = {"number": int, "edit": {}, "changed": CHANGED} | dict.fromkeys(TEXTS, str)
MERGED: Form = {"model": str, "share": float, "edits": [RECORD]}
EDITS: dict[str, Form] = {"component": NAMES, "restrict": [NAMES], "merge": [MERGED]}


REVIEW: Form = {"number": int, "component": NAMES} | dict.fromkeys(
    ("expected", "found", "why", "by", "when", "model", "previous", "hash"), str
)


def check_reviews(records: Sequence[Record]) -> None:
    """Refuse reviews that are no chain, or do not have their form."""
    if not 0 < len(records) <= MOST_EDITS:
        raise ValueError(f"a log must have 1 to {MOST_EDITS} records")
    previous = FIRST
    for number, record in enumerate(records, 1):
        if not has_form(record, REVIEW):
            raise ValueError("every review must have its fields")
        linked = record["previous"] == previous and record["number"] == number
        if not linked or record["hash"] != record_hash(record):
            raise ValueError(f"review {number} was changed, or one before it is missing")
        previous = record["hash"]


def review_words(model: AnovaModel) -> list[tuple[str, str]]:
    """Component of each review of a model, and what was said of it; oldest first."""
    current, lines = digest(model) if model.reviews else "", []
    for one in model.reviews or ():
        parts = [one["why"], f"{one['expected']} expected: {one['found']}" * bool(one["expected"])]
        parts += [one["by"], one["when"]]
        parts += ["of an earlier version of the model"] * (one["model"] != current)
        lines.append((" x ".join(one["component"]), "; ".join(filter(None, parts))))
    return lines


def check_records(records: Sequence[Record]) -> None:
    """Refuse records that do not have the form of a log, whatever they say."""
    if not 0 < len(records) <= MOST_EDITS:
        raise ValueError(f"a log must have 1 to {MOST_EDITS} records")
    for record in records:
        if not has_form(record, RECORD):
            raise ValueError("every record of a log must have its fields")
        if record.get("effect") is not None and not has_form(record["effect"], EFFECT):
            raise ValueError("the effect of an edit must be known or null")
        kinds = [kind for kind in EDITS if kind in record["edit"]]
        if len(kinds) != 1 or not has_form(record["edit"][kinds[0]], EDITS[kinds[0]]):
            raise ValueError("every record of a log must say what it changed")
        for one in record["edit"].get("merge", ()):
            if one["edits"]:
                check_records(one["edits"])


def has_form(value: Any, form: Form) -> bool:
    """Whether a value of JSON has a form: a type, a list of one form, a tuple, or a dict.

    >>> has_form({"a": [1, 2.5], "b": 0}, {"a": [float]}), has_form(["a"], (str, str))
    (True, False)
    """
    if isinstance(form, dict):
        inside = isinstance(value, dict) and form.keys() <= value.keys()
        return inside and all(has_form(value[key], one) for key, one in form.items())
    if isinstance(form, list):
        return isinstance(value, list) and all(has_form(one, form[0]) for one in value)
    if isinstance(form, tuple):
        fits = isinstance(value, list) and len(value) == len(form)
        return fits and all(map(has_form, value, form))
    return type(value) is form or (form is float and type(value) is int)
