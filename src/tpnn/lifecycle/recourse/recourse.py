"""recourse: what a row would have to change for another prediction.

The cheapest change of some features solves a mixed-integer linear programme, by HiGHS. For every
part, weights l_k >= 0 of its options sum to one. A free feature has them on two
neighbouring ends of segments without a step of trees, or on one value between two steps, which a
binary variable for each of these makes sure of; any other part on one option, because its weights
are whole. Effect and cost are linear in the weights.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn._utils.rules import COUNT, check_parameters
from tpnn._utils.threads import ONE_BLAS_THREAD
from tpnn.explain.report.static import notebook
from tpnn.lifecycle.recourse.choices import (
    Choice,
    Effects,
    Leaves,
    Part,
    choice_of,
    good_options,
    least_cost,
    movable,
)
from tpnn.model.model import AnovaModel, part_scores, without_trees
from tpnn.table.words import originals, written

INFEASIBLE = 2  # status of HiGHS in scipy
WHOLE = 1 - 1e-6  # weight of a value that is chosen as it is, up to the solver's tolerance


@dataclass(eq=False)
class Programme:
    """Variables and constraints of one set of features that may change."""

    parts: Sequence[Part]
    n_variables: int = 0
    whole: list[IntArray] = field(default_factory=list)  # variables that are whole numbers
    counts: list[tuple[int, float]] = field(default_factory=list)  # and the largest absolute value
    rows: list[tuple[IntArray, FloatArray, float, float]] = field(default_factory=list)
    weights: list[IntArray] = field(default_factory=list)  # variables of each part

    def __post_init__(self) -> None:
        for part in self.parts:
            variables = self._variables(len(part.effects))
            self.weights.append(variables)
            self.rows.append((variables, np.ones(len(variables)), 1.0, 1.0))
            if part.free is None:
                self.whole.append(variables)
            else:
                self._add_segments(part, variables)

    def _variables(self, count: int) -> IntArray:
        self.n_variables += count
        return np.arange(self.n_variables - count, self.n_variables)

    def _add_segments(self, part: Part, variables: IntArray) -> None:
        """Let a free feature lie between two neighbouring values, on whole steps if it has any."""
        assert part.free is not None
        if not part.free.is_inside:  # it may be left, but not for a value next to it
            self.whole.append(variables[part.free.current : part.free.current + 1])
        is_open = np.concatenate([[False], ~part.free.jumps, [False]])  # before and after each
        lonely = np.flatnonzero(~(is_open[:-1] | is_open[1:]))
        segments = self._variables(int(is_open.sum()) + len(lonely))
        self.whole.append(segments)
        self.rows.append((segments, np.ones(len(segments)), 1.0, 1.0))
        number = np.where(is_open, np.cumsum(is_open) - 1, -1)
        alone = dict(zip(lonely.tolist(), segments[len(segments) - len(lonely) :], strict=True))
        for k, weight in enumerate(variables):
            near = segments[[n for n in number[k : k + 2].tolist() if n >= 0]]
            near = np.append(near, alone[k]) if k in alone else near
            factors = np.append(1.0, -np.ones(len(near)))
            self.rows.append((np.append(weight, near), factors, -np.inf, 0.0))
        if part.free.step is not None:
            (count,) = self._variables(1)
            numbers = part.free.values / part.free.step
            self.counts.append((int(count), float(np.abs(numbers).max())))
            self.rows.append((np.append(variables, count), np.append(numbers, -1.0), 0.0, 0.0))

    def cheapest(self, low: float, high: float, limit: float) -> list[float] | None:
        """Values of the cheapest change with an effect from low to high and a cost up to a limit.

        They are in the order of the features of the parts; None if there is no such change.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        where = np.concatenate(self.weights)
        effects = np.concatenate([part.effects for part in self.parts])
        costs = np.concatenate([part.costs for part in self.parts])
        largest = float(np.abs(effects).max(initial=0.0)) or 1.0
        rows = [*self.rows, (where, effects / largest, low / largest, high / largest),
                (where, costs, -np.inf, limit)]  # fmt: skip
        lines = np.repeat(np.arange(len(rows)), [len(row[0]) for row in rows])
        columns, factors = (np.concatenate([row[k] for row in rows]) for k in (0, 1))
        matrix = csr_array((factors, (lines, columns)), shape=(len(rows), self.n_variables))
        objective, kinds = np.zeros(self.n_variables), np.zeros(self.n_variables)
        objective[where], kinds[np.concatenate(self.whole)] = costs, 1
        least, most = np.zeros(self.n_variables), np.ones(self.n_variables)
        for variable, reach in self.counts:
            kinds[variable], least[variable], most[variable] = 1, -reach, reach
        result = milp(
            objective,
            integrality=kinds,
            bounds=Bounds(least, most),
            constraints=LinearConstraint(matrix, [r[2] for r in rows], [r[3] for r in rows]),
            options={"mip_rel_gap": 0.0},
        )
        return None if result.status == INFEASIBLE else self._values(result)

    def _values(self, result: Any) -> list[float]:
        """Chosen value of each feature, part after part."""
        if result.x is None:
            raise RuntimeError(f"recourse: HiGHS did not find an optimum: {result.message}")
        chosen: list[float] = []
        for part, variables in zip(self.parts, self.weights, strict=True):
            weights, free = result.x[variables], part.free
            if free is None:
                chosen += part.options[int(weights.argmax())].tolist()
            elif weights.max() >= WHOLE:
                chosen.append(float(free.values[int(weights.argmax())]))
            else:
                value = float(weights @ free.values / weights.sum())
                value = round(value / free.step) * free.step if free.step else value
                chosen.append(float(np.clip(value, free.values[0], free.values[-1])))
        return chosen


