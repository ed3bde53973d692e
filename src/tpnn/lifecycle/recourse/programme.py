"""Programme: the cheapest change of some features as a mixed-integer linear programme (HiGHS).

For every part, weights l_k >= 0 of its options sum to one. A free feature has them on two
neighbouring ends of segments without a step of trees, or on one value between two steps, which a
binary variable for each of these makes sure of; any other part on one option, because its weights
are whole. Effect and cost are linear in the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.lifecycle.recourse.parts import Part

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
