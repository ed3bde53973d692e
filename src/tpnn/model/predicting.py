"""Methods shared by fitted estimators and loaded models, one mixin for each task."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray
from tpnn._utils.rules import warn
from tpnn.loss.lifetimes import checked_times, stratum_codes
from tpnn.model.intervals import check_coverage, means_with_errors
from tpnn.model.model import AnovaModel, baseline_of
from tpnn.model.summary import Summary, write_card
from tpnn.model.task import both_classes
from tpnn.table.files.source import Source
from tpnn.table.table import Table

if TYPE_CHECKING:
    from tpnn.explain.explanation import Explanation
    from tpnn.lifecycle.recourse.recourse import Recourse

FEW_ROWS = 64  # which are compared all at once


class Predicts:
    """Reading of tables and explanations, for any task."""

    model_: AnovaModel
    _task: ClassVar[str]

    def explain(self, X: Any = None, *, hierarchical: bool = False) -> Explanation:
        """Explain the model as a whole or, given rows, on each of them.

        With ``hierarchical=True`` components are those of the joint distribution of the rows, in
        which features may depend on each other (Hooker, 2007), not of the product of the marginals.
        An offset of the rows is not a component, so the explanation leaves it out; a column that
        holds it may be missing from a table with names.
        """
        self._check_fitted()
        rows = None if X is None else self._read(X)
        return self.model_.explain(rows, hierarchical=hierarchical)

    def predict_batches(self, X: Any) -> Iterator[NDArray[Any]]:
        """Yield what ``predict`` returns for a table in files, for some thousand rows at a time.

        Parameters
        ----------
        X : path or pyarrow.dataset.Dataset
            A Parquet file, a folder of them, a pattern such as ``"data/*.parquet"``, or a dataset.
            Columns that the model does not need are not read. An offset must be one of the columns.
        """
        self._check_fitted()
        for table in Source(X).tables(self.model_.encoder.column_names):
            yield self.predict(table)

    def predict(self, X: Any, offset: Any = None) -> NDArray[Any]:
        """Predict each row of a table; every task has its own."""
        raise NotImplementedError

    def summary(self) -> Summary:
        """All components in one table, each with interval, test and held-out loss.

        See :class:`~tpnn.model.summary.SummaryLine` for its columns. The p-values are those of a
        fit whose components were given; one that a search chose is multiplied by the number of
        candidates.
        """
        self._check_fitted()
        return self.model_.summary()

    def to_card(self, path: str | os.PathLike[str] | None = None, title: str = "Model card") -> str:
        """Return a model card in Markdown, and write it if there is a path.

        It says what the model knows about itself: where it comes from, its features, components,
        held-out losses and limits. What only people know has headings and a note that it is to be
        written: use, data and harm.
        """
        self._check_fitted()
        return write_card(self.model_, path, title)

    def shap_values(self, X: Any) -> Any:
        """Exact Shapley values of the raw score under the product of the marginals.

        Returns a ``shap.Explanation`` if shap is installed, else an object with the same fields.
        """
        return self.explain(X).shap_values()

    def recourse(self, row: Any, target: Any, **rules: Any) -> Recourse:
        """Find the cheapest change of a row that reaches a prediction, or prove there is none.

        ``target`` is a prediction of ``model_.predict``: for two classes the probability of the
        second. Rules are ``fixed``, ``ranges``, ``max_changes`` and ``offset``, as of
        :meth:`AnovaModel.recourse`.
        """
        return self.model_.recourse(self._read(row), target, **rules)

    def predict_interval(
        self, X: Any, coverage: float = 0.9, by: str | int | None = None, offset: Any = None
    ) -> Any:
        """Intervals that hold the targets of a share ``coverage`` of new rows, or sets of classes.

        They are calibrated on rows that bags held out, at no further fit. ``by`` names a feature
        with few values, within each of which the share holds, too; with "class" it holds for the
        rows of each class. A regressor returns lower and upper ends, a classifier which classes
        are in the set of each row:
        :meth:`AnovaModel.predict_interval` has it in full.
        """
        table = self._read(X)
        return self.model_.predict_interval(table, coverage, by, offset)

    def _read(self, X: Any) -> Table:
        """Read a table to predict on; error messages name this class."""
        self._check_fitted()
        table = self.model_.encoder.read(X, type(self).__name__)
        warn_of_far_rows(self.model_, table)
        return table

    def _check_fitted(self) -> None:
        """Refuse to go on without a model; a loaded model always has one."""


class PredictsNumbers(Predicts):
    """Predictions of a regressor."""

    _task = "regressor"

    def predict(self, X: Any, offset: Any = None, return_std: bool = False) -> Any:
        """Predict the target of each row, (n_rows,), or several targets or quantiles at once.

        Several quantiles never cross, because they are sorted. With an exposure, the prediction is
        the expected total for the exposure of each row. ``model_.predict`` returns the same.

        ``return_std=True`` returns a pair: predictions, and the standard error of each, which says
        how far the estimated mean may be off. Single targets lie farther away from it: see
        ``predict_interval``.
        """
        table = self._read(X)
        if return_std:
            return means_with_errors(self.model_, table, offset)
        return self.model_.predict(table, offset)


class PredictsClasses(Predicts):
    """Predictions of a classifier."""

    classes_: NDArray[Any]
    _task = "classifier"

    def decision_function(self, X: Any, offset: Any = None, return_std: bool = False) -> Any:
        """Raw score: the logit of the second of two classes, (n_rows,), or one score per class.

        The scores of more than two classes sum to zero, which makes them unique.
        ``return_std=True`` returns a pair: scores, and the standard error of each.
        """
        table = self._read(X)
        check_class_offset(offset, len(self.classes_))
        raw = self.model_.raw_scores(table, offset)
        return (raw, self.model_.standard_errors(table)) if return_std else raw

    def predict_proba(self, X: Any, offset: Any = None, return_std: bool = False) -> Any:
        """Probability of each class, shape (n_rows, n_classes).

        ``return_std=True`` returns a pair: probabilities, and the standard error of each.
        """
        table = self._read(X)
        check_class_offset(offset, len(self.classes_))
        if not return_std:
            return self.model_.predict_proba(table, offset)
        means, errors = means_with_errors(self.model_, table, offset)
        if errors.ndim == 1:
            errors = np.column_stack([errors, errors])
        return both_classes(means), errors

    def predict(self, X: Any, offset: Any = None) -> NDArray[Any]:
        """Most probable class of each row, shape (n_rows,).

        ``model_.predict``, also that of ``tpnn.load``, returns probabilities instead. Labels
        have no standard error; those of ``predict_proba`` and ``decision_function`` do.
        """
        raw: FloatArray = self.decision_function(X, offset)
        return np.take(self.classes_, self.model_.task.decisions(raw))


class PredictsSurvival(Predicts):
    """Predictions of a survival model."""

    _task = "survival"

    def predict(self, X: Any, offset: Any = None, return_std: bool = False) -> Any:
        """Logarithm of each row's risk relative to the baseline, shape (n_rows,).

        ``model_.predict``, also that of ``tpnn.load``, returns the risk itself;
        ``model_.raw_scores`` returns this logarithm. ``return_std=True`` returns a pair: log risks,
        and the standard error of each.
        """
        table = self._read(X)
        raw = self.model_.raw_scores(table, offset)
        return (raw, self.model_.standard_errors(table)) if return_std else raw

    def predict_survival(
        self, X: Any, times: Any, offset: Any = None, strata: Any = None
    ) -> FloatArray:
        """Probability of surviving beyond each time, shape (n_rows, n_times).

        ``strata`` are the strata of the rows, (n_rows,), for a model that was fitted with strata.
        Beyond the last time of an event the probability stays as it is there. Where events compete,
        it is the probability without an event of this kind: of a "cox" model if all others were
        prevented, of a "fine_gray" model in their presence.
        """
        table = self._read(X)
        return self.model_.predict_survival(table, times, offset, strata)

    def predict_survival_interval(
        self, X: Any, times: Any, coverage: float = 0.95, offset: Any = None, strata: Any = None
    ) -> tuple[FloatArray, FloatArray]:
        """Lower and upper ends of ``predict_survival``, (n_rows, n_times) each.

        They are normal for log(-log S), with the standard error of the log risk, which
        ``predict(X, return_std=True)`` returns, and that of the baseline hazard.
        """
        check_coverage(coverage)
        table = self._read(X)
        model, asked = self.model_, checked_times(times).reshape(1, -1)
        survival = model.predict_survival(table, times, offset, strata)
        baseline = model.evidence.baseline
        if baseline is None or baseline.errors is None:
            raise ValueError(
                "predict_survival_interval: the baseline hazard of this model has no standard "
                "errors, because it is a mean of several. Ask the models that were merged."
            )
        codes = stratum_codes(strata, baseline.strata, table.n_rows)
        spread = baseline.at(baseline.errors, 0.0, asked, codes)
        reach = NormalDist().inv_cdf((1 + coverage) / 2)
        factors = np.exp(reach * np.hypot(spread, model.standard_errors(table)[:, None]))
        return survival**factors, survival ** (1 / factors)

    def predict_time(
        self, X: Any, survived: float = 0.5, offset: Any = None, strata: Any = None
    ) -> FloatArray:
        """Time up to which a row survives with a probability, by default the median, (n_rows,).

        It is the first time at which ``predict_survival`` is not above ``survived``, and inf where
        it stays above at the last time.
        """
        check_coverage(survived, "survived")
        table = self._read(X)
        raw, baseline = self.model_.raw_scores(table, offset), baseline_of(self.model_)
        needed = np.log(-np.log(survived)) - raw  # of log H_0
        codes, found = stratum_codes(strata, baseline.strata, len(raw)), np.empty(len(raw))
        for code, part in enumerate(baseline.parts):
            rows, times = codes == code, np.append(baseline.times[part], np.inf)
            found[rows] = times[np.searchsorted(baseline.log_hazard[part], needed[rows])]
        return found

    def predict_incidence(
        self,
        X: Any,
        times: Any,
        others: Sequence[PredictsSurvival] = (),
        offset: Any = None,
        strata: Any = None,
    ) -> FloatArray:
        """Probability that an event of this kind has happened by each time, (n_rows, n_times).

        ``others`` are the models of all competing kinds of events, fitted by "cox" with their
        ``cause``; together with them this model says what has happened to a row by then. A model
        fitted by "fine_gray" needs none.
        """
        if not self.model_.task.objective.is_alone or not others:
            return 1 - self.predict_survival(X, times, offset, strata)
        grid = np.unique(np.concatenate([baseline_of(m.model_).times for m in (self, *others)]))
        steps = []
        for one in (self, *others):
            raw = one.model_.raw_scores(one._read(X), offset)
            total = baseline_of(one.model_).hazard(raw, grid, strata)
            steps.append(np.diff(total, axis=1, prepend=0.0))
        every = np.sum(steps, axis=0)
        free = np.exp(-np.cumsum(np.column_stack([np.zeros(len(every)), every]), axis=1))
        share = np.divide(steps[0], every, out=np.zeros_like(every), where=every > 0)
        happened = np.cumsum(share * -np.diff(free, axis=1), axis=1)
        padded = np.column_stack([np.zeros(len(happened)), happened])
        return np.asarray(padded[:, np.searchsorted(grid, checked_times(times), side="right")])


def warn_of_far_rows(model: AnovaModel, table: Table) -> None:
    """Count the rows that are beyond the values of fit by half of their range or more."""
    some, (low, high) = model._limits
    if table.is_finite:
        every = table.finite_columns()
        columns = [every[feature] for feature in some]
    else:
        columns = [model.encoder.numbers(table, feature) for feature in some]
    if not table.n_rows or not columns:
        return
    if table.n_rows <= FEW_ROWS:
        block = np.array(columns).T
        is_far = (block < low) | (block > high)
    else:
        least, most = np.array([(np.fmin.reduce(x), np.fmax.reduce(x)) for x in columns]).T
        is_far = (least < low) | (most > high)
    if not is_far.any():
        return
    found = []
    for place in np.flatnonzero(np.atleast_2d(is_far).any(0)).tolist():
        column = columns[place]
        n_far = int(((column < low[place]) | (column > high[place])).sum())
        found.append(f"{table.name(some[place])!r} ({n_far} of {table.n_rows} rows)")
    message = (
        "X: far beyond the values of fit a model is constant, and its standard errors grow with "
        f"the distance, found in {', '.join(found[:5])}{', ...' if len(found) > 5 else ''}."
    )
    if message not in table.told:
        table.told.add(message)
        warn(message)


def check_class_offset(offset: Any, n_classes: int) -> None:
    """Refuse an offset that would change no probability."""
    if offset is not None and n_classes > 2:
        raise ValueError(
            "offset: two classes are needed, because one number added to the scores of all classes "
            f"changes no probability, found {n_classes} classes. Leave it out, or fit each class "
            "against the rest."
        )
