"""The models whose components are compared, each as values of its components on given rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from benchmarks.peers.data import FloatArray, Split, Task

HALVES: dict[str, Any] = {"n_bags": 16, "validation_fraction": 0.5}  # bags of half the rows
SETTINGS: dict[str, dict[str, Any]] = {  # of tpnn
    "tpnn": {},
    "tpnn-smooth": {"growth": "smooth", **HALVES},
    "tpnn-start": {"growth": "none", **HALVES},
    "tpnn-stable": {"order": 1, "growth": "none", "l2": 1.0},
    "tpnn-mains": {"order": 1},
}


class Decomposition(NamedTuple):
    """A fitted model on the rows where components are compared, and on the test rows.

    Parameters
    ----------
    components : list of tuple of int
        Features of each component.
    values : array of shape (n_rows, n_components)
        Values of the components.
    predicted : array of shape (n_test,)
        Expected target of the test rows.
    """

    components: list[tuple[int, ...]]
    values: FloatArray
    predicted: FloatArray


Fit = Callable[[Split, Task, int, FloatArray], dict[str, Decomposition]]


def _tpnn(
    name: str, settings: dict[str, Any], data: Split, task: Task, seed: int, X: FloatArray
) -> dict[str, Decomposition]:
    from tpnn import TPNNClassifier, TPNNRegressor

    estimator = TPNNRegressor if task == "regression" else TPNNClassifier
    model = estimator(random_state=seed, **settings).fit(data.X, data.y).model_
    components = [tuple(component) for component in model.components]
    return {name: Decomposition(components, model.component_scores(X), model.predict(data.X_test))}


def _ebm(data: Split, task: Task, seed: int, X: FloatArray) -> dict[str, Decomposition]:
    """Fit one model and look at it twice: as it is, and purified."""
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    if task == "regression":
        ebm = ExplainableBoostingRegressor(n_jobs=1, random_state=seed).fit(data.X, data.y)
        predicted = ebm.predict(data.X_test)
    else:
        ebm = ExplainableBoostingClassifier(n_jobs=1, random_state=seed).fit(data.X, data.y)
        predicted = ebm.predict_proba(data.X_test)[:, 1]
    terms, values = [tuple(term) for term in ebm.term_features_], ebm.eval_terms(X)
    tables = [np.asarray(table) for table in ebm.term_scores_]
    training, rows = _cells(ebm, data.X), _cells(ebm, X)
    pure = purified(terms, tables, training, rows)
    return {
        "ebm": Decomposition(terms, values, predicted),
        "ebm-purified": Decomposition(terms, pure, predicted),
    }


def _cells(ebm: Any, X: FloatArray) -> NDArray[np.intp]:
    """Cell of every term's table that each row falls into, (n_rows, n_terms).

    The model itself says so, once its scores are the numbers of their cells.
    """
    scores = ebm.term_scores_
    ebm.term_scores_ = [np.arange(table.size, dtype=float).reshape(table.shape) for table in scores]
    cells = np.asarray(ebm.eval_terms(X)).round().astype(np.intp)
    ebm.term_scores_ = scores
    return cells


def purified(
    terms: list[tuple[int, ...]],
    tables: list[FloatArray],
    training: NDArray[np.intp],
    rows: NDArray[np.intp],
) -> FloatArray:
    """Values of the components after purification of all pairs, (n_rows, n_terms).

    A pair loses its means along both axes under the product of the training marginals; the main
    effects get them, so that the sum of all components changes by a constant only.

    Parameters
    ----------
    terms : list of tuple of int
        Features of each term: every feature of a pair has a main effect.
    tables : list of array of shape (M,) or (M_1, M_2)
        Scores of each term.
    training, rows : arrays of shape (n_training, n_terms) and (n_rows, n_terms)
        Cell of each term that the rows fall into: of the rows that are the measure, and of those
        to evaluate.
    """
    values = np.column_stack([table.ravel()[rows[:, t]] for t, table in enumerate(tables)])
    for t, (term, table) in enumerate(zip(terms, tables, strict=True)):
        if len(term) == 1:
            continue
        mass = np.bincount(training[:, t], minlength=table.size).reshape(table.shape)
        mass = mass / mass.sum()
        along_first, along_second = table @ mass.sum(0), mass.sum(1) @ table
        first, second = np.unravel_index(rows[:, t], table.shape)
        values[:, t] -= along_first[first] + along_second[second]
        values[:, terms.index(term[:1])] += along_first[first]
        values[:, terms.index(term[1:])] += along_second[second]
    return values


def _nam(
    name: str, order: int, data: Split, task: Task, seed: int, X: FloatArray
) -> dict[str, Decomposition]:
    from benchmarks.stability.nam import NeuralAdditiveModel

    model = NeuralAdditiveModel(data.X.shape[1], order, seed)
    model.fit(data, task)
    raw = model.raw_scores(data.X_test)
    predicted = raw if task == "regression" else expit(raw)
    return {name: Decomposition(model.components, model.component_scores(X), predicted)}


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
