"""TPNNEstimator: what all estimators share."""

from __future__ import annotations

import logging
import math
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tpnn._utils.arrays import BoolArray, FloatArray
from tpnn._utils.compile import announcing, has_screen
from tpnn._utils.rules import check_parameters, is_count
from tpnn._utils.threads import ONE_BLAS_THREAD
from tpnn.anova.components import Component, ComponentSet
from tpnn.estimators.fit_record import FitRecord, provenance_of
from tpnn.estimators.given_rows import GivenRows, first_table
from tpnn.estimators.imputation import imputed
from tpnn.estimators.inputs import FitInputs, Settings, check_one_offset, prepare, read_start
from tpnn.estimators.parameters import parametrised, rules_of
from tpnn.estimators.pipeline import Fitted, Solved, finished, refit, run, with_bands
from tpnn.estimators.warm_start import FitPlan, WarmStart, check_start, unchanged, with_checkpoint
from tpnn.explain.report import FitFacts, Report, write_report
from tpnn.explain.report.data import in_words
from tpnn.explain.selection_path import SelectionPath, Step
from tpnn.model.model import AnovaModel
from tpnn.model.predicting import Predicts
from tpnn.model.task import Task
from tpnn.search.select import HeldOut, Selection, ranking
from tpnn.solvers.descent.solver import Descent
from tpnn.solvers.grow.solver import Grow
from tpnn.solvers.problem.fingerprint import RowSums, target_columns
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.problem.rows import Targets
from tpnn.solvers.solution import Event, Limits, NoProgress, Stopwatch
from tpnn.solvers.states import GrowthStates
from tpnn.table.table import Table
from tpnn.uncertainty.linear_model import ZeroTest
from tpnn.uncertainty.recipe import joint_test

PATH_SIZES = 10  # models of a path


@dataclass(frozen=True)
class Refits:
    """Fits models of fewer components after a fit."""

    fitted: Fitted

    @property
    def solved(self) -> Solved:
        """The fit of all components, with no limit of time for what follows it."""
        limits = self.fitted.solved.limits
        fresh = Limits(n_threads=limits.n_threads, device=limits.device)
        return replace(self.fitted.solved, limits=fresh)

    def _refitted(self, selection: Selection) -> Solved:
        """Refit some components; a sparser model has no remainder, which would hold the others."""
        solved = self.solved
        if len(selection.kept) < len(solved.components):
            alone = replace(solved.solution, remainder=None)
            solved = replace(solved, solution=alone, deep=None)
        return refit(solved, selection, NoProgress())

    def path(self) -> SelectionPath:
        """Refitted models of about ten sizes, their losses on rows that did not rank them.

        Half of the rows rank the components, as far as they are held out; the other half score the
        refitted models, each bag those that it holds out. Early stopping has seen these rows, for
        models of all sizes alike.
        """
        ranking_rows, scoring_rows = _halves(self.solved.problem)
        with ONE_BLAS_THREAD:
            order = self._ranked(ranking_rows)
            full = HeldOut(self.solved.problem, self.solved.solution, scoring_rows)
        names = self.solved.problem.encoder.feature_names
        steps, before = [], 0
        for size in self._sizes(len(order)):
            added = tuple(ComponentSet(tuple(order[before:size])).names(names))
            steps.append(self._step(order[:size], full, scoring_rows, added))
            before = size
        return SelectionPath(
            steps=steps,
            landmarks=self._landmarks(full, scoring_rows),
            chosen=len(self.fitted.kept.components),
            refitted=self.model,
        )

    def model(self, n_components: int) -> AnovaModel:
        """Refit the best components, ranked on all held-out rows, with the shapes imposed.

        Of the size of the fitted model they are its own, which a selection may have ranked by how
        clear they are.
        """
        with ONE_BLAS_THREAD:
            order = self._ranked(None)
        if not (is_count(n_components) and n_components <= len(order)):
            raise ValueError(
                f"n_components: must be a whole number from 1 to {len(order)}, found "
                f"{n_components!r}. Pass the n_components of a step of the path."
            )
        fitted = self.fitted
        selection = Selection.of_all(order, n_components)
        if n_components == len(fitted.kept.components):
            selection = Selection.of_all(fitted.kept.components)
        kept = self._refitted(selection)
        kept = with_bands(kept, self.solved.limits) if fitted.has_bands else kept
        provenance = fitted.model.provenance and replace(fitted.model.provenance, scores={})
        limits = self.solved.limits
        model = finished(kept, fitted.task, limits, fitted.has_bands, Stopwatch())
        return replace(model, provenance=provenance)

    def _ranked(self, counted: BoolArray | None) -> list[Component]:
        return ranking(
            HeldOut(self.solved.problem, self.solved.solution, counted), self.fitted.keep
        )

    def _sizes(self, n_components: int) -> list[int]:
        """Sizes in equal ratios, from the smallest model to the full one."""
        smallest = max(len(self.fitted.keep.required), 1)
        sizes = np.geomspace(smallest, n_components, PATH_SIZES).round().astype(int)
        return sorted(set(map(int, sizes)))

    def _landmarks(self, full: HeldOut, scoring_rows: BoolArray) -> dict[str, Step]:
        """Models of all components up to each order below the highest."""
        components = self.solved.components
        return {
            f"order {order}": self._step(lower, full, scoring_rows, ())
            for order in components.orders[:-1]
            if (lower := [s for s in components if len(s) <= order])
        }

    def _step(
        self,
        kept: list[Component],
        full: HeldOut,
        scoring_rows: BoolArray,
        added: tuple[tuple[str, ...], ...],
    ) -> Step:
        """Refit some components, and score them against the full model."""
        solved = self._refitted(Selection.of_all(kept))
        with ONE_BLAS_THREAD:
            raw = HeldOut(solved.problem, solved.solution, scoring_rows).raw
            mean, error = full.change(raw)
        return Step(len(kept), added, full.loss + mean, error)


