"""Components of three and more features, grown on what main effects and pairs leave over.

Every bag starts from its fitted model and adds boxes to the tables of the higher components until
its held-out loss stops falling. Where there is nothing to find it stops at once and the model stays
what it was. The result is purified: what a table has of lower orders moves there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tpnn.boxes import BoxGrowth, BoxRows, box_scores, grow_visits
from tpnn.growing import Limits
from tpnn.problem import Problem
from tpnn.purification import purify_tables
from tpnn.rectangles import TreeSettings
from tpnn.solution import Solution
from tpnn.workers import Workers

Float32Array = NDArray[np.float32]
FloatArray = NDArray[np.float64]
Component = tuple[int, ...]
Tables = tuple[Float32Array, ...]

VISITS_PER_CHECK = 25
RATE, RIDGE, MIN_MASS = 0.1, 5.0, 2.0  # ridge and smallest leaf in rows,
MOST_SHARE = 0.01  # and at most this share of them
NEW_GAIN = 1e30  # of a component that was not visited yet


@dataclass(frozen=True)
class Deepened:
    """Higher tables of one bag, the visits that made them, and held-out losses."""

    tables: Tables
    visits: int
    before: float
    loss: float


class Deepener:
    """Grows the components of orders above two.

    Parameters
    ----------
    problem : Problem
        Components of every order, the higher ones included, over coded rows and bags.
    limits : Limits
        When to stop; a round is a check of the held-out rows.
    seed : int
        Seed of the random cuts.
    """

    def __init__(self, problem: Problem, limits: Limits, seed: int) -> None:
        self.coded, self.rows, self.objective = problem.coded, problem.rows, problem.objective
        self.axes, self.limits, self.seed = problem.encoder.axes, limits, seed
        self.n_bags = self.rows.training.shape[1]
        self.higher = [part for part in self.coded if part.features.shape[1] > 2]
        self.sizes = tuple(
            np.array([axis.n_nodes for axis in self.axes[part.features.shape[1]]])
            for part in self.higher
        )

    def fit(self, lower: Mapping[Component, FloatArray], solution: Solution) -> Solution:
        """Add higher components to a solution whose tables are ``lower``; pure again."""
        began = time.monotonic()
        raw = self._raw_scores(lower, solution.intercepts)
        with Workers() as workers:
            bags = workers.map(lambda bag: self._grow(bag, raw[:, bag]), range(self.n_bags))
        seconds = time.monotonic() - began
        history = [
            {
                "bag": bag, "visits": deepened.visits, "loss_of_lower_orders": deepened.before,
                "validation_loss": deepened.loss, "seconds": seconds,
            }
            for bag, deepened in enumerate(bags)
        ]  # fmt: skip
        constant, pure = purify_tables(self._combined(lower, bags), self.axes)
        tables = [pure[tuple(s)] for part in self.coded for s in part.features.tolist()]
        return Solution(solution.intercepts + constant, tables, None, solution.history + history)

    def _raw_scores(
        self, lower: Mapping[Component, FloatArray], intercepts: FloatArray
    ) -> Float32Array:
        """Raw scores of the given components, (n_rows, n_bags)."""
        codes = {part.features.shape[1]: part.codes for part in self.coded}
        raw = (self.rows.offset + intercepts).astype(np.float32)
        for component, table in lower.items():
            raw += table[tuple(codes[len(component)][feature] for feature in component)]
        return raw

    def _side(self, weights: Float32Array, raw: Float32Array) -> BoxRows:
        where = np.flatnonzero(weights)
        return BoxRows(
            tuple(part.codes[:, where] for part in self.higher),
            tuple(part.features for part in self.higher),
            self.sizes,
            tuple(part.n_nodes for part in self.higher),
            self.rows.y[where, 0].astype(np.float64),
            weights[where].astype(np.float64),
            raw[where].astype(np.float64),
        )

    def _grow(self, bag: int, raw: Float32Array) -> Deepened:
        size = float(self.rows.sizes[bag])
        training = self._side(self.rows.training[:, bag] * self.rows.sizes[bag], raw)
        validation = self._side(self.rows.validation[:, bag], raw)
        growth = self._new_growth(len(training.y), bag)
        settings = tuple(_tree(part.features.shape[1], size) for part in self.higher)
        before = self._loss(validation, growth.tables)
        best, best_round = Deepened(_copy(growth.tables), 0, before, before), 0
        for done in range(1, self.limits.max_rounds + 1):
            if time.monotonic() >= self.limits.deadline:
                break
            if done - best_round > self.limits.patience:
                break
            self._refresh(training, growth)
            grow_visits(training, growth, VISITS_PER_CHECK, settings)
            loss = self._loss(validation, growth.tables)
            if loss < best.loss:
                visits = done * VISITS_PER_CHECK
                best, best_round = Deepened(_copy(growth.tables), visits, before, loss), done
        return best

    def _new_growth(self, n_rows: int, bag: int) -> BoxGrowth:
        n_components = sum(len(part.features) for part in self.higher)
        return BoxGrowth(
            tuple(np.zeros(part.shape, np.float32) for part in self.higher),
            np.zeros(n_rows),
            np.zeros(n_rows),
            np.full(n_components, NEW_GAIN),
            np.array([self.seed * self.n_bags + bag], np.uint64),
        )

    def _refresh(self, rows: BoxRows, growth: BoxGrowth) -> None:
        """Exact gradient and hessian of every row."""
        mean = self.objective.link.inverse(rows.raw + box_scores(rows, growth.tables))
        growth.residual[:] = rows.weights * (rows.y - mean)
        growth.hessian[:] = rows.weights * self.objective.variance(mean)

    def _loss(self, rows: BoxRows, tables: Tables) -> float:
        losses = self.objective.loss(rows.y, rows.raw + box_scores(rows, tables))
        return float(np.average(losses, weights=rows.weights))

    def _combined(
        self, lower: Mapping[Component, FloatArray], bags: Sequence[Deepened]
    ) -> dict[Component, FloatArray]:
        """Tables (M_1, ..., M_d, n_bags) of all components, zero where nothing was grown yet."""
        combined = {}
        for part in self.coded:
            order = part.features.shape[1]
            for component in map(tuple, part.features.tolist()):
                sizes = (self.axes[order][feature].n_nodes for feature in component)
                combined[component] = lower.get(component, np.zeros((*sizes, self.n_bags)))
        for number, part in enumerate(self.higher):
            order = part.features.shape[1]
            for index, component in enumerate(map(tuple, part.features.tolist())):
                cells = tuple(map(slice, combined[component].shape[:-1]))
                grown = (bag.tables[number][index] for bag in bags)
                tables = [flat.reshape([part.n_nodes] * order)[cells] for flat in grown]
                combined[component] = np.stack(tables, -1).astype(np.float64)
        return combined


def _tree(order: int, size: float) -> TreeSettings:
    """Twice as many boxes as random cuts alone would make; ridge and leaves fit the rows."""
    most = MOST_SHARE * size
    return TreeSettings(2 ** (order + 1), RATE, min(RIDGE, most), min(MIN_MASS, most), 0.1, 8, True)


def _copy(tables: Tables) -> Tables:
    return tuple(table.copy() for table in tables)
