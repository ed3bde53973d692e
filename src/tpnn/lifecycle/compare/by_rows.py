"""Comparison by predictions alone: of a model with any other model, or with a column of scores."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from tpnn._utils.arrays import FloatArray
from tpnn._utils.rules import COUNT, SHARE, check_parameters
from tpnn.explain.metrics.curves import is_mixed
from tpnn.explain.metrics.estimates import (
    Estimate,
    area_estimate,
    distance_estimate,
    estimate,
    standard_error,
)
from tpnn.explain.plots.performance import dislocation
from tpnn.explain.report.static import Section, page, picture, pictures, table
from tpnn.explain.report.writing import Report, saved_page
from tpnn.export.sheets.rating import RatingTables
from tpnn.export.sheets.scorecard import ScoreCard
from tpnn.lifecycle.foreign.table_sum import is_linear
from tpnn.lifecycle.merge import as_model
from tpnn.loss.objectives import LOG_LOSS, SQUARED_ERROR
from tpnn.loss.row_values import checked_numbers
from tpnn.model.codec import storable_labels
from tpnn.model.model import AnovaModel
from tpnn.model.task import Task
from tpnn.table.columns import array_of
from tpnn.table.table import Table

BELOW, AT_LEAST = "below", "at least"
DECISION = pd.CategoricalDtype([BELOW, AT_LEAST])
CHANGES = (-0.2, -0.1, -0.05, 0.05, 0.1, 0.2)
MOST_LABELS, N_BINS = 20, 8  # of a column by which dislocation is split
EVEN = 0.5  # probability from which on the second class is more probable


@dataclass(frozen=True, eq=False, kw_only=True)
class RowComparison:
    """Two models compared by their predictions alone.

    Parameters
    ----------
    names : tuple of str
        Names of the old and the new model.
    predictions : tuple of array of shape (n_rows,)
        Their predictions; of two classes, probabilities of the second.
    tasks : list of Task
        What the models of this library among them predict.
    X : table
        The rows.
    y : array, or None
        Their targets.
    threshold : float, or None
        Prediction from which on the decision is another one.
    """

    names: tuple[str, str]
    predictions: tuple[FloatArray, FloatArray]
    tasks: list[Task]
    X: Any
    y: Any
    threshold: float | None

    def __repr__(self) -> str:
        n_rows = len(self.predictions[0])
        return f"RowComparison({self.names[0]} and {self.names[1]}: {n_rows} rows, by predictions)"

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Scores of both models on the rows with targets, and their paired differences.

        ``standard_error`` is that of the difference: rows count in both scores, so it is smaller
        than the errors of the two scores would say. Empty without targets.

        The scores are those of the task of a model of this library; without one, of the probability
        of two classes, or of squared errors. Scores that are no probabilities are judged by the
        order of the rows.
        """
        lines = [
            (old.name, old.value, new.value, new.value - old.value,
             standard_error(new.influences - old.influences))
            for old, new in self._estimates
        ]  # fmt: skip
        return pd.DataFrame(lines, columns=["score", *self.names, "difference", "standard_error"])

    @cached_property
    def _estimates(self) -> list[tuple[Estimate, Estimate]]:
        """Each score of both models."""
        if self._actual is None:
            return []
        old, new = (self._estimates_of(self._actual, mean) for mean in self._both())
        by_name = {one.name: one for one in new}
        return [(one, by_name[one.name]) for one in old if one.name in by_name]

    def _estimates_of(self, actual: FloatArray, mean: FloatArray) -> list[Estimate]:
        """Scores of one model, the same for both; without any task, 0 and 1 are two classes."""
        both, task = np.concatenate(self._both()), self.tasks[-1] if self.tasks else None
        is_two = set(np.unique(actual)) <= {0.0, 1.0}
        if is_two and (task is None or task.kind == "classes"):
            if both.min() >= 0 and both.max() <= 1:
                task = Task(LOG_LOSS, classes=(0, 1))
                return estimate(task, actual, task.link.forward(mean))
            is_second = actual == 1
            if not is_mixed(is_second):
                return []
            return [area_estimate("AUROC", is_second, mean),
                    distance_estimate("KS", is_second, mean)]  # fmt: skip
        is_rate = task is not None and task.kind == "rates" and both.min() > 0
        if task is None or not (is_rate or task.kind == "numbers"):
            task = Task(SQUARED_ERROR)
        return estimate(task, actual, task.link.forward(mean))

    def _both(self) -> tuple[FloatArray, FloatArray]:
        """Predictions, of which there must be one for each row."""
        old, new = self.predictions
        if old.ndim > 1:
            raise ValueError(
                f"models: this table is of one prediction for each row, found {old.shape[1]}. "
                "Compare models with one output."
            )
        return old, new

    @property
    def loss(self) -> pd.Series[Any] | None:
        """Line of the first score of which less is better; None where there is none."""
        places = [place for place, (one, _) in enumerate(self._estimates) if one.is_gain is False]
        return self.scores.iloc[places[0]] if places else None

    @cached_property
    def _actual(self) -> FloatArray | None:
        """Targets as numbers, labels of two classes as 0 and 1; None where there are none."""
        if self.y is None:
            return None
        return as_numbers(self.y, next((task.classes for task in self.tasks if task.classes), ()))

    def swap_set(self, share: float | None = None) -> pd.DataFrame:
        """Count the rows by their two decisions.

        Parameters
        ----------
        share : float, optional
            Share of rows that each model puts at or above its own threshold, so that models on
            different scales decide alike often; by default both use the threshold of the
            comparison, or 0.5 for probabilities.

        Returns
        -------
        DataFrame
            A line for each pair of decisions, "below" and "at least", with ``n_rows``, ``share``,
            the mean predictions and, where targets are known, ``actual``, their mean.
        """
        each = zip(self.names, self._both(), self._edges(share), strict=True)
        decisions = [
            pd.Series(np.where(mean >= edge, AT_LEAST, BELOW), name=name, dtype=DECISION)
            for name, mean, edge in each
        ]
        frame = self._means_of(decisions).reset_index().astype(dict.fromkeys(self.names, str))
        frame.insert(3, "share", frame["n_rows"] / len(self.predictions[0]))
        return frame

    def _edges(self, share: float | None) -> list[float]:
        """Threshold of each model."""
        if share is not None:
            check_parameters({"share": share}, {"share": SHARE})
            return [float(np.quantile(m, 1 - share, method="higher")) for m in self._both()]
        edge = self.threshold
        if edge is None and any(task.kind == "classes" for task in self.tasks):
            edge = EVEN
        if edge is None:
            raise ValueError(
                "share: these models decide nothing, so a threshold is needed. Pass a share of the "
                "rows here, or threshold= to compare()."
            )
        return [edge, edge]

    def _means_of(self, groups: Any) -> pd.DataFrame:
        """Count rows by group, with mean predictions and, where targets are known, mean targets."""
        names = [f"{name} prediction" for name in self.names]
        frame = pd.DataFrame(dict(zip(names, self._both(), strict=True)))
        frame = frame if self._actual is None else frame.assign(actual=self._actual)
        by_group = frame.groupby(groups, observed=False)
        means = by_group.mean()
        means.insert(0, "n_rows", by_group.size())
        return means

    def double_lift(self, n_groups: int = 10) -> pd.DataFrame:
        """Group rows by how much the models differ, and say which of them is right.

        Rows are sorted by the new prediction over the old one, or by their difference where some
        prediction is not positive, and put into about equal groups.

        Returns
        -------
        DataFrame
            A line for each group: ``from`` and ``to``, the smallest and largest ratio or
            difference, ``n_rows``, the mean predictions and, where targets are known, ``actual``.
        """
        check_parameters({"n_groups": n_groups}, {"n_groups": COUNT})
        old, new = self._both()
        key = new / old if min(old.min(), new.min()) > 0 else new - old
        edges = np.unique(np.quantile(key, np.arange(1, n_groups) / n_groups))
        groups = np.searchsorted(edges, key, side="left")
        ends = pd.Series(key).groupby(groups).agg(["min", "max"])
        frame = ends.set_axis(["from", "to"], axis=1).join(self._means_of(groups))
        return frame.reset_index(drop=True)

    def dislocation(self, by: Any = None, edges: Sequence[float] = CHANGES) -> pd.DataFrame:
        """Say how many rows pay more or less by how much.

        Parameters
        ----------
        by : str or array of shape (n_rows,), optional
            A column of X, or a label for each row, such as the band of a tariff: then there is a
            line for each label. Numbers with many values are put into eight groups.
        edges : sequence of float
            Relative changes between which rows are counted.

        Returns
        -------
        DataFrame
            A line for each band of changes with ``n_rows``, ``share``, the sums of the predictions
            and the ``change`` of these sums; or a line for each label with ``n_rows``, the sums,
            their ``change``, and the share of rows in each band of changes.
        """
        old, new = self._both()
        if not (old > 0).all():
            raise ValueError(
                f"models: changes are relative, and {int((old <= 0).sum())} predictions of "
                f"{self.names[0]!r} are not positive. Compare rates, premiums or scores above 0."
            )
        cuts = np.sort(np.asarray(edges, np.float64))
        bands, words = np.searchsorted(cuts, new / old - 1, side="right"), change_words(cuts)
        sums = pd.DataFrame({"n_rows": 1, self.names[0]: old, self.names[1]: new})
        if by is None:
            frame = sums.groupby(bands).sum().reindex(range(len(words)), fill_value=0)
            frame = frame.reset_index(drop=True)
            frame.insert(0, "band", words)
            frame.insert(2, "share", frame["n_rows"] / len(old))
            return frame.assign(change=frame[self.names[1]] / frame[self.names[0]] - 1)
        labels = self._labels(by)
        frame = sums.groupby(labels, sort=True, observed=True).sum()
        frame["change"] = frame[self.names[1]] / frame[self.names[0]] - 1
        shares = pd.crosstab(labels, bands, normalize="index")
        for band, word in enumerate(words):
            frame[word] = shares.get(band, 0.0)
        return frame.rename_axis(by if isinstance(by, str) else "label").reset_index()

    def _labels(self, by: Any) -> Any:
        """Label of each row; numbers with many values as ranges."""
        column = pd.Series(np.asarray(self.X[by] if isinstance(by, str) else by))
        if len(column) != len(self._both()[0]):
            raise ValueError(
                f"by: one label for each row is needed, found {len(column)} labels and "
                f"{len(self._both()[0])} rows. Pass a column of X."
            )
        if column.dtype.kind in "if" and column.nunique() > MOST_LABELS:
            return pd.qcut(column, N_BINS, duplicates="drop")
        return column

    def _changes(self) -> Iterator[str]:
        """Draw the dislocation; what needs matplotlib is drawn when it is asked for."""
        axes: Any = dislocation(self)
        yield picture("Changes", axes.figure)

    def to_html(self, path: str | os.PathLike[str]) -> Report:
        """Write one self-contained page: scores, swap set, double lift."""
        sections = [
            Section("Double lift", "Rows by how much the models differ, in about equal groups.",
                    (table(self.double_lift()),)),
        ]  # fmt: skip
        if len(self.scores):
            lede = "Both models on the same rows. The standard error is that of the difference."
            sections.insert(0, Section("Scores", lede, (table(self.scores),)))
        if self.threshold is not None or any(task.kind == "classes" for task in self.tasks):
            lede = "Rows by their two decisions."
            sections.append(Section("Swap set", lede, (table(self.swap_set()),)))
        elif (self._both()[0] > 0).all():
            lede = "How many rows pay more or less by how much."
            drawn = pictures(self._changes())
            sections.append(Section("Dislocation", lede, (drawn, table(self.dislocation()))))
        title, facts = " and ".join(self.names), [("Rows", len(self.predictions[0]))]
        lede = "Two models compared by their predictions alone."
        return saved_page(path, page(title, lede, facts, sections))


