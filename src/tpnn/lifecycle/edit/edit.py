"""held_out_loss: the loss of a model on rows that it has not seen, by what it predicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from tpnn import __version__
from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import Component
from tpnn.anova.purify import moved
from tpnn.lifecycle.edit.apply import applied
from tpnn.lifecycle.edit.change import Named, read_edit
from tpnn.loss import formulas
from tpnn.loss.targets import checked_survival, refuse_masked
from tpnn.model.edit_log import MOST_EDITS, Record, check_log, digest, extended
from tpnn.model.model import AnovaModel, EditLog
from tpnn.table.columns import array_of

POWERS = {"poisson": 1.0, "gamma": 2.0}  # of the Tweedie deviance, by objective


def held_out_loss(model: AnovaModel, X: Any, y: Any, offset: Any = None) -> tuple[str, float]:
    """Name and mean of the loss that suits a model, on the rows given.

    The name is that of an objective, whose loss it is: "squared_error", "log_loss", "quantile",
    "poisson", "gamma", "tweedie" or "cox". The model knows its link, its provenance the rest.
    """
    raw = model.raw_scores(X, offset)
    if len(raw) == 0:
        raise ValueError("X: at least one row is needed, found none. Pass held-out rows.")
    name, losses = _losses(model, raw, y)
    return name, float(np.mean(losses))


def _losses(model: AnovaModel, raw: FloatArray, y: Any) -> tuple[str, FloatArray]:
    refuse_masked("y", y)
    task = None if model.provenance is None else model.provenance.task
    link = model.link.name
    if model.evidence.baseline is not None or task == "survival":
        times, events = checked_survival(y)
        _check_rows(times, raw)
        pairs, ones = np.column_stack([times, events]), np.ones((len(raw), 1))
        return "cox", formulas.cox_loss(pairs, raw[:, None], ones, np)
    if link in ("logit", "softmax"):
        codes = _codes(model, array_of(y).ravel().tolist())
        _check_rows(codes, raw)
        if link == "logit":
            return "log_loss", formulas.logistic_loss(codes, raw, None, np)
        return "log_loss", formulas.softmax_loss(np.eye(raw.shape[1])[codes], raw, None, np)
    truth = np.asarray(y, np.float64)
    truth = truth[:, 0] if truth.ndim == 2 and truth.shape[1] == 1 else truth
    _check_rows(truth, raw)
    return _number_losses(model, raw, truth)


def _number_losses(model: AnovaModel, raw: FloatArray, y: FloatArray) -> tuple[str, FloatArray]:
    settings = {} if model.provenance is None else model.provenance.settings
    objective: Any = settings.get("objective", "")
    named = dict(objective) if isinstance(objective, dict) else {"name": objective}
    name = named.get("name", "")
    if model.link.name == "log":
        power = named.get("power", POWERS.get(name, 1.0))
        loss = name if name in (*POWERS, "tweedie") else "poisson"
        return loss, formulas.tweedie_loss(y, raw, None, np, power)
    if model.link.name == "quantiles" or name in ("quantile", "absolute_error"):
        levels = np.array([float(n) for n in model.output_names] or [_level(named)])
        columns = model.link.inverse(raw).reshape(len(raw), -1)
        return "quantile", formulas.pinball_loss(y[:, None], columns, None, np, levels)
    return "squared_error", (y - raw) ** 2


def _level(named: dict[str, Any]) -> float:
    return float(np.ravel(named.get("levels", 0.5))[0])


def _codes(model: AnovaModel, labels: list[Any]) -> Any:
    classes = model.classes or tuple(range(max(model.n_outputs, 2)))
    numbers = {label: place for place, label in enumerate(classes)}
    codes = [numbers.get(label) for label in labels]
    if None in codes:
        raise ValueError(
            f"y: labels must be those of fit, {list(classes)[:5]}, found "
            f"{labels[codes.index(None)]!r}. Label the rows like those."
        )
    return np.array(codes, np.intp)


def _check_rows(y: Any, raw: FloatArray) -> None:
    if len(y) != len(raw) or (y.ndim == 2 and y.shape != raw.shape):
        raise ValueError(
            f"y: targets like those of fit are needed, one per row of X, found shape {y.shape} "
            f"for {len(raw)} rows. Pass X and y of the same length."
        )


LONGEST_TEXT = 10_000  # characters


@dataclass(frozen=True)
class Note:
    """Why a model is edited, by whom and when.

    Parameters
    ----------
    why, by : str
        Reason and name, as free text.
    when : str
        Time as in ISO 8601; now, if it is empty.
    """

    why: str = ""
    by: str = ""
    when: str = ""

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

    def loss(self, model: AnovaModel) -> tuple[str, float]:
        """Name and mean of the loss of a model."""
        return held_out_loss(model, self.X, self.y, self.offset)


def edited(
    model: AnovaModel,
    component: Named,
    change: Mapping[str, Any],
    note: Note,
    rows: HeldOut | None = None,
) -> AnovaModel:
    """Model after an edit, with one more record in its log.

    Parameters
    ----------
    model : AnovaModel
        The model, which stays as it is.
    component : str, int or sequence of them
        Feature or features.
    change : dict
        What to do and where.
    note : Note
        Why, by whom and when.
    rows : HeldOut, optional
        Rows to measure the effect on.
    """
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
    (name, old), (_, new) = rows.loss(before), rows.loss(after)
    n_rows = before.encoder.read(rows.X).n_rows
    return {"loss": name, "n_rows": n_rows, "before": old, "after": new}


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