MARGIN = 4e-6  # of the largest effect; the solver's own tolerance is smaller
ULPS = 1e-13  # relative; sums of components in another order differ by less
ROUNDING = 1e-9  # relative, of costs and effects that are as good as equal


@dataclass(frozen=True, eq=False, kw_only=True)
class Recourse:
    """The cheapest change of a row that reaches a target, or the proof that there is none.

    Parameters
    ----------
    is_possible : bool
        Whether the target can be reached. Where it cannot, that is proved: no values within the
        ranges do it with so few changes.
    changes : dict from str to tuple
        Old and new value of each feature that changes.
    cost : float
        Sum over these features of the change, in units of the distance from the lower to the upper
        tenth of the training rows; another level without order costs 1. NaN if it is impossible.
    prediction : float
        Prediction after the change; if it is impossible, the nearest one that can be reached, and
        NaN if the target is an interval.
    row : dict from str to value
        The row after the change.
    """

    is_possible: bool
    changes: Mapping[str, tuple[Any, Any]]
    cost: float
    prediction: float
    row: Mapping[str, Any]

    @property
    def verdict(self) -> str:
        """Say in a sentence what must change, or that no change is enough."""
        if not self.is_possible:
            return "No change within the ranges reaches the target, which is proved."
        if not self.changes:
            return f"Nothing must change: the prediction is {written(self.prediction)}."
        changes = (
            f"{name} from {_in_words(old)} to {_in_words(new)}"
            for name, (old, new) in self.changes.items()
        )
        end = f"the prediction becomes {written(self.prediction)}"
        return f"Change {' and '.join(changes)}: {end}, at a cost of {written(self.cost)}."

    def _repr_html_(self) -> str:
        """Show the verdict and the changes in a notebook."""
        lines = [(name, *map(_in_words, pair)) for name, pair in self.changes.items()]
        return notebook(self.verdict, pd.DataFrame(lines, columns=["feature", "from", "to"]))


def _in_words(value: Any) -> str:
    """Write a value of a feature; a number without needless digits."""
    return f"{value:.6g}" if isinstance(value, Real) else str(value)


