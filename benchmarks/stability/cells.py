"""Cells of the comparison: one fit on one re-sampled training set, kept as a file of values."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.environment import cores, processor
from benchmarks.measure import seconds
from benchmarks.peers.data import FloatArray, Split, Task, common_rows, split, task_of
from benchmarks.stability.models import FITTERS, Decomposition
from benchmarks.stability.score import centred_scores

ROWS = 2_000  # on which components are compared, drawn once from the whole data set


class Cell(NamedTuple):
    """One fit: a data set, the number of the training set and that of the fitter."""

    data: str
    resample: int
    fitter: int

    def paths(self, folder: Path) -> dict[str, Path]:
        """Return the file of each decomposition that the fit gives, by the model's name."""
        names = FITTERS[self.fitter].names
        return {name: cell_path(folder, self.data, self.resample, name) for name in names}


def cell_path(folder: Path, data: str, resample: int, model: str) -> Path:
    """File of a model's components on one training set."""
    return folder / f"{data}-{resample}-{model}.npz"


def measure(cell: Cell, folder: Path) -> str:
    """Fit, and write the values of all components and the test error; return a line about it."""
    fitter, task = FITTERS[cell.fitter], task_of(cell.data)
    data, X = split(cell.data, cell.resample), common_rows(cell.data, ROWS)
    found: dict[str, Decomposition] = {}
    time = seconds(lambda: found.update(fitter.fit(data, task, cell.resample, X)))
    for name, path in cell.paths(folder).items():
        header = {
            "components": found[name].components,
            "error": _error(task, data, found[name].predicted),
            "fit_seconds": time,
            "version": str(import_module(fitter.module).__version__),
            "cpu": processor(),
            "cores": cores(),
            "date": datetime.now(UTC).date().isoformat(),
        }
        values = found[name].values.astype(np.float32)
        partial = path.with_suffix(".partial.npz")  # so that an interrupted write leaves no cell
        np.savez_compressed(partial, values=values, header=json.dumps(header))
        partial.replace(path)
    return f"{cell.data}, training set {cell.resample}, {', '.join(fitter.names)}: {time:.3g} s"


def _error(task: Task, data: Split, predicted: FloatArray) -> float:
    """Root mean squared error, or mean log loss, of the test rows."""
    if task == "regression":
        return math.sqrt(((data.y_test - predicted) ** 2).mean())
    of_truth = np.where(data.y_test == 1, predicted, 1 - predicted)
    return float(-np.log(np.maximum(of_truth, 1e-15)).mean())


def summary(folder: Path, data: str, model: str, resamples: int) -> dict[str, Any] | None:
    """Return the line of a model on a data set; None until all its training sets are there."""
    paths = [cell_path(folder, data, resample, model) for resample in range(resamples)]
    if not all(path.exists() for path in paths):
        return None
    headers, values = zip(*map(_read, paths), strict=True)
    components, aligned = align([header["components"] for header in headers], values)
    scores = centred_scores(aligned)
    mains = np.array([len(component) == 1 for component in components])
    errors = [header["error"] for header in headers]
    return {
        "data": data,
        "model": model,
        "resamples": resamples,
        "n_components": len(components),
        "stability_mains": float(scores[mains].mean()),
        "stability_all": float(scores.mean()),
        "measure": "rmse" if task_of(data) == "regression" else "log_loss",
        "errors": errors,
        "fit_seconds": float(np.mean([header["fit_seconds"] for header in headers])),
        **{name: headers[-1][name] for name in ("version", "cpu", "cores", "date")},
    }


def _read(path: Path) -> tuple[dict[str, Any], NDArray[np.float32]]:
    with np.load(path) as file:
        return json.loads(str(file["header"])), file["values"]


def align(
    components: Sequence[Sequence[Sequence[int]]], values: Sequence[NDArray[np.float32]]
) -> tuple[list[tuple[int, ...]], FloatArray]:
    """Components that any fit has, and their values (n_fits, n, n_components).

    A component that a fit has not chosen is zero there.
    """
    keys = [[tuple(sorted(component)) for component in fitted] for fitted in components]
    union = sorted({key for fitted in keys for key in fitted}, key=lambda key: (len(key), key))
    aligned = np.zeros((len(values), len(values[0]), len(union)))
    for fit, (fitted, columns) in enumerate(zip(keys, values, strict=True)):
        aligned[fit][:, [union.index(key) for key in fitted]] = columns
    return union, aligned
