"""Cells: one model on one split of one data set, and the line that is left of it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from fcntl import LOCK_EX, flock
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tpnn
from experiments import data as tables
from experiments.baselines.descent import Schedule
from experiments.baselines.interface import Additive, Component, FloatArray, Model
from experiments.baselines.nid import strongest_pairs
from experiments.models import QUICK, WIDE, Setting, build
from experiments.scores import loss, prediction_scores
from experiments.special import HOMES, measure_of
from tpnn import stability_scores

FOLDER = Path(__file__).parent / "results"
N_PAIRS = {"microsoft": 300, "yahoo": 500, "madelon": 300}  # chosen by NID, as in the paper
CURVE_NODES = 41
CURVES = ("calhousing", "wine", "f1")  # data sets whose main effects are drawn
MOST_LISTED = 80  # components whose importance a line lists
PACKAGES = ("numpy", "torch", "scikit-learn", "interpret-core", "xgboost", "pygam")
# The paper's local example, recovered from its standardised features.
EXAMPLE = (-0.2378, -0.4450, 0.0036, -0.1531, 0.3814, -0.067, 0.5541, -0.1111)


class Cell(NamedTuple):
    """What one line is about."""

    data: str
    model: str
    split: int


class Results:
    """Lines of finished cells in a folder, and the components behind the stability scores.

    Parameters
    ----------
    folder : Path
        Lines are appended to ``lines.jsonl``; lines of all files ``*.jsonl`` are read. Components
        go to ``components``, which is not kept in the repository.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def read(self) -> list[dict[str, Any]]:
        """Return all lines; a line that a kill has cut short is not there."""
        found = []
        for path in sorted(self.folder.glob("*.jsonl")):
            for line in path.read_text().splitlines():
                try:
                    found.append(json.loads(line))
                except json.JSONDecodeError:
                    continue
        return found

    def append(self, record: dict[str, Any]) -> None:
        """Add a line, whole, whatever other processes do."""
        with (self.folder / "lines.jsonl").open("a") as file:
            flock(file, LOCK_EX)
            file.write(json.dumps(record) + "\n")

    def finished(self) -> set[Cell]:
        """Return the cells that need not be run again."""
        return {
            Cell(line["data"], line["model"], line["split"])
            for line in self.read()
            if "scores" in line
        }

    def components(self, cell: Cell) -> Path:
        """Return where a cell keeps its components at the probes."""
        return self.folder / "components" / cell.data / cell.model / f"{cell.split}.npy"


def run_cell(cell: Cell, results: Results, quick: bool = False) -> dict[str, Any]:
    """Measure a cell and add its line; where the model failed, the line says how."""
    try:
        record = measure(cell, results, quick)
    except Exception as error:  # whatever another library raises is a result
        record = {"failed": f"{type(error).__name__}: {' '.join(str(error).split())}"}
    line = {**cell._asdict(), **record, **_circumstances()}
    results.append(line)
    return line


def measure(cell: Cell, results: Results, quick: bool) -> dict[str, Any]:
    """Fit and test a model; keep its components where it has some."""
    if cell.data in HOMES:
        return measure_of(cell.data)(*cell, quick)
    whole, parts = tables.table(cell.data), tables.split(cell.data, cell.split, quick)
    screened = cell.data in WIDE and _order(cell.model) == 2
    pairs = chosen_pairs(cell.data, quick) if screened else None
    model = build(cell.model, Setting(cell.data, whole.task, cell.split, pairs, quick))
    began = time.perf_counter()
    model.fit(parts.training, parts.validation)
    seconds = time.perf_counter() - began
    scores = prediction_scores(whole.task, parts.test.y, model.raw_scores(parts.test.X))
    held_out = loss(whole.task, parts.validation.y, model.raw_scores(parts.validation.X))
    return {
        "config": {"n_train": len(parts.training.X), "label": whole.label, **_config(model)},
        "seconds": round(seconds, 3),
        "scores": scores,
        "validation_loss": held_out,
        **(_additive(cell, model, results) if isinstance(model, Additive) else {}),
    }


def _order(model: str) -> int:
    return 2 if model.partition("-")[0].endswith("2") else 1


