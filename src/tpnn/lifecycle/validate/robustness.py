"""Robustness: what predictions do when values change, and in the worst case.

The worst case is how far the raw score of a row can move if each number moves by an amount. Within
a cell between nodes a component is linear in each feature, so over a box it is largest at a corner
of the box, on a node or where both meet. All of these are tried, for every component by itself: no
value in the box is left out, and no search is needed. Main effects share no feature, so the sum of
their worst cases is attained. Interactions share features, which cannot be at several places at
once: then the sum is a bound, which is never exceeded but need not be attained. The trees of a
remainder share features as well, and the extremes of all trees are added. A search feature after
feature shows a move that is attained; the truth lies between the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tpnn._utils.arrays import BoolArray, FloatArray, IntArray
from tpnn.anova.boxes import extremes
from tpnn.explain.metrics.estimates import Estimate, estimate
from tpnn.explain.report.writing import records
from tpnn.model.evidence import Evidence
from tpnn.model.model import (
    AnovaModel,
    column_scores,
    part_names,
    part_scores,
    restricted,
)
from tpnn.model.remainder import Remainder
from tpnn.model.task import Task
from tpnn.table.axis import Axis
from tpnn.table.columns import array_of, rows_of
from tpnn.table.words import shown_unit

VALUES_PER_STEP = 1_000_000


class Moves(NamedTuple):
    """Largest rise and largest fall of every component, both (n_rows, n_components, n_outputs).

    Those of the remainder come last, if the model has one.
    """

    rises: FloatArray
    falls: FloatArray


def worst_moves(
    model: AnovaModel, columns: Sequence[FloatArray], amounts: Mapping[int, float]
) -> Moves:
    """Worst case of every component on every row, and of the remainder.

    Columns are numbers as the encoder reads them. Amounts say how far a feature may move, in its
    own unit; other features and missing values stay.
    """
    moves = _moves_of_components(model, columns, amounts)
    if model.remainder is None:
        return moves
    rest = _moves_of_remainder(model, model.remainder, columns, amounts)
    both = (np.concatenate([one, two[:, None]], 1) for one, two in zip(moves, rest, strict=True))
    return Moves(*both)


def _moves_of_remainder(
    model: AnovaModel, rest: Remainder, columns: Sequence[FloatArray], amounts: Mapping[int, float]
) -> Moves:
    """Worst case of the remainder, (n_rows, n_outputs): of its trees, and of what tables hold."""
    held = replace(model, components=rest.components, tables=rest.tables, evidence=Evidence())
    tables = _moves_of_components(held, columns, amounts)
    lows, highs = (
        {j: rest.trees.features[j].codes(columns[j] + sign * amounts.get(j, 0.0))
         for j in rest.trees.used}
        for sign in (-1, 1)
    )  # fmt: skip
    least, most = extremes(rest.trees, lows, highs)
    now = rest.trees.scores(columns)
    return Moves(most - now + tables.falls.sum(1), now - least + tables.rises.sum(1))


def _moves_of_components(
    model: AnovaModel, columns: Sequence[FloatArray], amounts: Mapping[int, float]
) -> Moves:
    shape = len(columns[0]), len(model.components), len(model.intercepts)
    rises, falls = np.empty(shape), np.empty(shape)
    for index, component in enumerate(model.components):
        alone, axes = restricted(model, [component]), model.axes(component)
        tried = [
            values_to_try(axis, columns[feature], amounts.get(feature, 0.0))
            for axis, feature in zip(axes, component, strict=True)
        ]
        sizes = [each.shape[1] for each in tried]
        step = max(VALUES_PER_STEP // prod(sizes), 1)
        for start in range(0, shape[0], step):
            rows = slice(start, start + step)
            n_rows = len(columns[0][rows])
            wide = [np.zeros(n_rows * prod(sizes))] * len(columns)  # all combinations of each row
            for place, (feature, each) in enumerate(zip(component, tried, strict=True)):
                along = np.expand_dims(each[rows], [1 + k for k in range(len(axes)) if k != place])
                wide[feature] = np.broadcast_to(along, (n_rows, *sizes)).ravel()
            values = column_scores(alone, wide).reshape(n_rows, prod(sizes), -1)
            rises[rows, index] = values.max(1) - values[:, 0]
            falls[rows, index] = values[:, 0] - values.min(1)
    return Moves(rises, falls)


def attained_moves(
    model: AnovaModel,
    columns: Sequence[FloatArray],
    amounts: Mapping[int, float],
    sign: int,
    output: int,
) -> FloatArray:
    """Rise (sign 1) or fall (-1) of one output that some values attain, (n_rows,).

    Each feature in turn goes to the best of its values for the components, the features before it
    where they are now. If the remainder spoils this, the row stays as it is.
    """
    moved, n_rows = list(columns), len(columns[0])
    for feature, amount in amounts.items():
        with_feature = restricted(model, [s for s in model.components if feature in s])
        orders = sorted(set(with_feature.components.orders)) or [1]
        axes = [model.encoder.axes[order][feature] for order in orders]
        tried = np.column_stack([values_to_try(axis, columns[feature], amount) for axis in axes])
        wide = [np.repeat(column, tried.shape[1]) for column in moved]
        wide[feature] = tried.ravel()
        scores = _output_sums(with_feature, wide, output).reshape(tried.shape)
        moved[feature] = tried[np.arange(n_rows), (sign * scores).argmax(1)]
    gain = sign * (_output_sums(model, moved, output) - _output_sums(model, columns, output))
    return np.maximum(gain, 0.0)


def _output_sums(model: AnovaModel, columns: Sequence[FloatArray], output: int) -> FloatArray:
    """Sum of all components and of the remainder of one output, (n_rows,)."""
    shape = len(columns[0]), -1, len(model.intercepts)
    return np.asarray(part_scores(model, columns).reshape(shape)[..., output].sum(1))


def values_to_try(axis: Axis, column: FloatArray, amount: float) -> FloatArray:
    """Value of each row, the ends of its interval and the nodes inside, (n_rows, n_values).

    >>> axis = Axis(np.array([0.0, 1.0, 2.0]), np.full(3, 1 / 3))
    >>> values_to_try(axis, np.array([0.9, 5.0]), 0.5)
    array([[0.9, 0.4, 1.4, 1. ],
           [5. , 4.5, 5.5, 5. ]])
    """
    if amount == 0:
        return column[:, None]
    nodes, low, high = axis.values, column - amount, column + amount
    first = np.searchsorted(nodes, low, side="right")
    last = np.searchsorted(nodes, high, side="left")
    numbers = first[:, None] + np.arange((last - first).max(initial=0))
    inside = numbers < last[:, None]
    on_nodes = np.where(inside, nodes[np.minimum(numbers, len(nodes) - 1)], column[:, None])
    return np.column_stack([column, low, high, on_nodes])


NOISE = 0.05  # of the distance from the lower to the upper tenth of the training rows
SEED = 0
MOST_ROWS = 10_000  # that are changed
MOST_WORST_ROWS = 1_000  # whose worst case is computed, times the number of outputs
NOISE_WORD, OTHERS_WORD, MISSING = "noise", "values of other rows", "missing"
ALL_NUMBERS = "(all numbers)"
FRAMES = ("changes", "extrapolation", "worst_case", "worst_case_components")


@dataclass(frozen=True, eq=False, kw_only=True)
class Robustness:
    """How a model behaves when values change.

    Parameters
    ----------
    noise : float
        Size of the noise, and of the largest move in the worst case, as a share of the distance
        from the lower to the upper tenth of the training rows.
    score : str
        Which score ``changes`` shows.
    changes : DataFrame
        For each ``change`` ("noise", "values of other rows", "missing") and feature: the standard
        deviation ``amount`` of the noise in the feature's unit, or in days; mean and largest
        absolute change of the prediction; the score after the change, and by how much it rose.
    extrapolation : DataFrame
        Rows whose value fit has not seen, by feature: below or above the outer nodes, levels, and
        missing values where fit saw none.
    n_outside : int
        Rows with any such value.
    worst_case : DataFrame
        How far raw scores can rise and fall if every number moves by at most ``noise``: mean and
        largest over the rows of a move that is attained, and of a bound that nothing exceeds.
    worst_case_components : DataFrame
        The mean bounds split into components and the remainder, which sum to them.
    is_exact : bool
        Whether the bound is attained on every row: features do not interact, and there is no
        remainder.
    decisions_kept : float or None
        Of two classes, the share of rows whose most probable class no such move can change.
    n_rows : int
        Rows that were changed.
    n_worst_rows : int
        Rows whose worst case was computed.
    """

    noise: float
    score: str
    changes: pd.DataFrame
    extrapolation: pd.DataFrame
    n_outside: int
    worst_case: pd.DataFrame
    worst_case_components: pd.DataFrame
    is_exact: bool
    decisions_kept: float | None
    n_rows: int
    n_worst_rows: int

    def to_dict(self) -> dict[str, Any]:
        """Return everything as values that JSON can hold."""
        return {n: records(x) if n in FRAMES else x for n, x in vars(self).items()}


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows that are changed: their columns as numbers, targets and raw scores."""

    model: AnovaModel
    task: Task
    columns: list[FloatArray]
    y: Any
    raw: FloatArray

    def pick(self, rows: IntArray) -> _Rows:
        """Return some of the rows."""
        columns = [column[rows] for column in self.columns]
        return replace(self, columns=columns, y=rows_of(self.y, rows), raw=self.raw[rows])

    def after(self, changed: Mapping[int, FloatArray]) -> FloatArray:
        """Raw scores with other values of some features, the shape of ``raw``."""
        touched = [s for s in self.model.components if not changed.keys().isdisjoint(s)]
        affected, rest = restricted(self.model, touched), self.model.remainder
        columns = [changed.get(number, column) for number, column in enumerate(self.columns)]
        old, new = (column_scores(affected, rows).sum(1) for rows in (self.columns, columns))
        if rest is not None and not changed.keys().isdisjoint(rest.features):
            moved = rest.scores(self.model.encoder.axes, columns) - self.rest
            new = new + moved.reshape(new.shape)
        return np.asarray(self.raw + (new - old))

    @cached_property
    def rest(self) -> FloatArray:
        """Remainder before any change, (n_rows, n_outputs)."""
        assert self.model.remainder is not None
        return self.model.remainder.scores(self.model.encoder.axes, self.columns)

    def scored(self, raw: FloatArray) -> Estimate:
        """First score of the task."""
        return estimate(self.task, self.y, raw)[0]

    @cached_property
    def score(self) -> Estimate:
        """Score before any change."""
        return self.scored(self.raw)

    def line(
        self, change: str, feature: str, amount: float, changed: Mapping[int, FloatArray]
    ) -> dict[str, Any]:
        """One line of ``changes``."""
        raw, inverse = self.after(changed), self.model.link.inverse
        moved, score = np.abs(inverse(raw) - inverse(self.raw)), self.scored(raw).value
        return {
            "change": change, "feature": feature, "amount": amount,
            "mean_change": float(moved.mean()), "largest_change": float(moved.max(initial=0.0)),
            "score": score, "score_change": score - self.score.value,
        }  # fmt: skip


