"""Stability under re-sampling beside other models: ``python -m benchmarks.truth.stability``.

Each fit to a re-sampled training set keeps the values of its components in a file; what has one is
not fitted again. The lines are a part of the page of the peers.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from benchmarks.common.cells import RESULTS, Line, pack, read
from benchmarks.common.data import TASKS, available, cut, load, ordinal
from benchmarks.common.decompositions import Decomposition, align, centred_scores
from benchmarks.common.decompositions import read as read_values
from benchmarks.common.decompositions import write as write_values
from benchmarks.common.environment import add_choice, machine, say, seconds, today
from benchmarks.common.interface import Additive, Rows, Split, Task
from benchmarks.common.markdown import markdown
from benchmarks.common.models.default_tpnn import DefaultTPNN
from benchmarks.common.models.ebm import EBM, purified_scores
from benchmarks.common.pool import in_processes
from benchmarks.common.scores import predictive_scores
from tpnn import Grow
from tpnn._utils.arrays import FloatArray

LINES, VALUES = RESULTS / "stability.jsonl", RESULTS / "stability-values"
DATA = ("calhousing", "fico_heloc", "abalone")  # the slowest first
ROWS = 2_000  # on which components are compared, drawn once from the whole data set
MEASURES = {"regression": "rmse", "binary": "log_loss"}
RIVAL = "ebm"
HALVES: dict[str, Any] = {"n_bags": 16, "validation_fraction": 0.5}  # bags of half the rows
SETTINGS: dict[str, dict[str, Any]] = {  # of tpnn; those of its solver are a dict of their own
    "tpnn": {},
    "tpnn-smooth": {"solver": {"growth": "smooth"}, **HALVES},
    "tpnn-start": {"solver": {"growth": "none"}, **HALVES},
    "tpnn-stable": {"order": 1, "solver": {"growth": "none", "l2": 1.0}},
    "tpnn-mains": {"order": 1},
}
INTRODUCTION = """## Stability

`python -m benchmarks.truth.stability` measures. Each model is fitted to {resamples} training sets,
the rows to fit of that many splits; its components are compared on 2,000 rows drawn once from the
whole data set. SC is the paper's stability score: with f^j the fits of a component and f their
mean, the mean over the rows of sum_j (f^j - f)^2 / sum_j (f^j)^2, averaged over the main effects,
or over all components that any fit has (one that a fit has not chosen is zero there). Every
component of every model is first centred to mean zero over those rows. Smaller is more stable; in
brackets, relative to `ebm`. The test error is the mean over the same splits. `ebm-purified` is
`ebm` with every pair purified under the product of the training marginals, which changes no
prediction: it is the decomposition that tpnn has by itself. `nam` and `na2m` are trained as the
paper says. {settings}."""

Fit = Callable[[Task, int, Split], Additive]


def _tpnn(settings: dict[str, Any], task: Task, seed: int, data: Split) -> Additive:
    solver = Grow(**settings["solver"]) if "solver" in settings else "auto"
    model = DefaultTPNN(task, seed=seed, **{**settings, "solver": solver})
    return model.fit(data.training, data.validation)


def _ebm(task: Task, seed: int, data: Split) -> Additive:
    return EBM(task, seed=seed).fit(data.training, data.validation)


def _nam(order: int, task: Task, seed: int, data: Split) -> Additive:
    from benchmarks.common.models.nam import nam

    return nam(task, order, seed=seed).fit(data.training, data.validation)


class Fitter(NamedTuple):
    """A fit, and the decompositions that it gives."""

    module: str  # that has to be installed
    names: tuple[str, ...]  # of the decompositions: as it is, and purified
    fit: Fit


FITTERS = (  # the slowest first
    Fitter("interpret", ("ebm", "ebm-purified"), _ebm),
    Fitter("torch", ("na2m",), partial(_nam, 2)),
    Fitter("torch", ("nam",), partial(_nam, 1)),
    *(Fitter("tpnn", (name,), partial(_tpnn, chosen)) for name, chosen in SETTINGS.items()),
)
MODELS = tuple(name for fitter in FITTERS for name in fitter.names)


class Cell(NamedTuple):
    """A data set, the number of the training set and that of the fitter."""

    data: str
    resample: int
    fitter: int


def path_of(data: str, resample: int, model: str) -> Path:
    """File of a model's components on one training set."""
    return VALUES / f"{data}-{resample}-{model}.npz"


@lru_cache(maxsize=1)
def coded(name: str) -> Rows:
    """Return features as finite floats and the target as a number or as class 0, 1, ..."""
    features, target = load(name)
    return Rows(ordinal(features), target)


def common_rows(name: str) -> FloatArray:
    """Draw rows on which every model is looked at, whatever it was fitted to."""
    X: FloatArray = coded(name).X
    return X[np.random.default_rng(0).permutation(len(X))[:ROWS]]


