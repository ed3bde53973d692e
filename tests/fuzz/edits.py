"""Random edits, and edit files that nobody should write: clear errors, or models that live on."""

from __future__ import annotations

import json
import re
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.faults import argument_of
from tests.fuzz.laws import CLOSE, FOLDER, require
from tests.fuzz.outcome import Outcome, failure
from tpnn import AnovaModel, load
from tpnn.lifecycle.edit import digest, replay, save_edits
from tpnn.table.axis import Axis

SHAPES = ("increasing", "decreasing", "convex", "concave", "linear")
ODD_NUMBERS = (0.0, -0.0, 1e308, -1.7e308, 1e-320, 1e150)
HOSTILE = 0.6  # share of the files of which parts are replaced
OF_EDIT = re.compile(r"edit \d+ of '.*?': (.*)", re.DOTALL)


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
        if component is None:
            model = model.restrict(s for s in model.components if rng.random() < 0.9)
            continue
        try:
            model = model.edit(component, **edit)
        except ValueError:  # try_edits judges it
            continue
    return model


def try_edits(seed: int) -> Outcome:
    """Replay a file of random edits, of which parts may be odd."""
    from tests.fuzz.files import originals, replace_part

    originals_, rng = originals(), np.random.default_rng([seed, 5])
    data, table, _ = originals_[seed % len(originals_)]
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        warnings.simplefilter("ignore")
        path = Path(folder, "model")
        path.write_bytes(data)
        model = load(path).model_
        edits = [random_edit(model, rng) for _ in range(rng.integers(1, 4))]
        document = {"format": "tpnn-edits", "version": 1, "edits": edits}
        if rng.random() < HOSTILE:
            key = "edits" if rng.random() < 0.9 else str(rng.choice(list(document)))
            replace_part(document, key, rng)
        file = Path(folder, "edits.json")
        file.write_text(json.dumps(document))
        try:
            new = replay(model, file)
        except Exception as error:  # whatever is raised is judged here
            return _refused(seed, error)
        try:
            _check(model, new, table, Path(folder))
        except Exception as error:
            return failure(seed, error)
    return Outcome(seed, "edited")


def _refused(seed: int, error: Exception) -> Outcome:
    found = OF_EDIT.fullmatch(str(error))
    argument = argument_of(type(error)(found[1]) if found else error)
    return failure(seed, error) if argument is None else Outcome(seed, f"refused: {argument}")


def _check(before: AnovaModel, after: AnovaModel, table: Any, folder: Path) -> None:
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
