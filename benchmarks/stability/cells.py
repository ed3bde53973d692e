"""Cells of the comparison: one fit on one re-sampled training set, kept as a file of values."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.stability.data import common_rows, split
from benchmarks.stability.models import FITTERS, Seen
from evaluation.cells import Line
from evaluation.data import TASKS
from evaluation.environment import machine, seconds, today
from evaluation.scores import predictive_scores
from evaluation.stability import Decomposition, align, centred_scores, read, write

ROWS = 2_000  # on which components are compared, drawn once from the whole data set
MEASURES = {"regression": "rmse", "binary": "log_loss"}


class Fit(NamedTuple):
    """One fit: a data set, the number of the training set and that of the fitter."""

    data: str
    resample: int
    fitter: int

    def paths(self, folder: Path) -> dict[str, Path]:
        """Return the file of each decomposition that the fit gives, by the model's name."""
        names = FITTERS[self.fitter].names
        return {name: fit_path(folder, self.data, self.resample, name) for name in names}


def fit_path(folder: Path, data: str, resample: int, model: str) -> Path:
    """File of a model's components on one training set."""
    return folder / f"{data}-{resample}-{model}.npz"


def measure(fit: Fit, folder: Path) -> str:
    """Fit, and write the values of all components and the test error; return a line about it."""
    fitter, task = FITTERS[fit.fitter], TASKS[fit.data]
    data, X = split(fit.data, fit.resample), common_rows(fit.data, ROWS)
    found: dict[str, Seen] = {}
    took = seconds(lambda: found.update(fitter.fit(data, task, fit.resample, X)))
    for name, path in fit.paths(folder).items():
        scores = predictive_scores(task, data.test.y, found[name].predicted)
        notes = {
            "error": scores[MEASURES[task.kind]],
            "fit_seconds": took,
            "version": str(import_module(fitter.module).__version__),
            **machine(),
            "date": today(),
        }
        write(path, Decomposition(found[name].components, found[name].scores, notes))
    return f"{fit.data}, training set {fit.resample}, {', '.join(fitter.names)}: {took:.3g} s"


def summary(folder: Path, data: str, model: str, resamples: int) -> Line | None:
    """Return the line of a model on a data set; None until all its training sets are there."""
    paths = [fit_path(folder, data, resample, model) for resample in range(resamples)]
    if not all(path.exists() for path in paths):
        return None
    fits = list(map(read, paths))
    components, values = align(fits)
    scores = centred_scores(values)
    mains = np.array([len(component) == 1 for component in components])
    notes = [fit.notes for fit in fits]
    return {
        "data": data,
        "model": model,
        "resamples": resamples,
        "n_components": len(components),
        "stability_mains": float(scores[mains].mean()),
        "stability_all": float(scores.mean()),
        "measure": MEASURES[TASKS[data].kind],
        "errors": [note["error"] for note in notes],
        "fit_seconds": float(np.mean([note["fit_seconds"] for note in notes])),
        **{name: notes[-1][name] for name in ("version", "cpu", "cores", "date")},
    }
