"""Random edits, and what must hold of a model after them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.laws import CLOSE, require
from tpnn import AnovaModel, load
from tpnn.lifecycle.edit import digest, replay, save_edits
from tpnn.table.axis import Axis

SHAPES = ("increasing", "decreasing", "convex", "concave", "linear")
ODD_NUMBERS = (0.0, -0.0, 1e308, -1.7e308, 1e-320, 1e150)


def random_edit(model: AnovaModel, rng: np.random.Generator) -> dict[str, Any]:
    """Edit that a user may try, as a file has it."""
    components = [list(names) for names in model.component_names]
    if rng.random() < 0.05:
        kept = rng.random(len(components)) < 0.7
        return {
            "restrict": [names for names, is_kept in zip(components, kept, strict=True) if is_kept]
        }
    names = components[rng.integers(len(components))] if components else [model.feature_names[0]]
    edit = {"component": names, "why": "a reason", **_operation(model, names, rng)}
    for name in names:
        if rng.random() < 0.5 and not {"points", "shape", "without"} & set(edit):
            for key, value in _place(model, name, rng).items():
                edit.setdefault(key, {})[name] = value
    if model.output_names and rng.random() < 0.3:
        edit["output"] = str(rng.choice(model.output_names))
    return edit


def _operation(model: AnovaModel, names: list[str], rng: np.random.Generator) -> dict[str, Any]:
    number = float(rng.choice(ODD_NUMBERS) if rng.random() < 0.1 else rng.normal())
    axis = model.encoder.axes[1][model.feature_names.index(names[0])]
    operations: list[dict[str, Any]] = [
        {"add": number}, {"set": number}, {"scale": number}, {"limit": [-abs(number), None]},
        {"flatten": True}, {"smooth": float(rng.uniform(0.01, 1))},
        {"points": [[x, number] for x in set(_numbers(axis, rng))]},
        {"shape": str(rng.choice(SHAPES))}, {"without": True},
    ]  # fmt: skip
    return operations[rng.integers(len(operations))]


def _numbers(axis: Axis, rng: np.random.Generator) -> list[float]:
    """Two numbers within or beyond the nodes of an axis, in order."""
    nodes = axis.values if len(axis.values) else np.zeros(1)
    picked = rng.choice(nodes, 2) + rng.choice([0.0, 0.5, -1e-9, 1e9], 2)
    return sorted(picked.tolist())


def _place(model: AnovaModel, name: str, rng: np.random.Generator) -> dict[str, Any]:
    feature = model.feature_names.index(name)
    axis, known = model.encoder.axes[1][feature], model.encoder.features[feature]
    if rng.random() < 0.2:
        return {"missing": True}
    if not known.levels:
        return {"between": _numbers(axis, rng)}
    size = min(len(known.levels), 3)
    return {"levels": [known.levels[i] for i in rng.choice(len(known.levels), size)]}


def edited_often(model: AnovaModel, rng: np.random.Generator) -> AnovaModel:
    """Model after those of a few random edits that are possible."""
    for _ in range(rng.integers(1, 4)):
        edit = random_edit(model, rng)
        component = edit.pop("component", None)
        if component is None and model.edits is None:
            continue  # without a log, as after a fit, restrict gives a model that has none
        if component is None:
            model = model.restrict(s for s in model.components if rng.random() < 0.9)
            continue
        try:
            model = model.edit(component, **edit)
        except ValueError:  # the fuzzer of edit files judges it
            continue
    return model


def check_edited(before: AnovaModel, after: AnovaModel, table: Any, folder: Path) -> None:
    """Check that an edited model can be read, undone and made again."""
    zeros = np.zeros(int(getattr(table, "shape", (len(table),))[0]))
    raw = after.raw_scores(table, zeros)
    require(np.isfinite(raw).all(), "raw scores after edits are finite")
    require(after.identifiability_error() < CLOSE if len(after.components) else True, "uniqueness")
    after.save(folder / "edited")
    loaded = load(folder / "edited").model_
    require(digest(loaded) == digest(after), "an edited model is saved")
    require(np.array_equal(loaded.raw_scores(table, zeros), raw), "and predicts the same bits")
    records = loaded.log()
    require(records == after.log(), "the log is whole")
    old = [] if before.edits is None else before.log()
    back = loaded
    for _ in range(len(records) - len(old)):
        back = back.undo()
    require(digest(back) == digest(before), "undo gives the old model")
    if before.edits is None:
        save_edits(loaded, folder / "again.json")
        require(digest(replay(before, folder / "again.json")) == digest(after), "replay")
