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
from tpnn.grower import Limits
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
class Side:
    """One side of a bag's split: coded rows, targets, weights in rows, raw scores that are given.

    Targets have shape (n_rows, T), weights (n_rows, 1), raw scores (n_rows, K).
    """

    rows: BoxRows
    y: Float32Array
    weights: Float32Array
    raw: Float32Array


@dataclass(frozen=True)
class Deepened:
    """Higher tables of one bag, one entry per output, visits that made them, held-out losses."""

    tables: tuple[Tables, ...]
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
            bags = workers.map(lambda bag: self._grow(bag, raw[bag]), range(self.n_bags))
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
        """Raw scores of the given components, (n_bags, n_rows, K)."""
        codes = {part.features.shape[1]: part.codes for part in self.coded}
        raw = (self.rows.offset + intercepts).astype(np.float32)
        for component, table in lower.items():
            raw += table[tuple(codes[len(component)][feature] for feature in component)]
        by_bag = raw.reshape(len(raw), self.n_bags, self.objective.n_outputs)
        return np.ascontiguousarray(by_bag.swapaxes(0, 1))

    def _side(self, weights: Float32Array, raw: Float32Array) -> Side:
        where = np.flatnonzero(weights)
        rows = BoxRows(
            tuple(part.codes[:, where] for part in self.higher),
            tuple(part.features for part in self.higher),
            self.sizes,
            tuple(part.n_nodes for part in self.higher),
        )
        return Side(rows, self.rows.y[where], weights[where, None], raw[where])

    def _grow(self, bag: int, raw: Float32Array) -> Deepened:
        size = float(self.rows.sizes[bag])
        training = self._side(self.rows.training[:, bag] * self.rows.sizes[bag], raw)
        validation = self._side(self.rows.validation[:, bag], raw)
        growths = self._new_growths(len(training.y), bag)
        settings = tuple(_tree(part.features.shape[1], size) for part in self.higher)
        before = self._loss(validation, growths)
        best, best_round = Deepened(_copy(growths), 0, before, before), 0
        for done in range(1, self.limits.max_rounds + 1):
            if time.monotonic() >= self.limits.deadline:
                break
            if done - best_round > self.limits.patience:
                break
            self._refresh(training, growths)
            for growth in growths:
                grow_visits(training.rows, growth, VISITS_PER_CHECK, settings)
            loss = self._loss(validation, growths)
            if loss < best.loss:
                visits = done * VISITS_PER_CHECK
                best, best_round = Deepened(_copy(growths), visits, before, loss), done
        return best

    def _new_growths(self, n_rows: int, bag: int) -> list[BoxGrowth]:
        """State of every output."""
        n_components = sum(len(part.features) for part in self.higher)
        n_outputs = self.objective.n_outputs
        return [
            BoxGrowth(
                tuple(np.zeros(part.shape, np.float32) for part in self.higher),
                np.zeros(n_rows),
                np.zeros(n_rows),
                np.full(n_components, NEW_GAIN),
                np.array([(self.seed * self.n_bags + bag) * n_outputs + output], np.uint64),
            )
            for output in range(n_outputs)
        ]

    def _refresh(self, side: Side, growths: Sequence[BoxGrowth]) -> None:
        """Exact gradient and hessian of every row."""
        gradient, hessian = self.objective.slopes(side.y, _scores(side, growths), side.weights)
        for output, growth in enumerate(growths):
            growth.residual[:] = -side.weights[:, 0] * gradient[:, output]
            growth.hessian[:] = side.weights[:, 0] * hessian[:, output]

    def _loss(self, side: Side, growths: Sequence[BoxGrowth]) -> float:
        losses = self.objective.losses(side.y, _scores(side, growths), side.weights)
        return float(np.average(losses, weights=side.weights))

    def _combined(
        self, lower: Mapping[Component, FloatArray], bags: Sequence[Deepened]
    ) -> dict[Component, FloatArray]:
        """Tables (M_1, ..., M_d, n_bags * K) of all components, zero where nothing was grown."""
        combined = {}
        n_lanes = self.n_bags * self.objective.n_outputs
        for part in self.coded:
            order = part.features.shape[1]
            for component in map(tuple, part.features.tolist()):
                sizes = (self.axes[order][feature].n_nodes for feature in component)
                combined[component] = lower.get(component, np.zeros((*sizes, n_lanes)))
        for number, part in enumerate(self.higher):
            order = part.features.shape[1]
            for index, component in enumerate(map(tuple, part.features.tolist())):
                cells = tuple(map(slice, combined[component].shape[:-1]))
                grown = (tables[number][index] for bag in bags for tables in bag.tables)
                tables = [flat.reshape([part.n_nodes] * order)[cells] for flat in grown]
                combined[component] = np.stack(tables, -1).astype(np.float64)
        return combined


def _tree(order: int, size: float) -> TreeSettings:
    """Twice as many boxes as random cuts alone would make; ridge and leaves fit the rows."""
    most = MOST_SHARE * size
    return TreeSettings(2 ** (order + 1), RATE, min(RIDGE, most), min(MIN_MASS, most), 0.1, 8, True)


def _copy(growths: Sequence[BoxGrowth]) -> tuple[Tables, ...]:
    return tuple(tuple(table.copy() for table in growth.tables) for growth in growths)


def _scores(side: Side, growths: Sequence[BoxGrowth]) -> FloatArray:
    """Raw scores of rows, (n_rows, K)."""
    added = [box_scores(side.rows, growth.tables) for growth in growths]
    scores: FloatArray = side.raw + np.stack(added, axis=1)
    return scores
