"""Problem: a table and its targets as a solver wants them, and the way back to a frozen model.

Inside, rows and columns stand in canonical order and targets on the training scale; outside, as the
user passed them. This is the only module that knows both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tpnn.components import Component, ComponentSet, canonical
from tpnn.encoding import TableEncoder
from tpnn.lookup import CodedComponents
from tpnn.model import AnovaModel
from tpnn.objectives import Objective
from tpnn.resampling import TrainingRows, distinct_rows, draw_bags, row_keys
from tpnn.solution import Solution, Terms
from tpnn.tables import Table

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Targets:
    """What the user passed beside the table, each of shape (n_rows,)."""

    y: FloatArray
    weights: FloatArray | None
    offset: FloatArray


@dataclass(frozen=True)
class Bagging:
    """Number of bags, share of the rows that each holds out, seed."""

    n_bags: int
    validation_fraction: float
    seed: int


@dataclass(frozen=True)
class Problem:
    """What a solver works on.

    Parameters
    ----------
    encoder : TableEncoder
        Nodes of the features, in the user's order.
    components : ComponentSet
        The subsets S, in the user's order.
    ordered : list of tuple of int
        The same subsets in canonical order, axes included.
    coded : list of CodedComponents
        For each order, its components in canonical order over the distinct rows.
    rows : TrainingRows
        Targets and bag weights of the distinct rows.
    weights : array of shape (n,)
        Share of each distinct row in the mass of all.
    objective : Objective
        The loss.
    start : float
        Raw score of the best constant, on the training scale.
    shift, scale : float
        y = shift + scale * target.
    """

    encoder: TableEncoder
    components: ComponentSet
    ordered: list[Component]
    coded: list[CodedComponents]
    rows: TrainingRows
    weights: FloatArray
    objective: Objective
    start: float
    shift: float
    scale: float

    @classmethod
    def build(
        cls,
        table: Table,
        encoder: TableEncoder,
        components: ComponentSet,
        targets: Targets,
        objective: Objective,
        bagging: Bagging,
    ) -> Problem:
        """Bring rows and columns into canonical order and targets onto the training scale."""
        features = encoder.canonical_order()
        keys = row_keys((encoder.numbers(table, j) for j in features), table.n_rows)
        distinct = distinct_rows(keys, np.stack([targets.y, targets.offset]), targets.weights)
        y, offset = targets.y[distinct.rows], targets.offset[distinct.rows]
        shift, scale = 0.0, 1.0
        if objective.standardised:  # the offset is then a part of the target
            shift, scale = _mean_and_deviation(y - offset, distinct.weights)
            y, offset = (y - offset - shift) / scale, np.zeros_like(y)
        start = objective.start(y, distinct.weights) - float(offset @ distinct.weights)
        bags = draw_bags(distinct, bagging.n_bags, bagging.validation_fraction, bagging.seed)
        column, known_column = (values[:, None].astype(np.float32) for values in (y, offset))
        ordered = canonical(components, features)
        coded = [
            _code(table, encoder, [s for s in ordered if len(s) == order], distinct.rows)
            for order in components.orders
        ]
        rows = TrainingRows(column, known_column, *bags)
        return cls(
            encoder, components, ordered, coded, rows, distinct.weights, objective, start, shift,
            scale,
        )  # fmt: skip

    def freeze(self, solution: Solution, activation: str, scale: str) -> AnovaModel:
        """Average the bags, leave the training scale, restore the user's order."""
        tables: dict[Component, FloatArray] = {}
        for given, padded in zip(self.ordered, solution.tables, strict=True):
            axes = sorted(range(len(given)), key=given.__getitem__)
            component = tuple(given[axis] for axis in axes)
            sizes = (self.encoder.axes[len(given)][feature].n_nodes for feature in component)
            table = padded.transpose(*axes, -1)[tuple(map(slice, sizes))]
            tables[component] = np.ascontiguousarray(table)
        terms = None
        if solution.terms is not None:
            restored = map(self._restore_terms, self.ordered, solution.terms)
            by_component = {t.features: t for t in restored}
            terms = tuple(by_component[component] for component in self.components)
        return AnovaModel(
            self.encoder,
            self.components,
            tuple(tables[component].mean(-1) * self.scale for component in self.components),
            tuple(tables[component].std(-1) * self.scale for component in self.components),
            self.shift + self.scale * float(solution.intercepts.mean()),
            self.objective.link,
            activation,
            scale,
            terms,
        )

    def _restore_terms(self, given: Component, terms: Terms) -> Terms:
        axes = sorted(range(len(given)), key=given.__getitem__)
        component = tuple(given[axis] for axis in axes)
        return Terms(component, terms.b[axes], terms.gamma[axes], terms.beta * self.scale)


def _mean_and_deviation(values: FloatArray, weights: FloatArray) -> tuple[float, float]:
    mean = float(weights @ values)
    largest = float(np.abs(values - mean).max()) or 1.0  # squares of huge values must not overflow
    variance = float(weights @ ((values - mean) / largest) ** 2)
    return mean, largest * math.sqrt(variance) or 1.0


def _code(
    table: Table, encoder: TableEncoder, components: Sequence[Component], rows: NDArray[np.intp]
) -> CodedComponents:
    order = len(components[0])
    n_nodes = max(axis.n_nodes for axis in encoder.axes[order])
    return CodedComponents(encoder.codes(table, order, rows), np.array(components), n_nodes)