def recourse(
    model: AnovaModel,
    row: Any,
    target: Any,
    *,
    fixed: Collection[Any] = (),
    ranges: Mapping[Any, Any] | None = None,
    max_changes: int = 2,
    offset: Any = None,
) -> Recourse:
    """Find the cheapest change of a row that reaches a target.

    Parameters
    ----------
    model : AnovaModel
        A model with one output.
    row : table of one row
        A record, or a table with one row.
    target : float or (low, high)
        Prediction to reach, from the side on which the row is: a mean, or the probability of the
        second class, as ``AnovaModel.predict`` returns them. Two numbers are an interval.
    fixed : collection of str
        Features that must not change.
    ranges : dict from str to (low, high) or list of levels
        Values that a feature may change to; None is no end. An unchanged value is never wrong.
    max_changes : int, default=2
        How many features may change.
    offset : array of shape (1,), optional
        Known part of the raw score.
    """
    _check(model, max_changes)
    table = model.encoder.read(row)
    if table.n_rows != 1:
        raise ValueError(
            f"row: must be a single row, and the table has {table.n_rows}. Pass one of them."
        )
    numbers = np.array([column[0] for column in model.encoder.columns(table)])
    raw = float(model.raw_scores(table, offset)[0])
    low, high = _raw_target(model, target, raw)
    asked = _Asked(model, numbers, raw, low, high)
    if low <= raw <= high:
        return asked.answer(numbers, 0.0)
    features, limits = movable(model, numbers, fixed, ranges or {})

    @cache
    def choice(feature: int, is_linked: bool) -> Choice:
        return choice_of(model, feature, numbers[feature], limits.get(feature), is_linked)

    able = [feature for feature in features if len(choice(feature, False).values) > 1]
    leaves = None
    if model.remainder is not None:
        leaves = Leaves.of(model.remainder.boxes, numbers, able, max_changes)
    effects = Effects(without_trees(model), leaves, numbers, choice)
    search, subsets = _Search(asked), list[tuple[float, list[Part]]]()
    with ONE_BLAS_THREAD:  # products are many and small
        for size in range(1, min(max_changes, len(able)) + 1):
            for changing in combinations(able, size):
                parts = effects.parts(changing)
                subsets.append((search.look_at(parts), parts))
    for bound, parts in sorted(subsets, key=lambda pair: pair[0]):
        if bound < search.cost * (1 - ROUNDING):
            search.solve(parts)
    if search.best is not None:
        return asked.answer(search.best, search.cost)
    return asked.impossible(search.nearest if asked.sign else None)


class _Search:
    """The cheapest change so far, and the one that goes farthest."""

    def __init__(self, asked: _Asked) -> None:
        self.asked = asked
        self.best: FloatArray | None = None
        self.cost = np.inf
        self.nearest, self.reach = asked.numbers, 0.0

    def look_at(self, parts: Sequence[Part]) -> float:
        """Return a lower bound of the cost, and remember the farthest change of these features."""
        asked = self.asked
        side = 1 if asked.raw < asked.low else -1
        needed = max(asked.low - asked.raw, asked.raw - asked.high)
        if asked.sign:
            self._look_far(parts)
        if sum(float((side * part.effects).max()) for part in parts) < needed * (1 - ROUNDING):
            return np.inf  # no change of these features goes so far
        best = [part.pareto(side) for part in parts]
        if asked.sign:
            values = good_options(best, side, needed * (1 + ROUNDING))
            if values is not None:
                self._try(parts, values)
        return least_cost(best, side, needed)

    def solve(self, parts: Sequence[Part]) -> None:
        """Find the cheapest change of some features, if it is cheaper than what is known."""
        asked = self.asked
        small = [part.without_dominated(asked.sign).up_to(self.cost) for part in parts]
        programme = Programme(small)
        scale = max(float(np.abs(part.effects).max()) for part in parts)
        for margin in (0.0, MARGIN * scale):
            low, high = asked.low - asked.raw + margin, asked.high - asked.raw - margin
            values = programme.cheapest(low, high, self.cost * (1 - ROUNDING))
            if values is None or self._try(parts, values):
                return

    def _look_far(self, parts: Sequence[Part]) -> None:
        """Remember the farthest change on the side that is asked for; it may be the only one."""
        farthest = [int((self.asked.sign * part.effects).argmax()) for part in parts]
        reach = sum(abs(part.effects[k]) for part, k in zip(parts, farthest, strict=True))
        if reach <= self.reach:
            return
        values = [v for part, k in zip(parts, farthest, strict=True) for v in part.options[k]]
        self.nearest, self.reach = self.asked.changed(parts, values), reach
        self._try(parts, values)

    def _try(self, parts: Sequence[Part], values: Sequence[float]) -> bool:
        """Whether a change reaches the target; the cheapest such change is remembered."""
        numbers = self.asked.changed(parts, values)
        reaches, cost = self.asked.reaches(numbers), _cost(parts, values)
        if reaches and cost < self.cost:
            self.best, self.cost = numbers, cost
        return reaches


def _cost(parts: Sequence[Part], values: Sequence[float]) -> float:
    """Cost of the values of all features, part after part."""
    total, start = 0.0, 0
    for part in parts:
        option = np.array(values[start : start + len(part.features)])
        start += len(option)
        if part.free is not None:
            total += float(np.interp(option[0], part.free.values, part.free.costs))
        else:
            total += float(part.costs[(part.options == option).all(1).argmax()])
    return total