def change_words(cuts: FloatArray) -> list[str]:
    """Bands of relative changes in words.

    >>> change_words(np.array([-0.1, 0.1]))
    ['below -10 %', '-10 % to < +10 %', 'from +10 %']
    """
    words = [f"{100 * cut:+g} %" for cut in cuts]
    inner = [f"{low} to < {high}" for low, high in pairwise(words)]
    return [f"below {words[0]}", *inner, f"from {words[-1]}"] if words else ["all"]


def has_components(model: Any) -> bool:
    """Whether a model can be compared component by component."""
    return (
        isinstance(model, AnovaModel | RatingTables | ScoreCard | Mapping)
        or isinstance(getattr(model, "model_", None), AnovaModel)
        or hasattr(model, "term_scores_")
        or is_linear(model)
    )


def compare_rows(
    models: Mapping[str, Any],
    X: Any,
    y: Any,
    offset: Any,
    threshold: float | None,
    argument: str = "models",
) -> RowComparison:
    """Compare two models of any kind by predictions, as ``tpnn.compare`` describes it."""
    first, second = models
    n_rows = Table(X).n_rows
    predictions = {
        name: _predictions(model, X, offset, n_rows, (argument, name))
        for name, model in models.items()
    }
    ours = [model for model in models.values() if has_components(model) and not is_linear(model)]
    return RowComparison(
        names=(str(first), str(second)),
        predictions=(predictions[first], predictions[second]),
        tasks=[as_model(model).task for model in ours],
        X=X,
        y=y,
        threshold=threshold,
    )


