"""Components of three and more features, grown on what main effects and pairs leave over.

Every bag starts from its fitted model and adds boxes to the tables of the higher components until
its held-out loss stops falling. Where there is nothing to find it stops at once and the model stays
what it was. The result is purified: what a table has of lower orders moves there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tpnn._threads import Workers
from tpnn._typing import Float32Array, FloatArray, IntArray
from tpnn.anova.purify import purify_tables
from tpnn.grow.bag import Limits, for_size, limited
from tpnn.grow.boxes import BoxGrowth, BoxRows, box_scores, grow_visits
from tpnn.grow.rectangles import TreeSettings
from tpnn.problem.problem import Problem
from tpnn.problem.solution import Solution

Component = tuple[int, ...]

VISITS_PER_CHECK = 25  # of each output
RATE, RIDGE, MIN_MASS = 0.1, 5.0, 2.0  # ridge and smallest leaf in rows
NEW_GAIN = 1e30  # of a component that was not visited yet


@dataclass(frozen=True)
class Side:
    """One side of a bag's split.

    Parameters
    ----------
    rows : BoxRows
        Coded rows.
    y : array of shape (n_rows, T)
        Targets on the training scale.
    weights : array of shape (n_rows, 1)
        Weights, in rows.
    raw : array of shape (n_rows, K)
        Raw scores of the lower orders.
    """

    rows: BoxRows
    y: FloatArray
    weights: FloatArray
    raw: FloatArray


@dataclass(frozen=True)
class Deepened:
    """Higher tables of one bag.

    Parameters
    ----------
    tables : list of array of shape (n_components, M^order, K)
        One array per order.
    visits : int
        Trees of each output that made them.
    before, loss : float
        Held-out loss without and with them.
    """

    tables: list[Float32Array]
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
        self.problem, self.limits, self.seed = problem, limits, seed
        self.objective, self.axes = problem.objective, problem.encoder.axes
        self.n_bags = problem.rows.training.shape[1]
        self.higher = [part for part in problem.coded if part.features.shape[1] > 2]

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
        constants, pure = purify_tables(self._combined(lower, bags), self.axes)
        tables = [pure[component] for component in self.problem.ordered]
        return Solution(solution.intercepts + constants, tables, None, solution.history + history)

    def _raw_scores(
        self, lower: Mapping[Component, FloatArray], intercepts: FloatArray
    ) -> FloatArray:
        """Raw scores of the given components, (n_rows, n_bags, K)."""
        codes = {part.features.shape[1]: part.codes for part in self.problem.coded}
        raw = self.problem.rows.offset + intercepts
        for component, table in lower.items():
            raw += table[tuple(codes[len(component)][feature] for feature in component)]
        return raw.reshape(len(raw), self.n_bags, -1)

    def _grow(self, bag: int, raw: FloatArray) -> Deepened:
        rows = self.problem.rows
        places = self._shuffled_levels(bag)
        training = self._side(rows.training[:, bag] * rows.sizes[bag], raw, places)
        validation = self._side(rows.validation[:, bag], raw, places)
        settings = tuple(
            limited(_tree(part.features.shape[1], float(rows.sizes[bag])), self.objective)
            for part in self.higher
        )
        growths = self._new_growths(len(training.y), bag)
        before = self._loss(validation, growths)
        best, best_round = Deepened(_tables(growths), 0, before, before), 0
        for done in range(1, self.limits.max_rounds + 1):
            stalled = done - best_round > self.limits.patience
            if stalled or time.monotonic() >= self.limits.deadline:
                break
            self._refresh(training, growths)
            for growth in growths:
                grow_visits(training.rows, growth, VISITS_PER_CHECK, settings)
            loss = self._loss(validation, growths)
            if loss < best.loss:
                visits = done * VISITS_PER_CHECK
                best, best_round = Deepened(_tables(growths), visits, before, loss), done
        return replace(best, tables=self._unshuffled(best.tables, places))

    def _shuffled_levels(self, bag: int) -> list[IntArray]:
        """Place of every node on its axis, (n_features, M) for each order.

        Levels without order are shuffled, for each bag anew: boxes hold neighbours together, and
        no level shall have the same ones in all bags.
        """
        rng = np.random.default_rng((self.seed, bag))
        shuffled = []
        for part in self.higher:
            axes = self.axes[part.features.shape[1]]
            places = np.tile(np.arange(part.n_nodes), (len(axes), 1))
            for feature in self.problem.encoder.canonical_order():
                size = axes[feature].n_regular
                if axes[feature].is_nominal:
                    places[feature, :size] = rng.permutation(size)
            shuffled.append(places)
        return shuffled

    def _unshuffled(
        self, tables: Sequence[Float32Array], places: Sequence[IntArray]
    ) -> list[Float32Array]:
        """Tables (n_components, M^order, K) with all nodes back in their own order."""
        restored = []
        for part, own, table in zip(self.higher, places, tables, strict=True):
            shape = [part.n_nodes] * part.features.shape[1]
            cells = [flat.reshape(*shape, -1) for flat in table]
            ordered = [c[np.ix_(*own[s])] for c, s in zip(cells, part.features, strict=True)]
            restored.append(np.stack(ordered).reshape(table.shape))
        return restored

    def _side(self, weights: Float32Array, raw: FloatArray, places: Sequence[IntArray]) -> Side:
        where = np.flatnonzero(weights)
        orders = [part.features.shape[1] for part in self.higher]
        rows = BoxRows(
            tuple(
                np.take_along_axis(own, part.codes[:, where].astype(np.intp), 1).astype(
                    part.codes.dtype
                )
                for part, own in zip(self.higher, places, strict=True)
            ),
            tuple(part.features for part in self.higher),
            tuple(np.array([axis.n_nodes for axis in self.axes[order]]) for order in orders),
            tuple(part.n_nodes for part in self.higher),
        )
        y = self.problem.rows.y[where].astype(np.float64)
        return Side(rows, y, weights[where, None].astype(np.float64), raw[where])

    def _new_growths(self, n_rows: int, bag: int) -> list[BoxGrowth]:
        """State of every output."""
        n_components = sum(len(part.features) for part in self.higher)
        first = (self.seed * self.n_bags + bag) * self.objective.n_outputs
        return [
            BoxGrowth(
                tuple(np.zeros(part.shape, np.float32) for part in self.higher),
                np.zeros(n_rows),
                np.zeros(n_rows),
                np.full(n_components, NEW_GAIN),
                np.array([first + output], np.uint64),
            )
            for output in range(self.objective.n_outputs)
        ]

    def _refresh(self, side: Side, growths: Sequence[BoxGrowth]) -> None:
        """Exact derivatives of every row."""
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
        n_lanes = self.n_bags * self.objective.n_outputs
        combined = {}
        for component in self.problem.ordered:
            sizes = (self.axes[len(component)][feature].n_nodes for feature in component)
            combined[component] = lower.get(component, np.zeros((*sizes, n_lanes)))
        for number, part in enumerate(self.higher):
            shape = [part.n_nodes] * part.features.shape[1]
            for index, component in enumerate(map(tuple, part.features.tolist())):
                lanes = np.concatenate([bag.tables[number][index] for bag in bags], -1)
                cells = tuple(map(slice, combined[component].shape[:-1]))
                combined[component] = lanes.reshape(*shape, n_lanes)[cells].astype(np.float64)
        return combined


def _tree(order: int, size: float) -> TreeSettings:
    """Four times as many boxes as random cuts make; ridge and leaves fit the rows."""
    tree = TreeSettings(2 ** (order + 1), RATE, RIDGE, MIN_MASS, 0.1, 8, True)
    return for_size(tree, size)


def _scores(side: Side, growths: Sequence[BoxGrowth]) -> FloatArray:
    """Raw scores with the higher tables, (n_rows, K)."""
    added = [box_scores(side.rows, growth.tables) for growth in growths]
    return np.asarray(side.raw + np.stack(added, axis=1))


def _tables(growths: Sequence[BoxGrowth]) -> list[Float32Array]:
    """Copy of the tables, outputs last."""
    n_orders = len(growths[0].tables)
    return [np.stack([g.tables[order] for g in growths], -1) for order in range(n_orders)]