@dataclass(frozen=True, eq=False)
class _Asked:
    """The question: a row as numbers, its raw score, and the raw scores that are asked for."""

    model: AnovaModel
    numbers: FloatArray
    raw: float
    low: float
    high: float

    def effect(self, numbers: FloatArray) -> float:
        """Sum of all components and of the remainder on a row of numbers."""
        return float(part_scores(self.model, [*numbers[:, None]]).sum())

    def score(self, numbers: FloatArray) -> float:
        """Raw score of the row with other numbers."""
        return self.raw + self.effect(numbers) - self.effect(self.numbers)

    def reaches(self, numbers: FloatArray) -> bool:
        """Whether the changed row is where it should be, rounding aside."""
        score = self.score(numbers)
        slack = ULPS * (1 + abs(score) + abs(self.raw))
        return self.low + slack <= score <= self.high - slack

    @property
    def sign(self) -> int:
        """Whether the raw score must rise (1) or fall (-1); 0 if it must hit an interval."""
        if np.isfinite(self.low) and np.isfinite(self.high):
            return 0
        return 1 if np.isfinite(self.low) else -1

    def changed(self, parts: Sequence[Part], values: Sequence[float]) -> FloatArray:
        """Numbers of the row after a change of all features, part after part."""
        numbers = self.numbers.copy()
        numbers[[feature for part in parts for feature in part.features]] = values
        return numbers

    def answer(self, numbers: FloatArray, cost: float) -> Recourse:
        """Return a change that reaches the target."""
        before, after = (self._words(row) for row in (self.numbers, numbers))
        moved = (numbers != self.numbers) & ~np.isnan(numbers)  # NaN differs from itself
        names = np.array(self.model.feature_names, object)[moved]
        return Recourse(
            is_possible=True,
            changes={name: (before[name], after[name]) for name in names},
            cost=cost,
            prediction=self._mean(self.score(numbers)),
            row=after,
        )

    def impossible(self, nearest: FloatArray | None) -> Recourse:
        """Return that nothing reaches the target."""
        mean = np.nan if nearest is None else self._mean(self.score(nearest))
        return Recourse(
            is_possible=False, changes={}, cost=np.nan, prediction=mean,
            row=self._words(self.numbers),
        )  # fmt: skip

    def _mean(self, raw: float) -> float:
        return float(self.model.link.inverse(np.array([raw]))[0])

    def _words(self, numbers: FloatArray) -> dict[str, Any]:
        """Row by feature name, as the user writes its values."""
        features = zip(self.model.feature_names, self.model.encoder.features, numbers, strict=True)
        return {
            name: _plain(originals(feature.kind, np.array([number]), feature.levels)[0])
            for name, feature, number in features
        }


def _plain(value: Any) -> Any:
    """Return a number as Python has it; dates and labels are as they are."""
    return float(value) if isinstance(value, np.floating) else value


def _check(model: AnovaModel, max_changes: int) -> None:
    if len(model.intercepts) > 1:
        raise ValueError(
            f"model: recourse needs one output, and this model has {len(model.intercepts)}. Fit "
            "the class of interest against the rest."
        )
    check_parameters({"max_changes": max_changes}, {"max_changes": COUNT})


def _raw_target(model: AnovaModel, target: Any, raw: float) -> tuple[float, float]:
    """Interval of raw scores that is asked for."""
    ends = tuple(np.ravel(target)) if not isinstance(target, Real) else (target,)
    are_numbers = len(ends) in (1, 2) and all(isinstance(end, Real) for end in ends)
    upper = 1.0 if model.task.kind == "classes" else np.inf
    lower = 0.0 if model.link.ratio else -np.inf
    inside = are_numbers and all(lower < float(end) < upper for end in ends)
    if not inside or list(ends) != sorted(ends):
        raise ValueError(
            f"target: must be a prediction above {lower:g} and below {upper:g}, or two of them in "
            f"order, found {target!r}. Pass what predict should return."
        )
    scores = model.link.forward(np.array(ends, np.float64)).tolist()
    if len(scores) == 2:
        return scores[0], scores[1]
    return (scores[0], np.inf) if raw < scores[0] else (-np.inf, scores[0])
