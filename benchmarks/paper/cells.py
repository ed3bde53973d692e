"""Cells: one model on one split of one data set, and the line that is left of it."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

import tpnn
from benchmarks.common import stability
from benchmarks.common.cells import Cell, failure
from benchmarks.common.environment import commit, device, now, seconds, versions
from benchmarks.common.interface import Additive, Component, Model
from benchmarks.common.models.descent import Schedule
from benchmarks.common.models.nid import strongest_pairs
from benchmarks.common.scores import loss, prediction_scores
from benchmarks.common.stability import Decomposition, align, centred_scores
from benchmarks.paper import data as tables
from benchmarks.paper.models import QUICK, WIDE, Setting, build
from benchmarks.paper.results import Results
from benchmarks.paper.special import HOMES, measure_of
from tpnn import stability_scores
from tpnn._utils.arrays import FloatArray

N_PAIRS = {"microsoft": 300, "yahoo": 500, "madelon": 300}  # chosen by NID, as in the paper
CURVE_NODES = 41
CURVES = ("calhousing", "wine", "f1")  # data sets whose main effects are drawn
MOST_LISTED = 80  # components whose importance a line lists
PACKAGES = ("numpy", "torch", "scikit-learn", "interpret-core", "xgboost", "pygam")
# The paper's local example, recovered from its standardised features.
EXAMPLE = (-0.2378, -0.4450, 0.0036, -0.1531, 0.3814, -0.067, 0.5541, -0.1111)


def run_cell(cell: Cell, results: Results, quick: bool = False) -> dict[str, Any]:
    """Measure a cell and add its line; where the model failed, the line says how."""
    try:
        record = measure(cell, results, quick)
    except Exception as error:  # whatever another library raises is a result
        record = {"failed": failure(error)}
    line = {**cell._asdict(), **record, **_circumstances(), "date": now()}
    results.append(line)
    return line


def measure(cell: Cell, results: Results, quick: bool) -> dict[str, Any]:
    """Fit and test a model; keep its components where it has some."""
    if cell.data in HOMES:
        return measure_of(cell.data)(*cell, quick)
    if not any("features" in line and line["data"] == cell.data for line in results.read()):
        results.append(description(cell.data))
    whole, parts = tables.table(cell.data), tables.split(cell.data, cell.split, quick)
    pairs = chosen_pairs(cell.data, results, quick) if _needs_pairs(cell) else None
    model = build(cell.model, Setting(cell.data, whole.task, cell.split, pairs, quick))
    taken = seconds(lambda: model.fit(parts.training, parts.validation))
    scores = prediction_scores(whole.task, parts.test.y, model.raw_scores(parts.test.X))
    held_out = loss(whole.task, parts.validation.y, model.raw_scores(parts.validation.X))
    return {
        "config": {"n_train": len(parts.training.X), "label": whole.label, **_config(model)},
        "seconds": round(taken, 3),
        "scores": scores,
        "validation_loss": held_out,
        **(_additive(cell, model, results) if isinstance(model, Additive) else {}),
    }


def description(name: str) -> dict[str, Any]:
    """Return the line that tables and figures need of a data set, so that they never load it."""
    whole = tables.table(name)
    return {
        "data": name,
        "task": whole.task.kind,
        "label": whole.label,
        "features": whole.names,
        "nodes": [_rounded(curve_nodes(x)) for x in whole.X.T] if name in CURVES else [],
        **_circumstances(),
        "date": now(),
    }


def _needs_pairs(cell: Cell) -> bool:
    """Whether NID chooses the pairs; the default chooses its own."""
    family = cell.model.partition("-")[0]
    return cell.data in WIDE and family.endswith("2") and family != "tpnn2"


def chosen_pairs(name: str, results: Results, quick: bool = False) -> list[Component]:
    """Return the interactions of a wide data set, chosen by NID on the first split's rows.

    They are kept beside the lines, so that a later run takes the same.
    """
    path = results.pairs(name)
    if quick or not path.exists():
        parts, task = tables.split(name, 0, quick), tables.table(name).task
        count, plan = (5, QUICK) if quick else (N_PAIRS[name], Schedule())
        pairs = strongest_pairs(task, parts.training, parts.validation, count, plan)
        if quick:
            return pairs
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
    stability.write(results.components(cell), Decomposition(list(model.components), scores, {}))
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
    components, estimates = align([stability.read(path) for path in paths if path.exists()])
    scores = stability_scores(estimates).mean(-1)  # (C,)
    mains = {c[0]: score for c, score in zip(components, scores, strict=True) if len(c) == 1}
    by_feature = [mains.get(j, 0.0) for j in range(tables.table(data).X.shape[1])]
    return {
        "data": data,
        "model": model,
        "stability": float(scores.mean()),
        "stability_centred": float(centred_scores(estimates).mean()),
        "stability_mains": float(np.mean(list(mains.values()))),
        "by_feature": _rounded(by_feature[:MOST_LISTED]),
        "n_fits": len(estimates),
        **_circumstances(),
        "date": now(),
    }


def _rounded(values: Iterable[float]) -> list[float]:
    return [float(f"{value:.4g}") for value in values]


@lru_cache
def _circumstances() -> dict[str, Any]:
    """Return versions, processor and commit."""
    return {
        "versions": {"tpnn": tpnn.__version__, **versions(PACKAGES)},
        "python": platform.python_version(),
        "device": device(),
        "commit": commit(),
    }