def _predictions(
    model: Any, X: Any, offset: Any, n_rows: int, called: tuple[str, str]
) -> FloatArray:
    """One prediction for each row, (n_rows,), of a model, a function or a column of scores.

    Messages call it by the name of the argument, and by its own where that is another one.
    """
    if has_components(model) and not is_linear(model):
        frozen = as_model(model)
        found: Any = frozen.link.inverse(frozen.raw_scores(X, offset))
    elif hasattr(model, "predict_proba"):
        found = np.asarray(model.predict_proba(X))
        found = found[:, 1] if found.shape[1:] == (2,) else found
    elif hasattr(model, "predict"):
        found = model.predict(X)
    elif callable(model):
        found = model(X)
    else:
        found = model
    is_list = isinstance(found, Sequence) and not isinstance(found, str)
    is_column = is_list or hasattr(found, "shape") or hasattr(found, "__array__")
    numbers = checked_numbers(called[0], array_of(found)) if is_column else None
    if numbers is None or numbers.shape != (n_rows,):
        whose = "" if called[0] == called[1] else f" {called[1]!r}"
        shape = getattr(found, "shape", type(found).__name__)
        raise TypeError(
            f"{called[0]}:{whose} must be a fitted model, a function of a table, or one score for "
            f"each of the {n_rows} rows, found {shape}. Pass its predictions on X as an array."
        )
    return numbers


def as_numbers(y: Any, classes: Sequence[Any]) -> FloatArray:
    """Targets as numbers: of two labels the second in ``classes``, or in their order, is 1."""
    labels = array_of(y)
    known = list(classes) or storable_labels(np.unique(labels))
    is_named = bool(classes) or labels.dtype.kind not in "iuf"
    codes = [known.index(x) if x in known else -1 for x in storable_labels(labels)]
    if len(known) == 2 and is_named and min(codes, default=0) >= 0:
        return np.array(codes, np.float64)
    return checked_numbers("y", labels)
