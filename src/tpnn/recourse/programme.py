"""Programme: the cheapest choice as a mixed-integer linear programme, solved by HiGHS.

For every feature, weights l_k >= 0 of its values sum to one; a free feature has them on two
neighbours, which a binary variable for each segment makes sure of, any other on one value. An
interaction has weights w on the cells of its grid whose sums over the other features are the l of
each feature: the product of the choices. The raw score and the cost are linear in l and w. A binary
variable says for every feature whether it has left its current value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tpnn._typing import FloatArray, IntArray
from tpnn.recourse.choices import Choice, Effects

INFEASIBLE = 2  # status of HiGHS in scipy
UNCHANGED = 1 - 1e-6  # weight of a current value that is kept, up to the solver's tolerance


@dataclass(eq=False)
class Programme:
    """Variables and constraints; built once, solved for several targets.

    Parameters
    ----------
    choices : sequence of Choice
        What may change.
    effects : Effects
        What each choice adds to the raw score.
    max_changes : int
        How many features may change.
    """

    choices: Sequence[Choice]
    effects: Effects
    max_changes: int
    n_variables: int = 0
    binary: list[IntArray] = field(default_factory=list)
    whole: list[tuple[int, float]] = field(default_factory=list)  # and its largest absolute value
    rows: list[tuple[IntArray, FloatArray, float, float]] = field(default_factory=list)
    weights: list[IntArray] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.weights = [self._variables(len(choice.values)) for choice in self.choices]
        moved = self._variables(len(self.choices))
        self.binary.append(moved)
        for choice, own, flag in zip(self.choices, self.weights, moved, strict=True):
            self._add_choice(choice, own)
            left = np.array([own[choice.current], flag])
            self._constrain(left, np.ones(2), 1.0, np.inf)
        self._constrain(moved, np.ones(len(moved)), 0.0, float(self.max_changes))
        scores, parts = [], []
        for places, grid in self.effects.grids.items():
            cells = self._cells(places, grid.shape)
            scores.append(cells.ravel())
            parts.append(grid.ravel())
        self.score = np.concatenate(scores), np.concatenate(parts)

    def _variables(self, count: int) -> IntArray:
        self.n_variables += count
        return np.arange(self.n_variables - count, self.n_variables)

    def _constrain(self, where: IntArray, factors: FloatArray, low: float, high: float) -> None:
        self.rows.append((where, factors, low, high))

    def _add_choice(self, choice: Choice, own: IntArray) -> None:
        """One value, or a point between two neighbours."""
        self._constrain(own, np.ones(len(own)), 1.0, 1.0)
        if not choice.is_free:
            self.binary.append(own)
            return
        if not choice.is_inside:  # it may be left, but not for a value next to it
            self.binary.append(own[choice.current : choice.current + 1])
        segments = self._variables(len(own) - 1)
        self.binary.append(segments)
        self._constrain(segments, np.ones(len(segments)), 1.0, 1.0)
        for k, weight in enumerate(own):
            near = segments[max(k - 1, 0) : k + 1]
            where = np.append(weight, near)
            self._constrain(where, np.append(1.0, -np.ones(len(near))), -np.inf, 0.0)
        if choice.step is not None:
            (count,) = self._variables(1)
            numbers = choice.values / choice.step
            self.whole.append((int(count), float(np.abs(numbers).max())))
            self._constrain(np.append(own, count), np.append(numbers, -1.0), 0.0, 0.0)

    def _cells(self, places: tuple[int, ...], shape: tuple[int, ...]) -> IntArray:
        """Weights of the cells of a grid; of one feature they are the weights of its values."""
        if len(places) == 1:
            return self.weights[places[0]]
        cells = self._variables(int(np.prod(shape))).reshape(shape)
        for axis, place in enumerate(places):
            slices = np.moveaxis(cells, axis, 0).reshape(shape[axis], -1)
            for weight, cut in zip(self.weights[place], slices, strict=True):
                self._constrain(np.append(cut, weight), np.append(np.ones(len(cut)), -1.0), 0, 0)
        return cells

    def cheapest(self, low: float, high: float) -> list[float] | None:
        """Values of the cheapest choice whose effect is from low to high; None if there is none."""
        costs = np.zeros(self.n_variables)
        for choice, own in zip(self.choices, self.weights, strict=True):
            costs[own] = choice.costs
        return self._solve(costs, low, high)

    def farthest(self, sign: int) -> list[float]:
        """Values of the choice with the largest effect, or the smallest for sign -1."""
        objective = np.zeros(self.n_variables)
        np.add.at(objective, self.score[0], -sign * self.score[1])
        found = self._solve(objective, -np.inf, np.inf)
        assert found is not None  # leaving everything as it is, is possible
        return found

    def _solve(self, objective: FloatArray, low: float, high: float) -> list[float] | None:
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        largest = float(np.abs(self.score[1]).max(initial=0.0)) or 1.0
        target = (self.score[0], self.score[1] / largest, low / largest, high / largest)
        rows = [*self.rows, target]
        sizes = [len(where) for where, *_ in rows]
        columns = np.concatenate([where for where, *_ in rows])
        factors = np.concatenate([factor for _, factor, *_ in rows])
        lines = np.repeat(np.arange(len(rows)), sizes)
        matrix = csr_array((factors, (lines, columns)), shape=(len(rows), self.n_variables))
        kinds, upper, lower = np.zeros(self.n_variables), np.ones(self.n_variables), 0.0
        kinds[np.concatenate(self.binary)] = 1
        least = np.full(self.n_variables, lower)
        for place, reach in self.whole:
            kinds[place], least[place], upper[place] = 1, -reach, reach
        result = milp(
            objective,
            integrality=kinds,
            bounds=Bounds(least, upper),
            constraints=LinearConstraint(matrix, [r[2] for r in rows], [r[3] for r in rows]),
            options={"mip_rel_gap": 0.0},
        )
        return None if result.status == INFEASIBLE else self._values(result)

    def _values(self, result: Any) -> list[float]:
        """Chosen value of each feature."""
        if result.x is None:
            raise RuntimeError(f"recourse: HiGHS must find an optimum, found: {result.message}")
        chosen = []
        for choice, own in zip(self.choices, self.weights, strict=True):
            weights = result.x[own]
            if weights[choice.current] >= UNCHANGED:
                chosen.append(float(choice.values[choice.current]))
            elif not choice.is_free:
                chosen.append(float(choice.values[int(weights.argmax())]))
            else:
                value = float(np.clip(weights @ choice.values / weights.sum(),
                                      choice.values[0], choice.values[-1]))  # fmt: skip
                chosen.append(round(value / choice.step) * choice.step if choice.step else value)
        return chosen