def measure(cell: Cell) -> str:
    """Fit, and write the values of all components and the test error; return a line about it."""
    fitter, task = FITTERS[cell.fitter], TASKS[cell.data]
    data, X = cut(coded(cell.data), cell.resample), common_rows(cell.data)
    fits: list[Additive] = []
    took = seconds(lambda: fits.append(fitter.fit(task, cell.resample, data)))
    raw = fits[0].raw_scores(data.test.X)[:, 0]
    predicted = raw if task.kind == "regression" else expit(raw)
    notes = {
        "error": predictive_scores(task, data.test.y, predicted)[MEASURES[task.kind]],
        "fit_seconds": took,
        "version": str(import_module(fitter.module).__version__),
        **machine(),
        "date": today(),
    }
    for name in fitter.names:
        values = _values(fits[0], name, data.fitted.X, X)
        found = Decomposition(list(fits[0].components), values, notes)
        write_values(path_of(cell.data, cell.resample, name), found)
    return f"{cell.data}, training set {cell.resample}, {', '.join(fitter.names)}: {took:.3g} s"


def _values(model: Additive, name: str, fitted: FloatArray, X: FloatArray) -> FloatArray:
    """Values of the components, (n_rows, n_components, 1), purified if the name says so."""
    if isinstance(model, EBM) and name.endswith("purified"):
        return purified_scores(model, fitted, X)[:, :, None]
    return model.component_scores(X)


def missing(data: Sequence[str], models: Iterable[str], resamples: int) -> list[Cell]:
    """Return the fits that are asked for, can be measured here and have no file yet."""
    cells = [
        Cell(name, resample, number)
        for name in filter(available, data)
        for number, fitter in enumerate(FITTERS)
        if set(fitter.names) & set(models) and _installed(fitter.module)
        for resample in range(resamples)
    ]
    return [
        cell
        for cell in cells
        if not all(path_of(*cell[:2], name).exists() for name in FITTERS[cell.fitter].names)
    ]


def _installed(module: str) -> bool:
    found = find_spec(module) is not None
    if not found:
        say(f"skipping {module}, not installed")
    return found


def summary(data: str, model: str, resamples: int) -> Line | None:
    """Return the line of a model on a data set; None until all its training sets are there."""
    paths = [path_of(data, resample, model) for resample in range(resamples)]
    if not all(path.exists() for path in paths):
        return None
    fits = list(map(read_values, paths))
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


def store(data: Sequence[str], resamples: int) -> None:
    """Replace the lines whose values are all here, and keep the others."""
    by_model = {(line["data"], line["model"]): line for line in read(LINES)}
    for name in data:
        for line in map(partial(summary, name, resamples=resamples), MODELS):
            if line is not None:
                by_model[name, line["model"]] = line
    pack(LINES, list(by_model.values()))


def section(lines: Sequence[Line]) -> str:
    """Return the part of the page of the peers."""
    table = [("data", "model", "components", "SC, mains", "SC, all", "error", "test error")]
    rival = {line["data"]: line for line in lines if line["model"] == RIVAL}
    for line in sorted(lines, key=lambda line: (line["data"], MODELS.index(line["model"]))):
        scores = (_score(line, rival.get(line["data"]), over) for over in ("mains", "all"))
        error = f"{np.mean(line['errors']):.4g}"
        count = str(line["n_components"])
        table.append((line["data"], line["model"], count, *scores, line["measure"], error))
    most = max(line["resamples"] for line in lines)
    settings = "; ".join(
        f"`{model}` is `{_described(chosen)}`" for model, chosen in SETTINGS.items() if chosen
    )
    introduction = INTRODUCTION.format(resamples=most, settings=settings)
    return f"{introduction}\n\n{markdown(table, padded=True)}"


def _score(line: Line, rival: Line | None, over: str) -> str:
    value = line[f"stability_{over}"]
    return f"{value:.3f}" + (f" ({value / rival[f'stability_{over}']:.2f})" if rival else "")


def _described(settings: Mapping[str, Any]) -> str:
    """Return settings of the estimator as keywords, with its solver as a call.

    >>> _described({"order": 1, "solver": {"growth": "none", "l2": 1.0}})
    "order=1, solver=Grow(growth='none', l2=1.0)"
    """
    return ", ".join(
        f"{name}=Grow({_described(chosen)})" if name == "solver" else f"{name}={chosen!r}"
        for name, chosen in settings.items()
    )


def main() -> None:
    """Measure what has no file yet, and write the lines."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.truth.stability", description=__doc__
    )
    add_choice(parser, "--data", DATA)
    add_choice(parser, "--models", MODELS)
    parser.add_argument("--resamples", type=int, default=10, metavar="J", help="10 by default")
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="fits at a time, 1 core each"
    )
    given = parser.parse_args()
    cells = missing(given.data, given.models, given.resamples)
    for cell, future in in_processes(measure, cells, given.jobs, one_core=True):
        error = future.exception()  # which stops no other fit
        say(f"{cell} failed: {error!r}" if error else future.result())
    store(given.data, given.resamples)


if __name__ == "__main__":
    main()