def chosen_pairs(name: str, quick: bool = False) -> list[Component]:
    """Return the interactions of a wide data set, chosen by NID on the first split's rows."""
    path = tables.CACHE / f"{name}_pairs.json"
    if quick or not path.exists():
        parts, task = tables.split(name, 0, quick), tables.table(name).task
        count, plan = (5, QUICK) if quick else (N_PAIRS[name], Schedule())
        pairs = strongest_pairs(task, parts.training, parts.validation, count, plan)
        if quick:
            return pairs
        tables.CACHE.mkdir(exist_ok=True)
        path.write_text(json.dumps(pairs))
    return [(first, second) for first, second in json.loads(path.read_text())]


def _config(model: Model) -> dict[str, Any]:
    """Return what was chosen on validation rows."""
    names = ("epoch", "penalty")
    return {name: getattr(model, name) for name in names if hasattr(model, name)}


def _additive(cell: Cell, model: Additive, results: Results) -> dict[str, Any]:
    """Keep the components at the probes, and list what tables and figures show of them."""
    points = tables.probes(cell.data)
    scores = model.component_scores(points)  # (n, C, n_outputs)
    path = results.components(cell)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, scores.astype(np.float32).reshape(len(points), -1))
    record: dict[str, Any] = {"n_components": len(model.components)}
    if len(model.components) <= MOST_LISTED:
        sizes = np.abs(scores - scores.mean(0)).mean((0, 2))
        record["components"] = model.components
        record["importance"] = _rounded(np.abs(scores).mean((0, 2)))
        record["importance_centred"] = _rounded(sizes)
    if cell.data in CURVES and cell.split < 5:
        record["curves"] = curves(model, cell.data)
    if cell.data == "calhousing" and cell.split == 0:
        record["example"] = _rounded(model.component_scores(example_row())[0].sum(-1))
    return record


def curves(model: Additive, name: str) -> list[list[float]]:
    """Return every main effect at ``curve_nodes``, the first output where there are several."""
    X = tables.table(name).X
    typical = np.median(X, axis=0)
    values = []
    for feature in range(X.shape[1]):
        rows = np.tile(typical, (CURVE_NODES, 1))
        rows[:, feature] = curve_nodes(X[:, feature])
        scores = model.component_scores(rows)[:, model.components.index((feature,)), 0]
        values.append(_rounded(scores))
    return values


def curve_nodes(column: FloatArray) -> FloatArray:
    """Return the quantiles of a feature at which main effects are drawn."""
    return np.quantile(column, np.linspace(0.005, 0.995, CURVE_NODES))


def example_row() -> FloatArray:
    """Return the row of California housing that the paper explains, shape (1, 8)."""
    X = tables.table("calhousing").X
    scaled = (X - X.mean(0)) / X.std(0)
    return np.asarray(X[np.abs(scaled - EXAMPLE).sum(1).argmin()][None])


def stability_line(
    data: str, model: str, splits: Iterable[int], results: Results
) -> dict[str, Any]:
    """Return the stability scores of a model over splits, from its components at the probes."""
    paths = [results.components(Cell(data, model, split)) for split in splits]
    found = [path for path in paths if path.exists()]
    estimates = np.stack([np.load(path).astype(np.float64) for path in found])  # (R, n, C)
    scores = stability_scores(estimates)
    centred = stability_scores(estimates - estimates.mean(1, keepdims=True))
    task, n_features = tables.table(data).task, tables.table(data).X.shape[1]
    mains = n_features * task.n_outputs
    return {
        "data": data,
        "model": model,
        "stability": float(scores.mean()),
        "stability_centred": float(centred.mean()),
        "stability_mains": float(scores[:mains].mean()),
        "by_feature": _rounded(scores[:mains].reshape(n_features, -1).mean(1))[:MOST_LISTED],
        "n_fits": len(found),
        **_circumstances(),
    }


def _rounded(values: FloatArray) -> list[float]:
    return [float(f"{value:.4g}") for value in values]


@lru_cache
def _circumstances() -> dict[str, Any]:
    """Return versions, processor, commit and date."""
    return {
        "versions": {
            "tpnn": tpnn.__version__,
            **{name: found for name in PACKAGES if (found := _version(name))},
        },
        "python": platform.python_version(),
        "device": _device(),
        "commit": _commit(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _device() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


def _commit() -> str:
    if "EXPERIMENTS_COMMIT" in os.environ:  # where the code travels without its repository
        return os.environ["EXPERIMENTS_COMMIT"]
    asked = ["git", "describe", "--always", "--dirty"]
    try:
        answer = subprocess.run(
            asked, capture_output=True, text=True, check=True, cwd=FOLDER.parent
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return answer.stdout.strip()
