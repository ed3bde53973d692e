"""Problem: a table and its targets as a solver wants them, and the way back to a frozen model.

Inside, rows and columns stand in canonical order and targets on the training scale; outside, as the
user passed them. This is the only module that knows both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tpnn._typing import FloatArray, IntArray
from tpnn.anova.components import Component, ComponentSet, canonical
from tpnn.anova.terms import Terms
from tpnn.loss.losses import Objective, weighted_quantiles
from tpnn.model.model import AnovaModel
from tpnn.problem.coded import CodedComponents
from tpnn.problem.rows import DistinctRows, TrainingRows, distinct_rows, draw_bags, row_keys
from tpnn.problem.solution import Solution
from tpnn.table.encoder import TableEncoder
from tpnn.table.frame import Table

QUARTILE_RANGE = 1.349  # between the quartiles of a normal distribution, in standard deviations


@dataclass(frozen=True)
class Targets:
    """What the user passed beside the table: y (n_rows, T), the others (n_rows,)."""

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
    distinct : DistinctRows
        The distinct rows themselves.
    objective : Objective
        The loss.
    start : array of shape (K,)
        Raw score of the best constant, on the training scale.
    shift, scale : array of shape (K,) or (1,)
        y = shift + scale * target.
    """

    encoder: TableEncoder
    components: ComponentSet
    ordered: list[Component]
    coded: list[CodedComponents]
    rows: TrainingRows
    distinct: DistinctRows
    objective: Objective
    start: FloatArray
    shift: FloatArray
    scale: FloatArray

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
        known = np.vstack([targets.y.T, targets.offset])
        distinct = distinct_rows(keys, known, targets.weights)
        y, offset = targets.y[distinct.rows], targets.offset[distinct.rows, None]
        shift, scale = np.zeros(1), np.ones(1)
        if objective.standardised:  # the offset is then a part of the target
            y, offset = y - offset, np.zeros_like(offset)
            squared = objective.name == "squared_error"
            measure = _mean_and_deviation if squared else _median_and_quartiles
            shift, scale = measure(y, distinct.weights)
            y = (y - shift) / scale
        elif objective.is_relative:
            shift = np.log(distinct.weights @ y)
            y = y / np.exp(shift)
        start = objective.start(y, offset, distinct.weights)
        if objective.is_relative:
            objective = objective.in_units_of_dispersion(y, offset + start, distinct.weights)
        bags = draw_bags(distinct, bagging.n_bags, bagging.validation_fraction, bagging.seed)
        ordered = canonical(components, features)
        coded = [
            _code(table, encoder, [s for s in ordered if len(s) == order], distinct.rows)
            for order in components.orders
        ]
        rows = TrainingRows(y.astype(np.float32), offset.astype(np.float32), *bags)
        return cls(
            encoder, components, ordered, coded, rows, distinct, objective, start, shift, scale
        )

    def with_components(self, table: Table, components: ComponentSet, bagging: Bagging) -> Problem:
        """Change components and bags; rows and what is coded already stay."""
        bags = draw_bags(self.distinct, bagging.n_bags, bagging.validation_fraction, bagging.seed)
        ordered = canonical(components, self.encoder.canonical_order())
        known = {part.features.shape[1]: part for part in self.coded}
        coded = []
        for order in components.orders:
            features = [s for s in ordered if len(s) == order]
            coded.append(
                replace(known[order], features=np.array(features))
                if order in known
                else _code(table, self.encoder, features, self.distinct.rows)
            )
        rows = TrainingRows(self.rows.y, self.rows.offset, *bags)
        return replace(self, components=components, ordered=ordered, coded=coded, rows=rows)

    def freeze(
        self, solution: Solution, activation: str, scale: str, outputs: tuple[str, ...] = ()
    ) -> AnovaModel:
        """Average the bags, leave the training scale, restore the user's order."""
        tables = {
            tuple(sorted(given)): self._restore_table(given, padded)
            for given, padded in zip(self.ordered, solution.tables, strict=True)
        }
        constants = self._by_output(solution.intercepts).mean(0)
        intercept = self.shift + self.scale * constants  # (K,)
        terms = None
        if solution.terms is not None:
            restored = map(self._restore_terms, self.ordered, solution.terms)
            by_component = {t.features: t for t in restored}
            terms = tuple(by_component[component] for component in self.components)
        means, spreads = (
            [self.scale * function(tables[s], axis=len(s)) for s in self.components]
            for function in (np.mean, np.std)
        )
        if not outputs:
            means, spreads = ([table[..., 0] for table in side] for side in (means, spreads))
        return AnovaModel(
            self.encoder,
            self.components,
            tuple(means),
            tuple(spreads),
            intercept if outputs else float(intercept[0]),
            self.objective.link,
            activation,
            scale,
            terms,
            outputs,
        )

    def _by_output(self, values: FloatArray) -> FloatArray:
        """Reshape (..., n_bags * K) to (..., n_bags, K); class scores are centred over classes."""
        split = values.reshape(*values.shape[:-1], -1, self.objective.n_outputs)
        if self.objective.link.name == "softmax":
            split = split - split.mean(-1, keepdims=True)
        return split

    def _restore_table(self, given: Component, padded: FloatArray) -> FloatArray:
        """Table of shape (M_1, ..., M_d, n_bags, K) with its axes in the user's order."""
        axes = sorted(range(len(given)), key=given.__getitem__)
        sizes = (self.encoder.axes[len(given)][given[axis]].n_nodes for axis in axes)
        table = padded.transpose(*axes, -1)[tuple(map(slice, sizes))]
        return self._by_output(np.ascontiguousarray(table))

    def _restore_terms(self, given: Component, terms: Terms) -> Terms:
        axes = sorted(range(len(given)), key=given.__getitem__)
        component = tuple(given[axis] for axis in axes)
        return Terms(component, terms.b[axes], terms.gamma[axes], terms.beta * self.scale[0])


def _bag_axis(component: Component) -> int:
    return len(component)


def _mean_and_deviation(y: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of every column of y (n, T), one where it is constant."""
    mean = weights @ y
    largest = np.abs(y - mean).max(0)  # squares of huge values must not overflow
    largest[largest == 0] = 1.0
    deviation = largest * np.sqrt(weights @ ((y - mean) / largest) ** 2)
    return mean, np.where(deviation > 0, deviation, 1.0)


def _median_and_quartiles(y: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Median and standard deviation by the quartiles, as if y (n, 1) were normal."""
    low, median, high = weighted_quantiles(y[:, 0], weights, (0.25, 0.5, 0.75))
    if high > low:
        return np.array([median]), np.array([(high - low) / QUARTILE_RANGE])
    return _mean_and_deviation(y, weights)


def _code(
    table: Table, encoder: TableEncoder, components: Sequence[Component], rows: IntArray
) -> CodedComponents:
    order = len(components[0])
    n_nodes = max(axis.n_nodes for axis in encoder.axes[order])
    return CodedComponents(encoder.codes(table, order, rows), np.array(components), n_nodes)
