"""edited and undone: a model after an edit, and before its last one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from tpnn import __version__
from tpnn.anova.components import Component
from tpnn.anova.purify import moved
from tpnn.lifecycle.edit.apply import applied
from tpnn.lifecycle.edit.change import Named, read_edit
from tpnn.model.edit_log import MOST_EDITS, Record, check_log, digest, extended
from tpnn.model.model import AnovaModel, EditLog

LONGEST_TEXT = 10_000  # characters


@dataclass(frozen=True)
class Note:
    """Why a model is edited, by whom and when."""

    why: str = ""  # free text
    by: str = ""  # free text
    when: str = ""  # ISO 8601; now, if it is empty

    def as_dict(self) -> dict[str, str]:
        """Check the texts and fill in the time."""
        found = {"why": self.why, "by": self.by, "when": self.when}
        for name, text in found.items():
            if not isinstance(text, str) or len(text) > LONGEST_TEXT:
                raise ValueError(
                    f"{name}: must be text of at most {LONGEST_TEXT} characters, found "
                    f"{type(text).__name__}. Pass a sentence."
                )
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return found | {"when": self.when or now}


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


def edited(
    model: AnovaModel,
    component: Named,
    change: Mapping[str, Any],
    note: Note,
    rows: HeldOut | None = None,
) -> AnovaModel:
    """Model after an edit, with one more record in its log; the rows measure the effect."""
    check_log(model)
    edit, words = read_edit(model, component, change), note.as_dict()
    new = applied(model, edit)
    known = model.edits or EditLog(())
    if len(known.records) >= MOST_EDITS:
        raise ValueError(
            f"edit: a log has at most {MOST_EDITS} edits, found that it is full. "
            "Start from a model without edits."
        )
    record = {
        "edit": edit.record,
        **words,
        "version": __version__,
        "changed": changes(model, new),
        "effect": rows and _effect(model, new, rows),
        "before": digest(model),
        "after": digest(new),
    }
    is_whole = len(known.formers) == len(known.records)
    formers = (*known.formers, replace(model, edits=None)) if is_whole else ()
    return replace(new, edits=EditLog(extended(known.records, record), formers))


def _effect(before: AnovaModel, after: AnovaModel, rows: HeldOut) -> Record:
    """Loss on held-out rows before and after an edit."""
    return {
        "loss": before.task.told(rows.y).objective.name,
        "n_rows": before.encoder.read(rows.X).n_rows,
        "before": rows.loss(before),
        "after": rows.loss(after),
    }


def changes(before: AnovaModel, after: AnovaModel) -> Record:
    """Say what an edit changed: by how much each component, and what is no longer known."""
    named = zip(after.component_names, after.components, strict=True)
    sizes = [(list(names), _difference(before, after, s)) for names, s in named]
    return {
        "intercept": [before.intercepts.tolist(), after.intercepts.tolist()],
        "components": [[names, size] for names, size in sizes if size > 0],
        "removed": [list(n) for n in before.component_names if n not in after.component_names],
        "shapes_lost": sorted(set(before.shapes) - set(after.shapes)),
        "bands": "void for the components listed" if before.evidence.posteriors else "none",
    }


def _difference(before: AnovaModel, after: AnovaModel, component: Component) -> float:
    """Largest change of a value of a component at a node."""
    new, old = after.by_component()[component], before.by_component().get(component)
    if old is not None:
        new = new - moved(old, before.axes(component), after.axes(component))
    return float(np.abs(new).max(initial=0.0))


def undone(model: AnovaModel) -> AnovaModel:
    """Model before its last edit, bit for bit, with the log that it had."""
    check_log(model)
    log = model.edits
    if log is None or not log.formers:
        found = "none" if log is None else "a log without earlier versions, as JSON has it"
        raise ValueError(
            f"undo: a model with an edit is needed, found {found}. Load the file of an edited "
            "model that save has written."
        )
    records, formers = log.records[:-1], log.formers[:-1]
    rest = EditLog(records, formers) if records else None
    return replace(log.formers[-1], edits=rest)
