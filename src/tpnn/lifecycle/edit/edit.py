"""edited, undone, replay: a model after an edit, before its last one, after those of a file.

The hashes of a log show that it is one chain, which anybody can compute anew. ``first_fault`` makes
every edit again from the model before it, and this must lead to the model after it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tpnn import __version__
from tpnn._utils.arrays import FloatArray
from tpnn._utils.files import write_file
from tpnn.anova.components import Component, resolve_interactions
from tpnn.anova.measure import moved
from tpnn.anova.shapes import SHAPES
from tpnn.lifecycle.edit.apply import applied
from tpnn.lifecycle.edit.change import Named, read_component, read_edit
from tpnn.lifecycle.merge import as_model
from tpnn.model.archive import without_twins
from tpnn.model.check import check_model
from tpnn.model.edit_log import (
    NAMES,
    Form,
    Note,
    Record,
    check_log,
    check_text,
    digest,
    extended,
    first_break,
    has_form,
)
from tpnn.model.model import AnovaModel, EditLog, restricted

EDITS_FORMAT, EDITS_VERSION = "tpnn-edits", 1
NOTES = ("why", "by", "when")
FILE: Form = {"format": str, "version": int, "edits": [{}]}


@dataclass(frozen=True)
class HeldOut:
    """Held-out rows, their targets and offsets, to measure the effect of an edit on."""

    X: Any
    y: Any
    offset: Any = None

    def loss(self, model: AnovaModel) -> float:
        """Mean loss of a model, by the loss of its task."""
        raw = model.raw_scores(self.X, self.offset)
        if len(raw) == 0:
            raise ValueError("X: at least one row is needed, found none. Pass held-out rows.")
        return model.task.loss(self.y, raw)


def held_out_rows(X: Any, y: Any, offset: Any = None) -> HeldOut | None:
    """Rows on which edits are measured, None where there are none."""
    if (X is None) != (y is None):
        raise ValueError(
            "X: the effect of an edit is measured on rows with targets, and only one of X and y "
            "was passed. Pass both, or neither."
        )
    return None if X is None else HeldOut(X, y, offset)


def edited(
    model: AnovaModel, what: Mapping[str, Any], note: Note, rows: HeldOut | None = None
) -> AnovaModel:
    """Model after an edit, with one more record in its log; the rows measure the effect."""
    check_log(model)
    (new, edit), notes = outcome(model, what), note.as_dict()
    try:
        check_model(new)
    except ValueError as error:
        raise ValueError(
            f"edit: the model after it must be one that can be saved and loaded, but {error}. "
            "Edit it by smaller numbers, or at fewer points."
        ) from error
    log = model.edits or EditLog(())
    record = {
        "edit": edit,
        **notes,
        "version": __version__,
        "changed": changes(model, new),
        "effect": rows
        and {
            "loss": model.task.told(rows.y).objective.name,
            "n_rows": model.encoder.read(rows.X).n_rows,
            "before": rows.loss(model),
            "after": rows.loss(new),
        },
        "before": digest(model),
        "after": digest(new),
    }
    formers = (*log.formers, replace(model, edits=None))
    return replace(new, edits=EditLog(extended(log.records, record), formers))


def review(
    model: Any, component: Named, *, expected: str = "", why: str = "", by: str = ""
) -> AnovaModel:
    """Model with one more review: what somebody expected of a component, and what was found.

    Predictions stay as they are. Reviews are kept in the file, each with the digest of the model
    that it is about. ``summary``, ``to_card``, reports and ``tpnn.validate`` show them.

    Parameters
    ----------
    model : AnovaModel, fitted estimator or loaded model
        The model; its ``reviews`` stay as they are.
    component : str, int or sequence of them
        Feature of a main effect, or features of an interaction, by name or index.
    expected : str, optional
        What was expected. A shape of a main effect, such as "increasing", is compared with the
        whole model along the feature; other words stand as they are.
    why, by : str, optional
        Comment, and who agreed.
    """
    frozen = as_model(model)
    names, found = frozen.feature_names, read_component(frozen, component)
    if found not in frozen.components.components:
        raise ValueError(
            f"component: must be one of the model, found {tuple(names[j] for j in found)}. It has "
            f"{frozen.component_names[:10]!r}."
        )
    check_text("expected", expected)
    record = {
        "component": [names[j] for j in found],
        "expected": expected,
        "found": _compared(frozen, found, expected),
        **Note(why, by).as_dict(),
        "model": digest(frozen),
    }
    return replace(frozen, reviews=extended(frozen.reviews or (), record, "review"))


def _compared(model: AnovaModel, component: Component, expected: str) -> str:
    """Say whether the whole model has a shape along the feature of a main effect."""
    feature, rest = component[0], model.remainder
    has_steps = model.encoder.axes[1][feature].has_steps
    if len(component) > 1 or expected not in SHAPES or not has_steps:
        return "not tested"
    if rest is not None and feature in rest.features:
        return "not tested, because the remainder depends on the feature"
    holds = model.certificate(model.feature_names[feature], expected).holds
    return "it holds for all inputs" if holds else "it does not hold"


def outcome(model: AnovaModel, what: Mapping[str, Any]) -> tuple[AnovaModel, Record]:
    """Model after an edit without a log, and the edit in the form of its record.

    ``what`` has the component and the keys of ``Change``, or "restrict" with the names of those
    components that stay.
    """
    if "restrict" not in what:
        change = {key: value for key, value in what.items() if key != "component"}
        edit = read_edit(model, what.get("component", ()), change)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused
            return applied(model, edit), edit.record
    if not has_form(what["restrict"], [NAMES]):
        raise ValueError(
            f"restrict: must be a list of components, each a list of features, found "
            f"{what['restrict']!r:.200}. Name those that stay."
        )
    known = dict(zip(model.component_names, model.components, strict=True))
    kept = [tuple(names) for names in what["restrict"]]
    unknown = [names for names in kept if names not in known]
    if unknown or len(what) > 1:
        raise ValueError(
            f"restrict: must be components of the model and nothing else, found {unknown[:3]}. "
            f"It has {model.component_names[:10]!r}."
        )
    return restricted(model, [known[names] for names in kept]), dict(what)


def with_components(model: AnovaModel, components: Iterable[Named]) -> AnovaModel:
    """Model of some components; one that was edited before notes it in its log."""
    names = model.feature_names
    listed = [[one] if isinstance(one, str | int) else one for one in components]
    found = resolve_interactions(listed, names, None, "components", fewest=1)
    what = {"restrict": [[names[feature] for feature in component] for component in found]}
    return outcome(model, what)[0] if model.edits is None else edited(model, what, Note())


def changes(before: AnovaModel, after: AnovaModel) -> Record:
    """Say what an edit changed: by how much each component, and what is no longer known."""
    sizes = [(list(names), _difference(before, after, names)) for names in after.component_names]
    return {
        "intercept": [before.intercepts.tolist(), after.intercepts.tolist()],
        "components": [[names, size] for names, size in sizes if size > 0],
        "removed": [list(n) for n in before.component_names if n not in after.component_names],
        "shapes_lost": sorted(set(before.shapes) - set(after.shapes)),
        "bands": "void for the components listed" if before.evidence.posteriors else "none",
    }


def _difference(before: AnovaModel, after: AnovaModel, names: tuple[str, ...]) -> float:
    """Largest change of a value of a component at a node; its features may have other numbers."""
    place, known = after.component_names.index(names), before.component_names
    new = after.tables[place]
    if names in known:
        old = known.index(names)
        axes = [
            model.axes(model.components.components[k])
            for model, k in ((before, old), (after, place))
        ]
        new = new - moved(before.tables[old], *axes)
    return float(np.abs(new).max(initial=0.0))


def undone(model: AnovaModel) -> AnovaModel:
    """Model before its last edit, bit for bit, with the log that it had."""
    check_log(model)
    log = model.edits
    if log is None or not log.formers:
        why = "has no edit" if log is None else "has no earlier version, as after merge or in JSON"
        raise ValueError(
            f"undo: this model {why}. Load the file of an edited model that save has written."
        )
    records, formers = log.records[:-1], log.formers[:-1]
    rest = EditLog(records, formers) if records else None
    return replace(log.formers[-1], edits=rest)


def replay(
    model: AnovaModel,
    path: str | os.PathLike[str],
    X: Any = None,
    y: Any = None,
    offset: Any = None,
) -> AnovaModel:
    """Apply all edits of a file; the same file and model give the same bits.

    Parameters
    ----------
    model : AnovaModel
        The model that the edits were made for, before the first of them.
    path : str or path
        A file that ``save_edits`` or a report page has written.
    X, y, offset : optional
        Held-out rows, on which the log states the loss before and after each edit.

    Returns
    -------
    AnovaModel
        The model after the last edit.
    """
    document, rows = read_edits(path), held_out_rows(X, y, offset)
    wanted = document.get("model")
    if wanted is not None and wanted != digest(model):
        raise ValueError(
            f"path: the edits of {os.fspath(path)!r} were made for another model: its digest "
            f"begins with {str(wanted)[:8]}, that of this model with {digest(model)[:8]}. Load the "
            'model that they were made for, or remove "model" from the file.'
        )
    return replayed(model, document["edits"], repr(os.fspath(path)), rows)


def replayed(
    model: AnovaModel, edits: Iterable[Mapping[str, Any]], source: str, rows: HeldOut | None = None
) -> AnovaModel:
    """Model after some edits; a fault names their source."""
    for number, one in enumerate(edits, 1):
        what = {key: value for key, value in one.items() if key not in NOTES}
        note = Note(**{key: one[key] for key in NOTES if key in one})
        try:
            model = edited(model, what, note, rows)
        except ValueError as error:
            raise ValueError(f"edit {number} of {source}: {error}") from error
    return model


def read_edits(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """Read an edit file and check its form."""
    try:
        document = json.loads(Path(path).read_bytes(), object_pairs_hook=without_twins)
        if not has_form(document, FILE) or document["format"] != EDITS_FORMAT:
            raise ValueError("a document of another form")
        if document["version"] > EDITS_VERSION:
            raise ValueError(f"version {document['version']}")
    except (RecursionError, TypeError, ValueError) as error:
        raise ValueError(
            f"path: {os.fspath(path)!r} is not an edit file of version {EDITS_VERSION} "
            f"({error!r}). Export the edits again."
        ) from error
    edits: Mapping[str, Any] = document
    return edits


def save_edits(model: AnovaModel, path: str | os.PathLike[str]) -> None:
    """Write the edits of a model as JSON; ``replay`` applies them to the model before the first.

    Those of a merged model are the ones that were made after it was merged.

    Parameters
    ----------
    model : AnovaModel
        A model with edits.
    path : str or path
        The file to write.
    """
    check_log(model)
    log = () if model.edits is None else model.edits.records
    records = [record for record in log if "merge" not in record["edit"]]
    document = {
        "format": EDITS_FORMAT,
        "version": EDITS_VERSION,
        "model": records[0]["before"] if records else digest(model),
        "edits": [record["edit"] | {key: record[key] for key in NOTES} for record in records],
    }
    write_file(path, (json.dumps(document, indent=1) + "\n").encode())


TOLERANCE = 1e-9  # of the largest value of a model; sums round differently on other processors


def first_fault(model: AnovaModel) -> str | None:
    """Say where the log of a model was tampered with, also within records; None if it is whole."""
    fault = first_break(model)
    if fault is not None or model.edits is None:
        return fault
    states = [*model.edits.formers, model]
    records = model.edits.records[len(model.edits.records) - len(model.edits.formers) :]
    for record, (before, after) in zip(records, pairwise(states), strict=True):
        if not _is_outcome(before, after, record):
            return (
                f"record {record['number']} says something else than what was done to the model "
                f"(tpnn {record['version']} wrote it)"
            )
    return None


def _is_outcome(before: AnovaModel, after: AnovaModel, record: Record) -> bool:
    """Whether an edit makes one model of another, and changed what its record says."""
    try:
        again, _ = outcome(before, record["edit"])
    except (KeyError, TypeError, ValueError):  # nobody could make this edit
        return False
    told, made = record["changed"], changes(before, after)
    names = [key for key in made if key not in ("intercept", "components")]
    return (
        _have_same_nodes(again, after)
        and _are_close(_values(again), _values(after))
        and all(told.get(name) == made[name] for name in names)
        and _are_close(_sizes(told), _sizes(made))
    )


def _have_same_nodes(one: AnovaModel, other: AnovaModel) -> bool:
    """Whether the features that both models depend on have the same nodes and masses."""
    places = [
        (one.feature_names.index(name), other.feature_names.index(name))
        for name in set(one.required_features) & set(other.required_features)
    ]
    pairs = [
        (axes[mine], other.encoder.axes[order][its])
        for order, axes in one.encoder.axes.items()
        for mine, its in places
    ]
    return all(
        np.array_equal(mine.values, its.values) and np.allclose(mine.weights, its.weights)
        for mine, its in pairs
    )


def _values(model: AnovaModel) -> dict[Any, FloatArray]:
    """Values that predictions are sums of, by names."""
    values: dict[Any, FloatArray] = dict(zip(model.component_names, model.tables, strict=True))
    remainder, names = model.remainder, model.feature_names
    if remainder is not None:
        held = zip(remainder.components.names(names), remainder.tables, strict=True)
        values |= {("held", component): table for component, table in held}
        values["trees"] = remainder.trees.values
    return {"intercept": model.intercepts, **values}


def _sizes(changed: Mapping[str, Any]) -> dict[Any, FloatArray]:
    """Numbers of what an edit changed, by names."""
    sizes = {tuple(names): np.array(size) for names, size in changed["components"]}
    return {"intercept": np.array(changed["intercept"]), **sizes}


def _are_close(one: Mapping[Any, FloatArray], other: Mapping[Any, FloatArray]) -> bool:
    """Whether arrays are the same but for rounding; one that is missing is all zeros."""
    both = {**one, **other}
    scale = max((np.abs(array).max(initial=0.0) for array in both.values()), default=0.0)
    return all(
        np.shape(one.get(name, array)) == array.shape
        and np.allclose(one.get(name, 0.0), other.get(name, 0.0), rtol=0, atol=TOLERANCE * scale)
        for name, array in both.items()
    )
