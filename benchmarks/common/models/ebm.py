"""EBM, the explainable boosting machine of InterpretML; its pairs can be purified.

It holds rows out for itself, so it is fitted to training and validation rows together.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from benchmarks.common.interface import Component, Rows, Task
from benchmarks.common.models.estimator import EstimatorModel
from tpnn._utils.arrays import FloatArray, IntArray


class EBM(EstimatorModel):
    """ExplainableBoostingRegressor or ExplainableBoostingClassifier.

    Parameters
    ----------
    task : Task
        What is predicted.
    order : {1, 2}
        Main effects only, or the pairs that it selects too.
    seed : int
        Its random state.
    n_jobs : int
        Its processes.
    **settings
        Further parameters of the estimator, its defaults otherwise.
    """

    def __init__(
        self, task: Task, order: int = 2, seed: int = 0, n_jobs: int = 1, **settings: Any
    ) -> None:
        from interpret import glassbox

        kind = "Regressor" if task.kind == "regression" else "Classifier"
        if order == 1:
            settings["interactions"] = 0
        estimator = getattr(glassbox, f"ExplainableBoosting{kind}")
        super().__init__(estimator(random_state=seed, n_jobs=n_jobs, **settings), task)

    def fit(self, training: Rows, validation: Rows) -> Self:
        """Fit to all rows."""
        super().fit(training, validation)
        self.components = [tuple(features) for features in self.estimator.term_features_]
        self.intercept = np.atleast_1d(self.estimator.intercept_)
        return self

    def raw_scores(self, X: FloatArray) -> FloatArray:
        """Raw scores, shape (n, n_outputs)."""
        return np.asarray(self.intercept + self.component_scores(X).sum(1))

    def component_scores(self, X: FloatArray) -> FloatArray:
        """Value of every component, shape (n, C, n_outputs)."""
        scores = np.asarray(self.estimator.eval_terms(X), np.float64)
        return scores.reshape(len(X), len(self.components), -1)


def purified_scores(ebm: EBM, fitted: FloatArray, X: FloatArray) -> FloatArray:
    """Value of every component after purification, shape (n, C), of a model with one output.

    Parameters
    ----------
    ebm : EBM
        A fitted model.
    fitted : array of shape (n_fitted, p)
        The rows that it was fitted to: the measure under which pairs are purified.
    X : array of shape (n, p)
        Rows to evaluate.
    """
    tables = [np.asarray(table) for table in ebm.estimator.term_scores_]
    measure, rows = (_cells(ebm.estimator, rows) for rows in (fitted, X))
    return purified(ebm.components, tables, measure, rows)


def _cells(estimator: Any, X: FloatArray) -> IntArray:
    """Cell of every term's table that each row falls into, (n_rows, n_terms).

    The model itself says so, once its scores are the numbers of their cells.
    """
    scores = estimator.term_scores_
    estimator.term_scores_ = [
        np.arange(table.size, dtype=float).reshape(table.shape) for table in scores
    ]
    cells = np.asarray(estimator.eval_terms(X)).round().astype(np.intp)
    estimator.term_scores_ = scores
    return cells


def purified(
    terms: list[Component], tables: list[FloatArray], training: IntArray, rows: IntArray
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