def _halves(problem: Problem) -> tuple[BoolArray, BoolArray]:
    """Every other row, and the others; twice all rows where a half has no held-out row.

    Rows are sorted by a key of their content, so that this is a random half. Groups that the user
    named are on one side, as are their keys in order.
    """
    distinct = problem.distinct
    numbers = distinct.groups if distinct.are_named else np.arange(len(problem.rows.y))
    first = numbers % 2 == 0
    held_out = problem.rows.validation.any(1)
    if (held_out & first).any() and (held_out & ~first).any():
        return first, ~first
    return np.ones_like(first), np.ones_like(first)


def _pilot(task: Task, progress: Any, inputs: FitInputs) -> Fitted:
    """Fit that says how likely a target is with a value in place of a missing one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit itself warns
        return run(FitPlan(inputs, GrowthStates()), task, progress, Stopwatch())


Method = TypeVar("Method", bound=Callable[..., Any])

LOGGER = logging.getLogger("tpnn")
HELD_OUT = (
    "Growth stops by itself, on rows that each bag holds out: validation_fraction is their share."
)
X_VAL = "Pass the rows that stop growth as X_val=, y_val=."
WEIGHTS_VAL = "With X_val, sample_weight has the weights of the rows of X and then of X_val."
INSTEAD = {  # of arguments that people know from other libraries
    **dict.fromkeys(("eval_set", "validation_data", "valid_sets", "val_set", "eval_metric"), X_VAL),
    **dict.fromkeys(("X_valid", "y_valid", "X_test", "y_test"), X_VAL),
    **dict.fromkeys(("sample_weight_val", "sample_weight_eval_set"), WEIGHTS_VAL),
    **dict.fromkeys(("eval_sample_weight", "w_val"), WEIGHTS_VAL),
    "offset_val": "With X_val, offset has the numbers of the rows of X and then of X_val.",
    "groups_val": "With X_val, groups has the names of the rows of X and then of X_val.",
    "early_stopping_rounds": f"{HELD_OUT} Pass solver=Grow(patience=...) for another patience.",
    "callbacks": "Pass time_limit or checkpoint, or follow the logger 'tpnn'.",
    "cat_features": "Strings and categories are levels already; pass categorical=[...] for numbers "
    "that are names.",
    "categorical_feature": "Strings and categories are levels already; pass categorical=[...] for "
    "numbers that are names.",
    "entry": "Pass it as the first of three columns of y: entry, time and event.",
    "strata": 'Pass them as the column "stratum" of y, a table.',
}
DELAY_SECONDS = 0.5  # shorter fits show no bar unless verbose=1


class Results:
    """Attributes that ``fit`` sets; their names end with an underscore."""

    components_: list[tuple[str, ...]]
    intercept_: float
    history_: list[dict[str, Any]]
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    _n_rows_: int
    _fitted_: Fitted  # holds the training rows
    _record_: FitRecord
    _path_: SelectionPath


def whole_or_not(fit: Method) -> Method:
    """Make a method that leaves its object as it was if it fails or is interrupted.

    Arguments that other libraries have are refused with what to do instead.
    """

    @wraps(fit)
    def kept(estimator: TPNNEstimator, *arguments: Any, **named: Any) -> Any:
        for name in named.keys() & INSTEAD.keys():
            raise TypeError(f"{name}: fit does not support it. {INSTEAD[name]}")
        before = dict(estimator.__dict__)
        try:
            return fit(estimator, *arguments, **named)
        except BaseException:
            estimator.__dict__.clear()
            estimator.__dict__.update(before)
            raise

    return cast(Method, kept)


@parametrised
class TPNNEstimator(Results, Predicts, TransformerMixin, BaseEstimator):
    """Functional ANOVA model with tensor product neural networks, for any objective.

    The fields are the parameters.
    """

    order: int | str = "auto"
    interactions: str | int | dict[str, Any] | Sequence[Sequence[int | str]] = "auto"
    components: Sequence[Sequence[int | str]] | None = None
    max_components: int | None = None
    selection: str = "auto"
    shapes: Mapping[int | str, str | tuple[str, float]] | None = None
    categorical: str | Sequence[int | str] | Mapping[str, Any] = "auto"
    offset: int | str | None = None
    solver: str | Grow | Descent = "auto"
    n_bags: int | str = "auto"
    max_nodes: int | dict[int, int] = 256
    validation_fraction: float = 0.1
    bands: bool = True
    remainder: bool | str = "auto"
    device: str = "auto"
    n_jobs: int | None = None
    time_limit: float | None = None
    random_state: int | np.random.RandomState | np.random.Generator | None = None
    verbose: str | int = "auto"

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; names such as ``solver__l2`` reach inside a solver object."""
        inside = [name for name in params if name.startswith("solver__")]
        solver = params.get("solver", self.solver)
        if inside and isinstance(solver, str):
            raise ValueError(
                f"solver: must be a solver object to have parameters, found {solver!r} and "
                f"{inside[0]!r}. Pass solver=Grow() or solver=Descent() first."
            )
        super().set_params(**params)
        return self

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Sum of E|f_S| over the components S that have a feature, for each column of X.

        An interaction counts in full for each of its features, so the sum over the features is
        larger than that over the components, ``explain().importance()``. The remainder counts for
        none of them, and neither does the column of the offset.
        """
        check_is_fitted(self)
        sizes = self.model_.explain().importance()
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        of_feature = {str(name): 0.0 for name in names}
        for component in self.components_:
            for name in component:
                of_feature[name] += sizes[component]
        return np.array(list(of_feature.values()))

    def path(self) -> SelectionPath:
        """Refitted models of about ten sizes, from sparse to full, with honest held-out losses.

        The first call fits these models, which takes about as long as five fits. It needs
        the training rows, to which the estimator holds a reference; a pickled or copied estimator
        does not.
        """
        check_is_fitted(self)
        if not hasattr(self, "_path_"):
            self._path_ = Refits(self._with_rows("path")).path()
        return self._path_

    def test(self, components: Sequence[str | int | Sequence[str | int]]) -> ZeroTest:
        """Test whether several components are all zero, given all others.

        Parameters
        ----------
        components : sequence of components
            Each a feature or several, by name or position: ``["age", ("age", "sex")]``.

        Returns
        -------
        ZeroTest
            ``degrees``, the effective degrees of freedom of the components, and ``p_value``. It is
            not multiplied by a number of candidates, as those of ``summary`` are for components
            that were selected. All components have their priors, linear features too: of
            one of these ``summary`` has another p-value, that of Wald's test without a prior.

        It takes as long as the bands of the fit, and needs the training rows, to which the
        estimator holds a reference; a pickled or copied estimator does not.
        """
        check_is_fitted(self)
        fitted, explained = self._with_rows("test"), self.model_.explain()
        if self.model_.evidence.tests is None:
            notes = [str(event["note"]) for event in self.history_]
            why = [note for note in notes if re.search("no (time for )?bands", note)]
            raise ValueError(
                f"test: needs a fit with bands, found {repr(why[-1]) if why else 'none'}. Fit it "
                f"again {'where this does not hold' if why else 'with bands'}."
            )
        places = dict.fromkeys(explained.find(component) for component in components)
        if not places:
            raise ValueError('test: needs components, found none. Pass ["age"], for example.')
        names, columns = fitted.kept.problem.encoder.feature_names, self.model_.feature_names
        tested = [
            tuple(sorted(names.index(columns[j]) for j in self.model_.components.components[place]))
            for place in places
        ]
        limits = Refits(fitted).solved.limits
        return joint_test(fitted.kept.problem, fitted.kept.solution, tested, limits)

    def _with_rows(self, method: str) -> Fitted:
        """Return the fit with its training rows."""
        if not hasattr(self, "_fitted_"):
            raise ValueError(
                f"{method}: needs the training rows, which a pickled or copied estimator does not "
                "keep. Fit it again."
            )
        return self._fitted_

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        for name in ("_fitted_", "_path_"):  # they hold the training rows
            state.pop(name, None)
        if "_record_" in state:
            state["_record_"] = replace(state["_record_"], states={})
        return state

    def transform(self, X: Any) -> FloatArray:
        """Value of every component on every row, shape (n_rows, n_components * n_outputs).

        The components can serve as features of another model.
        """
        table = self._read(X)
        scores = self.model_.component_scores(table)
        return scores.reshape(len(scores), math.prod(scores.shape[1:]))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns of ``transform``: features joined by " x ", then the output.

        If an interaction would get the name of another column, " (component)" is appended.
        """
        check_is_fitted(self)
        names = [" x ".join(component) for component in self.components_]
        outputs = self.model_.output_names
        named = [f"{name}: {output}" for name in names for output in outputs] if outputs else names
        unique: dict[str, None] = {}
        for name in named:
            while name in unique:
                name += " (component)"
            unique[name] = None
        return np.array(list(unique), dtype=object)

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        X: Any = None,
        y: Any = None,
        title: str = "Model report",
        target: str | None = None,
        offset: Any = None,
    ) -> Report:
        """Write one HTML page that shows the model and runs it in the browser.

        Parameters
        ----------
        path : path, optional
            Where to write the page; without one it is only shown, by a notebook.
        X, y : table and targets, optional
            Rows that the model has not seen. They are scored and used to measure concurvity, and
            the page contains up to 200 of them as starting points.
        title : str, default="Model report"
            Heading of the page.
        target : str, optional
            What is predicted, in words; by default the name of ``y``, if it has one.
        offset : array of shape (n_rows,), optional
            Known part of the raw score of each row, as in ``predict``; it counts in the scores and
            in the page's predictions for these rows. A column of X that is the offset counts by
            itself.

        Returns
        -------
        Report
            Knows the ``path`` of the page; a notebook shows the page.
        """
        check_is_fitted(self)
        facts = self._fit_facts()
        return write_report(
            self.model_, path, X, y, title=title, target=target, offset=offset, facts=facts
        )

    def _fit_facts(self) -> FitFacts:
        """Collect what the report says about the fit."""
        settings, path = in_words(self.get_params(deep=False)), getattr(self, "_path_", None)
        quality = [str(event["note"]) for event in self.history_ if event["stage"] == "table"]
        return FitFacts(settings=settings, n_rows=self._n_rows_, path=path, quality=quality)

    def _check_fitted(self) -> None:
        check_is_fitted(self)

    def _fit(
        self,
        given: GivenRows,
        y: NDArray[Any],
        targets: Targets,
        task: Task,
        warm: WarmStart | None = None,
        checkpoint: Any = None,
    ) -> None:
        """Run the pipeline and store its results; ``y`` are the targets as numbers or labels."""
        parameters = self.get_params(deep=False)
        progress = ProgressBar(type(self).__name__, self.verbose)
        clock = Stopwatch()
        with progress, announcing(progress.say):
            inputs = prepare(given.tables, targets, Settings.of(parameters))
            seen = first_table(inputs.table)
            clock.lap("read")
            cut: list[Event] = []
            if inputs.settings.missing == "impute":
                if warm is not None:
                    raise ValueError(
                        'start: a fit with missing="impute" starts from nothing, found a model. '
                        "Leave one of the two out."
                    )
                inputs, cut = imputed(inputs, partial(_pilot, task, progress))
                clock.lap("impute")
            plan, asked = FitPlan(inputs, GrowthStates()), parameters
            if warm is not None:
                check_start(warm, task, inputs)
                if inputs.settings.solver.get_params()["max_rounds"] == 0:
                    return self._adopt(warm, seen)
                plan = warm.plan(inputs, self._task, parameters)
                asked = parameters | warm.settings
            if checkpoint is not None:
                plan = with_checkpoint(plan, checkpoint, asked, self._task)
            fitted = run(plan, task, progress, clock)
            fitted = replace(fitted, events=[*cut, *fitted.events])
        if self.verbose == 2:
            progress.say(clock.table())
        LOGGER.info("%s: %d rows, %r", type(self).__name__, seen.n_rows, fitted.model)
        rows = RowSums(inputs.table)
        seen_rows = rows if seen is inputs.table else RowSums(seen)
        provenance = provenance_of(
            self._task, seen, seen_rows.digest(target_columns(y[: seen.n_rows])),
            asked | task.estimated,
            () if fitted.solved.problem.is_handful else fitted.events, task.objective.name,
            given.targets[0],
        )  # fmt: skip
        model = replace(fitted.model, provenance=provenance)
        self._store(seen, model, fitted.events)
        self._fitted_ = replace(fitted, model=model)
        self._record_ = FitRecord.of(self._task, parameters, model, rows, plan)

    def _adopt(self, warm: WarmStart, table: Table) -> None:
        """Store an old model and the record of its fit as they are."""
        self._store(table, warm.model, [unchanged(warm.model)])
        if warm.fitted is not None:
            self._fitted_ = warm.fitted
        if warm.record is not None:
            self._record_ = warm.record

    def _store(self, table: Table, model: AnovaModel, events: Iterable[Event]) -> None:
        """Set what users see of a fit, in place of the results of an earlier one.

        Attributes that do not end with an underscore, such as those of ``set_output``, stay.
        """
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self.model_ = model
        self.components_ = model.component_names
        self.intercept_ = model.intercept
        self.history_ = [event.as_dict() for event in events]
        self.n_features_in_ = table.n_columns
        self._n_rows_ = table.n_rows
        if table.names is not None:
            self.feature_names_in_ = np.array(table.column_names, dtype=object)

    def _begin(self, offset: Any, start: Any, freeze: Any, nodes: Any) -> WarmStart | None:
        """Check the parameters and what the fit starts from."""
        parameters = self.get_params(deep=False)
        check_parameters(parameters, rules_of(type(self)))
        check_one_offset(parameters, offset)
        return read_start(start, freeze, nodes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


class ProgressBar:
    """A progress bar; in a notebook a widget, or text if ipywidgets is not installed.

    With verbose="auto" it is shown on a terminal or in a notebook, if a fit takes a while.
    """

    def __init__(self, title: str, verbose: str | int) -> None:
        self.title, self.delay = title, DELAY_SECONDS if verbose == "auto" else 0.0
        self.is_shown = has_screen() if verbose == "auto" else bool(verbose)
        self._bar_class = _bar_class()
        self._bar: Any = None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *exception: object) -> None:
        self._close()

    def begin(self, total: int, unit: str) -> None:
        """Show a new bar for the expected number of events; ``unit`` says what one event is."""
        self._close()
        shown = {"leave": self.is_shown, "disable": not self.is_shown, "delay": self.delay}
        self._bar = self._bar_class(total=total, desc=self.title, unit=unit, **shown)

    def advance(self, event: Event) -> None:
        """Move the bar by one event, and log it."""
        event.log(logging.DEBUG)
        self._bar.set_postfix(validation_loss=f"{event.validation_loss:.4f}", refresh=False)
        self._bar.update(1)

    def say(self, text: str) -> None:
        """Write a line above the bar, where one may be shown."""
        if self.is_shown:
            self._bar_class.write(text, file=sys.stderr)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.total = self._bar.n  # a fit that stops early shows a full bar
            self._bar.close()


def _bar_class() -> Any:
    """Bar for this place: a widget in a notebook, else text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # text will do where there are no widgets
        from tqdm.auto import tqdm
    return tqdm
