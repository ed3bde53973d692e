"""Runner: the cells of a spec that have no line yet, several at a time, and their lines."""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

import tpnn
from benchmarks.common import decompositions
from benchmarks.common.cells import Cell, Line, failure
from benchmarks.common.decompositions import Decomposition, align, centred_scores
from benchmarks.common.environment import commit, device, now, seconds, versions
from benchmarks.common.interface import Additive, Component, Model
from benchmarks.common.models.descent import Schedule
from benchmarks.common.models.nid import strongest_pairs
from benchmarks.common.pool import ignore_warnings, in_processes
from benchmarks.common.scores import loss, prediction_scores
from benchmarks.paper import coded
from benchmarks.paper.families import QUICK, WIDE, Setting, build
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
    whole, parts = coded.table(cell.data), coded.split(cell.data, cell.split, quick)
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
    whole = coded.table(name)
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
        parts, task = coded.split(name, 0, quick), coded.table(name).task
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
    points = coded.probes(cell.data)
    scores = model.component_scores(points)  # (n, C, n_outputs)
    decompositions.write(
        results.components(cell), Decomposition(list(model.components), scores, {})
    )
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
    X = coded.table(name).X
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
    X = coded.table("calhousing").X
    scaled = (X - X.mean(0)) / X.std(0)
    return np.asarray(X[np.abs(scaled - EXAMPLE).sum(1).argmin()][None])


def stability_line(
    data: str, model: str, splits: Iterable[int], results: Results
) -> dict[str, Any]:
    """Return the stability scores of a model over splits, from its components at the probes."""
    paths = [results.components(Cell(data, model, split)) for split in splits]
    components, estimates = align([decompositions.read(path) for path in paths if path.exists()])
    scores = stability_scores(estimates).mean(-1)  # (C,)
    mains = {c[0]: score for c, score in zip(components, scores, strict=True) if len(c) == 1}
    by_feature = [mains.get(j, 0.0) for j in range(coded.table(data).X.shape[1])]
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


def run(
    cells: Sequence[Cell],
    results: Results,
    jobs: int = 1,
    quick: bool = False,
    deadline: float = float("inf"),
) -> int:
    """Run what is missing; return the number of cells that failed.

    Parameters
    ----------
    cells : sequence of Cell
        What to run, in order.
    results : Results
        Where finished cells are kept; a cell that is there is not run again.
    jobs : int
        Processes.
    quick : bool
        Few rows and steps.
    deadline : float
        Seconds after which no cell is begun.
    """
    done = results.finished()
    missing = [cell for cell in dict.fromkeys(cells) if cell not in done]
    work = partial(_work, results=results, quick=quick, until=time.time() + deadline)
    failed = 0
    bar = tqdm(total=len(missing), unit="cell", smoothing=0.05, file=sys.stderr)
    for line in _lines(work, missing, jobs):
        failed += "failed" in line
        bar.set_postfix_str(_summary(line))
        bar.update()
        if "failed" in line:
            bar.write(_summary(line), file=sys.stderr)
    bar.close()
    return failed


def _lines(work: Callable[[Cell], Line], cells: Sequence[Cell], jobs: int) -> Iterable[Line]:
    if jobs == 1:
        return map(work, cells)
    return (future.result() for _, future in in_processes(work, cells, jobs))


def _work(cell: Cell, results: Results, quick: bool, until: float) -> Line:
    if time.time() > until:
        return {**cell._asdict(), "skipped": "no time left"}
    ignore_warnings()
    line = run_cell(cell, results, quick)
    torch.cuda.empty_cache()  # other processes share the card
    return line


def _summary(line: Line) -> str:
    cell = "{data} {model} split {split}".format(**line)
    if "failed" in line:
        return f"{cell}: {line['failed'][:200]}"
    return cell


def add_stability(cells: Iterable[Cell], results: Results, fewest: int = 2) -> None:
    """Add a line of stability scores for every data set and model that has new components."""
    known = {
        (line["data"], line["model"]): line["n_fits"]
        for line in results.read()
        if "stability" in line
    }
    splits: dict[tuple[str, str], list[int]] = {}
    for cell in dict.fromkeys(cells):
        if results.components(cell).exists():
            splits.setdefault((cell.data, cell.model), []).append(cell.split)
    for (data, model), found in splits.items():
        if len(found) >= fewest and len(found) > known.get((data, model), 0):
            results.append(stability_line(data, model, found, results))
