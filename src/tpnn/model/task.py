"""Task: what a model predicts, and the loss that it is judged by.

All code that depends on the kind of prediction asks the task, not the name of the link.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.loss.lifetimes import checked_survival
from tpnn.loss.links import Link
from tpnn.loss.objectives import (
    COX,
    LOG_LOSS,
    OF_SURVIVAL,
    POISSON,
    SQUARED_ERROR,
    Objective,
    is_objective,
    median_and_quartiles,
    quantiles,
    resolve,
    several_classes,
    several_targets,
)
from tpnn.loss.row_values import checked_numbers, refuse_masked
from tpnn.model.codec import Label, storable_labels
from tpnn.model.evidence import Baseline, Reliability
from tpnn.table.columns import array_of

if TYPE_CHECKING:
    from tpnn.model.model import AnovaModel

N_GROUPS = 10


@dataclass(frozen=True)
class Task:
    """What to predict."""

    # the loss, with its link; squared error for a model that was fitted to a function
    objective: Objective
    outputs: tuple[str, ...] = ()  # names of several outputs
    classes: tuple[Label, ...] = ()  # labels of a classifier, sorted; empty where a file has none
    baseline: Baseline | None = None  # cumulative baseline hazard of a survival model

    @classmethod
    def of(cls, model: AnovaModel) -> Task:
        """Read the task off the fields of a model."""
        return cls(_objective(model), model.output_names, model.classes, model.evidence.baseline)

    @property
    def kind(self) -> str:
        """What is predicted: "numbers", "rates", "classes", "quantiles" or "survival"."""
        return self.objective.kind

    @property
    def link(self) -> Link:
        """Link between raw score and prediction."""
        return self.objective.link

    @property
    def estimated(self) -> dict[str, Any]:
        """Settings of the estimator with what its fit has estimated of the loss."""
        name, dispersion = self.objective.name, self.objective.dispersion
        return {} if dispersion is None else {"objective": {"name": name, "dispersion": dispersion}}

    @property
    def n_classes(self) -> int:
        """Number of classes; two classes have one raw score."""
        return max(self.objective.n_outputs, 2)

    @property
    def levels(self) -> FloatArray:
        """Quantiles that are predicted, (n_outputs,)."""
        return np.array(self.objective.levels)

    @property
    def ratio(self) -> str:
        """What exp(effect) is called where it is a factor; empty where it is none."""
        return "hazard ratio" if self.kind == "survival" else self.link.ratio

    def told(self, y: Any) -> Task:
        """Add what only targets tell: times with events, and labels that a file does not have.

        Two labels are taken in sorted order; more labels are matched by the names of the outputs.
        """
        if self.kind == "rates" and self.objective.n_outputs == 1 and _is_pair(y):
            return replace(self, objective=COX)
        if self.kind != "classes" or self.classes:
            return self
        labels = storable_labels(np.unique(array_of(y)))
        if self.outputs:
            by_name = {str(label): label for label in labels}
            return replace(self, classes=tuple(by_name.get(name, name) for name in self.outputs))
        return replace(self, classes=tuple(labels)) if len(labels) == self.n_classes else self

    def shares(self, raw: FloatArray) -> FloatArray:
        """Probability of each class, (n_rows, n_classes), of raw scores (n_rows[, n_classes])."""
        return both_classes(self.link.inverse(raw))

    def decisions(self, raw: FloatArray) -> IntArray:
        """Code of the most probable class of each row, (n_rows,)."""
        return raw.argmax(1) if raw.ndim == 2 else (raw > 0).astype(np.intp)

    def codes(self, y: Any) -> IntArray:
        """Code of each row's class, its place among the classes, (n_rows,).

        Equal numbers are equal labels; a number never equals a string.
        """
        labels = storable_labels(array_of(y).ravel())
        number = {label: code for code, label in enumerate(self.classes)}
        unknown = dict.fromkeys(label for label in labels if label not in number)
        if unknown:
            rule = list(self.classes)[:5] if self.classes else f"{self.n_classes} classes"
            raise ValueError(
                f"y: labels must be those of fit, {rule}, found {list(unknown)[:5]}. Label these "
                "rows like those of fit."
            )
        return np.array([number[label] for label in labels], np.intp)

    def targets(self, y: Any, n_rows: int) -> FloatArray:
        """Targets as the loss takes them, (n_rows, n_columns).

        Times and events of survival have two columns, several classes a column of indicators each.
        """
        refuse_masked("y", y)
        shape = array_of(y).shape
        if shape[:1] != (n_rows,):
            raise ValueError(
                f"y: one value per row of X is needed, found shape {shape} for {n_rows} rows. "
                "Pass X and y of the same length."
            )
        if self.kind == "survival":
            values = self.lifetimes(y)
        elif self.kind == "classes":
            codes = self.codes(y)
            several = self.objective.n_outputs > 1
            values = np.eye(self.n_classes)[codes] if several else codes[:, None].astype(np.float64)
        else:
            values = checked_numbers("y", array_of(y))
            values = values[:, None] if values.ndim == 1 else values
        n_columns = self.objective.n_outputs if self.kind in ("numbers", "rates") else 1
        if self.kind in ("numbers", "rates", "quantiles") and values.shape != (n_rows, n_columns):
            expected = (n_rows, n_columns) if n_columns > 1 else (n_rows,)
            raise ValueError(
                f"y: targets like those of fit are needed, of shape {expected}, found shape "
                f"{shape}. Pass the same columns as to fit."
            )
        return values

    def lifetimes(self, y: Any) -> FloatArray:
        """Read times, events and, where there are any, entries and strata: (n_rows, 2 or 4)."""
        known = () if self.baseline is None else self.baseline.strata
        return checked_survival(y, self.objective).target(self.objective, known)

    def losses(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        """Loss of each row, (n_rows,), as it is reported: in the unit of the user.

        ``target`` is what ``targets`` returns, ``raw`` has the shape (n_rows[, n_outputs]).
        """
        means = self.link.inverse(raw) if self.kind == "quantiles" else raw  # these are sorted
        columns, shares = means.reshape(len(raw), -1), np.full((len(raw), 1), 1 / len(raw))
        with np.errstate(over="ignore", invalid="ignore"):
            losses = self.objective.reported(self._unit(target)).losses(target, columns, shares)
        return np.asarray(losses[:, 0])

    def slopes(self, target: FloatArray, raw: FloatArray) -> FloatArray:
        """Differentiate the loss of each row in its raw scores, both (n_rows, n_outputs)."""
        return np.asarray(self.objective.reported(self._unit(target)).slopes(target, raw)[0])

    def loss(self, y: Any, raw: FloatArray) -> float:
        """Mean loss of raw scores on rows with targets, as it is reported."""
        task = self.told(y)
        losses = task.losses(task.targets(y, len(raw)), raw)
        if not np.isfinite(losses).all():
            raise ValueError(
                f"y: the loss {task.objective.name} of every row must be finite, found NaN or inf "
                f"in {(~np.isfinite(losses)).sum()} of {len(losses)} rows. Pass "
                f"{task.objective.rule}."
            )
        return float(losses.mean())

    def constant(
        self, target: FloatArray, offset: FloatArray, weights: FloatArray | None = None
    ) -> FloatArray:
        """Raw scores (n_rows[, n_outputs]) of the constant that fits best, given offsets (n,)."""
        unit, mass = self._unit(target), np.ones(len(target)) if weights is None else weights
        column = offset[:, None]
        raw: FloatArray = column + unit * self.objective.start(target / unit, column / unit, mass)
        return raw if raw.shape[1] > 1 else raw[:, 0]

    def _unit(self, target: FloatArray) -> float:
        """Spread of the targets, in which a standardised loss counts residuals."""
        if not self.objective.standardised:
            return 1.0
        spread = median_and_quartiles(target[:, :1], np.full(len(target), 1 / len(target)))[1]
        return float(spread[0])

    def groups(
        self, target: FloatArray, raw: FloatArray, offset: FloatArray, weights: FloatArray
    ) -> tuple[Reliability, ...]:
        """Predictions beside targets in about ten groups, for each output; ``raw`` is (n, K).

        Rates are sorted by the prediction without the offset, so that a large exposure is not taken
        for a large risk.
        """
        means = self.link.inverse(raw)
        ranks = raw - offset[:, None] if self.kind == "rates" else means
        columns = zip(means.T, target.T, ranks.T, strict=True)
        return tuple(grouped(mean, actual, weights, rank) for mean, actual, rank in columns)


def both_classes(second: FloatArray) -> FloatArray:
    """Shares of both classes from that of the second, (n_rows, 2); several stay as they are."""
    return second if second.ndim == 2 else np.column_stack([1 - second, second])


def _is_pair(y: Any) -> bool:
    """Whether targets have two columns or two named fields."""
    values = array_of(y)
    return len(values.dtype.names or ()) == 2 or (values.ndim == 2 and values.shape[1] == 2)


def _objective(model: AnovaModel) -> Objective:
    """Loss of a frozen model: that of its fit, where it says so, else the usual one of its link."""
    kind, n_outputs, fit = model.link.kind, len(model.intercepts), model.provenance
    asked = fit.settings.get("objective") if fit else None
    if kind == "rates" and (
        model.evidence.baseline is not None or (fit and fit.task == "survival")
    ):
        return resolve(asked, n_targets=1) if is_objective(asked, OF_SURVIVAL) else COX
    if kind == "classes":
        return several_classes(n_outputs) if n_outputs > 1 else LOG_LOSS
    if kind == "quantiles":
        return quantiles([float(name) for name in model.output_names])
    if n_outputs == 1 and is_objective(asked):
        objective = resolve(asked, n_targets=1)
        if objective.link == model.link:
            return objective
    if kind == "rates":
        return POISSON
    return several_targets(n_outputs) if n_outputs > 1 else SQUARED_ERROR


def grouped(
    predicted: FloatArray, actual: FloatArray, weights: FloatArray, ranked: FloatArray
) -> Reliability:
    """Sort rows (n,) into about ten groups of equal mass; equal ranks stay together.

    >>> means = np.array([1.0, 1.0, 3.0, 5.0])
    >>> grouped(means, np.array([0.0, 2.0, 3.0, 6.0]), np.ones(4), means).actual
    array([1., 3., 6.])
    """
    order = np.argsort(ranked, kind="stable")  # in which sums are rounded
    group = even_groups(ranked[order], weights[order])
    masses: FloatArray = np.bincount(group, weights[order]).astype(np.float64)
    unit = unit_of(actual, predicted)  # sums of huge numbers overflow
    sums = [np.bincount(group, (weights * (x / unit))[order]) for x in (predicted, actual)]
    return Reliability(unit * (sums[0] / masses), unit * (sums[1] / masses), masses)


def even_groups(ranked: FloatArray, weights: FloatArray, n_groups: int = N_GROUPS) -> IntArray:
    """Cut rows, in the order of a column, into groups of about the same mass; ties together.

    >>> even_groups(np.array([1.0, 1.0, 2.0, 3.0]), np.ones(4), 2)
    array([0, 0, 1, 1])
    """
    order = np.argsort(ranked, kind="stable")
    below = np.cumsum(weights[order]) - weights[order] / 2
    number = np.minimum(n_groups * below / weights.sum(), n_groups - 1).astype(np.intp)
    first = np.r_[True, np.diff(ranked[order]) > 0]
    number = number[np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))]
    groups = np.empty(len(ranked), np.intp)
    groups[order] = np.unique(number, return_inverse=True)[1]
    return groups


def unit_of(*arrays: FloatArray) -> float:
    """Power of two in which no sum of squares of these numbers overflows, and no bit is lost.

    >>> unit_of(np.array([0.3, -5.0]))
    8.0
    """
    largest = max(float(np.abs(array).max(initial=0.0)) for array in arrays)
    return math.ldexp(1.0, min(math.frexp(largest)[1], sys.float_info.max_exp - 1))