def robustness(
    model: AnovaModel, X: Any, y: Any, raw: FloatArray, *, task: Task, noise: float = NOISE
) -> Robustness:
    """Change the values of rows, and see what predictions do; ``raw`` contains the offset."""
    columns = model.encoder.columns(model.encoder.read(X))
    every = _Rows(model, task, columns, y, raw)
    rows = every.pick(_spread(y, MOST_ROWS))
    few = rows.pick(_spread(rows.y, -(-MOST_WORST_ROWS // len(model.intercepts))))
    amounts = noise_amounts(model, noise)
    moves = worst_moves(model, few.columns, amounts)
    extrapolation, outside = _extrapolation(model, columns)
    worst, components = _worst_frames(few, amounts, moves)
    return Robustness(
        noise=float(noise),
        score=rows.score.name,
        changes=_changes(rows, amounts),
        extrapolation=extrapolation,
        n_outside=int(outside.sum()),
        worst_case=worst,
        worst_case_components=components,
        is_exact=max(model.components.orders, default=1) == 1 and model.remainder is None,
        decisions_kept=_decisions_kept(few, moves),
        n_rows=len(rows.raw),
        n_worst_rows=len(few.raw),
    )


def noise_amounts(model: AnovaModel, noise: float) -> dict[int, float]:
    """Size of the noise of every feature of numbers that the model uses, in its own unit."""
    finest = model.encoder.axes[min(model.encoder.axes)]
    return {
        feature: noise * finest[feature].tenths_range
        for feature in _used(model)
        if not model.encoder.features[feature].levels and not finest[feature].is_empty
    }


def _used(model: AnovaModel) -> list[int]:
    return [model.feature_names.index(name) for name in model.required_features]


def _spread(y: Any, most: int) -> IntArray:
    """At most so many rows, evenly spread over the targets; of survival, over the events."""
    targets = array_of(y)
    key = targets if targets.ndim == 1 else targets[:, -1]
    if len(key) <= most:
        return np.arange(len(key))
    order = np.argsort(key, kind="stable")
    return np.asarray(order[np.linspace(0, len(key) - 1, most).astype(np.intp)])


def _changes(rows: _Rows, amounts: Mapping[int, float]) -> pd.DataFrame:
    """Lines of all changes, the largest of each kind first."""
    names, lines, noisy = rows.model.feature_names, [], {}
    for feature in _used(rows.model):
        rng, column = np.random.default_rng([SEED, feature]), rows.columns[feature]
        others = {feature: column[rng.permutation(len(column))]}
        missing = {feature: np.full(len(column), np.nan)}
        if feature in amounts:
            noisy[feature] = column + amounts[feature] * rng.normal(size=len(column))
            amount = amounts[feature] / shown_unit(rows.model.encoder.features[feature].kind)
            lines.append(rows.line(NOISE_WORD, names[feature], amount, {feature: noisy[feature]}))
        lines.append(rows.line(OTHERS_WORD, names[feature], np.nan, others))
        lines.append(rows.line(MISSING, names[feature], np.nan, missing))
    if noisy:
        lines.append(rows.line(NOISE_WORD, ALL_NUMBERS, np.nan, noisy))
    kinds = [NOISE_WORD, OTHERS_WORD, MISSING]
    lines.sort(key=lambda line: (kinds.index(line["change"]), -line["mean_change"]))
    return pd.DataFrame(lines)


def _extrapolation(model: AnovaModel, columns: list[FloatArray]) -> tuple[pd.DataFrame, BoolArray]:
    """Count the values that fit has not seen, by feature, and mark the rows that have any."""
    outside, lines = np.zeros(len(columns[0]), bool), []
    for feature in _used(model):
        axis = model.encoder.axes[min(model.encoder.axes)][feature]
        unseen = _unseen(axis, columns[feature])
        outside |= np.any(list(unseen.values()), axis=0)
        counts = {name: int(rows.sum()) for name, rows in unseen.items()}
        if any(counts.values()):
            lines.append({"feature": model.feature_names[feature], **counts})
    return pd.DataFrame(lines), outside


def _unseen(axis: Axis, column: FloatArray) -> dict[str, BoolArray]:
    """Rows beyond the outer nodes, with an unseen level, and with a first missing value."""
    nodes, is_level = axis.values, np.isinf(column)
    has_range = len(nodes) > 0 and not axis.levels
    low, high = (nodes[0], nodes[-1]) if has_range else (-np.inf, np.inf)
    return {
        "below": ~is_level & (column < low),
        "above": ~is_level & (column > high),
        "unseen_level": is_level,
        "first_missing": np.isnan(column) & (not axis.has_missing),
    }


def _worst_frames(
    rows: _Rows, amounts: Mapping[int, float], moves: Moves
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Worst case over the rows, and the mean bound of every component."""
    model, outputs = rows.model, rows.model.output_names or ("",)
    names, lines, by_component = part_names(model), [], []
    for k, output in enumerate(outputs):
        for sign, values in ((1, moves.rises[..., k]), (-1, moves.falls[..., k])):
            bound = values.sum(1)  # (n_rows,)
            attained = attained_moves(model, rows.columns, amounts, sign, k)
            lines.append({
                "output": output, "direction": "rise" if sign > 0 else "fall",
                "mean_attained": float(attained.mean()), "mean_bound": float(bound.mean()),
                "largest_attained": float(attained.max()), "largest_bound": float(bound.max()),
            })  # fmt: skip
        means = moves.rises[..., k].mean(0), moves.falls[..., k].mean(0)
        by_component += [
            {"output": output, "component": name, "rise": float(rise), "fall": float(fall)}
            for name, rise, fall in zip(names, *means, strict=True)
        ]
    frames = pd.DataFrame(lines), pd.DataFrame(by_component)
    if model.output_names:
        return frames
    return frames[0].drop(columns="output"), frames[1].drop(columns="output")


def _decisions_kept(rows: _Rows, moves: Moves) -> float | None:
    """Share of rows whose raw score stays on its side of zero, whatever moves; of two classes."""
    if rows.task.kind != "classes" or rows.raw.ndim > 1:
        return None
    up, down = rows.raw + moves.rises.sum((1, 2)), rows.raw - moves.falls.sum((1, 2))
    return float(np.mean(np.where(rows.raw > 0, down > 0, up <= 0)))
