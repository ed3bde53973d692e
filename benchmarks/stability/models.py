"""The models whose components are compared, each as its components on given rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from scipy.special import expit

from evaluation.interface import Additive, Component, Split, Task
from evaluation.models.default_tpnn import DefaultTPNN
from evaluation.models.ebm import EBM, purified_scores
from tpnn import Grow
from tpnn._utils.arrays import FloatArray

HALVES: dict[str, Any] = {"n_bags": 16, "validation_fraction": 0.5}  # bags of half the rows
SETTINGS: dict[str, dict[str, Any]] = {  # of tpnn; those of its solver are a dict of their own
    "tpnn": {},
    "tpnn-smooth": {"solver": {"growth": "smooth"}, **HALVES},
    "tpnn-start": {"solver": {"growth": "none"}, **HALVES},
    "tpnn-stable": {"order": 1, "solver": {"growth": "none", "l2": 1.0}},
    "tpnn-mains": {"order": 1},
}


class Seen(NamedTuple):
    """A fitted model on the rows where components are compared, and on the test rows.

    Parameters
    ----------
    components : list of tuple of int
        Features of each component.
    scores : array of shape (n_rows, n_components, 1)
        Values of the components.
    predicted : array of shape (n_test,)
        Expected target of the test rows.
    """

    components: list[Component]
    scores: FloatArray
    predicted: FloatArray


Fit = Callable[[Split, Task, int, FloatArray], dict[str, Seen]]


def _tpnn(
    name: str, settings: dict[str, Any], data: Split, task: Task, seed: int, X: FloatArray
) -> dict[str, Seen]:
    solver = Grow(**settings["solver"]) if "solver" in settings else "auto"
    model = DefaultTPNN(task, seed=seed, **{**settings, "solver": solver})
    model.fit(data.training, data.validation)
    return {name: _seen(model, task, data, X)}


def _seen(model: Additive, task: Task, data: Split, X: FloatArray) -> Seen:
    raw = model.raw_scores(data.test.X)[:, 0]
    predicted = raw if task.kind == "regression" else expit(raw)
    return Seen(list(model.components), model.component_scores(X), predicted)


def _ebm(data: Split, task: Task, seed: int, X: FloatArray) -> dict[str, Seen]:
    """Fit one model and look at it twice: as it is, and purified."""
    model = EBM(task, seed=seed).fit(data.training, data.validation)
    seen = _seen(model, task, data, X)
    pure = purified_scores(model, data.fitted.X, X)[:, :, None]
    return {"ebm": seen, "ebm-purified": seen._replace(scores=pure)}


def _nam(
    name: str, order: int, data: Split, task: Task, seed: int, X: FloatArray
) -> dict[str, Seen]:
    from evaluation.models.nam import nam

    model = nam(task, order, seed=seed).fit(data.training, data.validation)
    return {name: _seen(model, task, data, X)}


class Fitter(NamedTuple):
    """A library, the names of the decompositions that one fit gives, and the fit."""

    module: str
    names: tuple[str, ...]
    fit: Fit


FITTERS = (  # the slowest first
    Fitter("interpret", ("ebm", "ebm-purified"), _ebm),
    Fitter("torch", ("na2m",), partial(_nam, "na2m", 2)),
    Fitter("torch", ("nam",), partial(_nam, "nam", 1)),
    *(Fitter("tpnn", (name,), partial(_tpnn, name, chosen)) for name, chosen in SETTINGS.items()),
)
MODELS = tuple(name for fitter in FITTERS for name in fitter.names)
