"""Problem: a table and its targets as a solver wants them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from tpnn._utils.arrays import Float32Array, FloatArray, IntArray
from tpnn._utils.shelf import Shelf
from tpnn._utils.threads import split
from tpnn.anova.components import Component, ComponentSet, canonical
from tpnn.anova.measure import unless_rounding
from tpnn.anova.terms import Terms
from tpnn.loss.objectives import Objective
from tpnn.model.evidence import Evidence
from tpnn.model.model import AnovaModel, Basis
from tpnn.model.remainder import Remainder
from tpnn.model.task import Task
from tpnn.solvers.problem.coded import CodedComponents, Codes
from tpnn.solvers.problem.rows import (
    DistinctRows,
    KeyArray,
    Targets,
    TrainingRows,
    canonical_features,
    centred_offset,
    distinct_rows,
    draw_bags,
    in_lanes,
    read_columns,
    row_keys,
    scaled,
    softened,
)
from tpnn.solvers.solution import Solution
from tpnn.solvers.states import GrowthStates
from tpnn.table.encoder import TableEncoder, of_rows
from tpnn.table.table import Table

Grids = Mapping[Component, FloatArray]

ROWS_PER_BLOCK = 1 << 16  # whose raw scores are computed at a time
HANDFUL = 10  # distinct rows
ROUNDING = 1e-12  # of raw scores on the training scale; a component of smaller values is zero
SURELY_HELD_OUT = 100  # rows of which some are held out, or copied so often that all count


@dataclass(frozen=True)
class BaseModel:
    """A model to which a fit adds, on the nodes and masses of the problem, in the user's units."""

    tables: Grids  # (M_1, ..., M_d, K)
    spreads: Grids  # (M_1, ..., M_d, K), standard deviations over the bags
    intercepts: FloatArray  # (K,)
    frozen: frozenset[Component] = frozenset()  # components to which nothing is added
    remainder: Remainder | None = None  # which stays as it is

    def plus(
        self, tables: Grids, spreads: Grids
    ) -> tuple[dict[Component, FloatArray], dict[Component, FloatArray]]:
        """Tables and spreads of this model plus a fit.

        Frozen components keep their tables: the fit has nothing but rounding errors there.
        """
        sums, deviations = dict(self.tables), dict(self.spreads)
        for component in tables.keys() - self.frozen:
            sums[component] = tables[component] + sums.get(component, 0.0)
            deviations[component] = np.hypot(deviations.get(component, 0.0), spreads[component])
        return sums, deviations


def _keys(
    encoder: TableEncoder,
    features: list[int],
    table: Table,
    rows: IntArray | None,
    n_threads: int | None,
) -> KeyArray:
    """Keys of all rows of a table, by its features in canonical order."""
    columns = read_columns(partial(encoder.numbers, table), features, table, n_threads)
    return row_keys(columns, table.n_rows, n_threads)


@dataclass(frozen=True)
class Bagging:
    """Number of bags, share of the rows that each bag holds out, and seed."""

    n_bags: int
    validation_fraction: float
    seed: int

    def draw(
        self, distinct: DistinctRows, n_threads: int | None, shelf: Shelf
    ) -> tuple[Float32Array, Float32Array, Float32Array]:
        """Training and held-out weights of every row in every bag, and the sizes of the bags."""
        fraction = self.validation_fraction
        return draw_bags(distinct, self.n_bags, fraction, self.seed, n_threads, shelf)


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What a solver works on."""

    encoder: TableEncoder  # in the user's order
    features: list[int]  # in canonical order
    codes: Codes  # of the distinct rows
    components: ComponentSet  # to fit, in the user's order
    shapes: Mapping[int, str]  # by feature
    rows: TrainingRows  # targets and bag weights of the distinct rows
    distinct: DistinctRows
    bagging: Bagging
    objective: Objective
    best_constant: FloatArray  # (K,), its raw score on the training scale
    shift: FloatArray  # (K,) or (1,)
    scale: FloatArray  # (K,) or (1,): y = shift + scale * target
    has_offset: bool  # whether the user passed an offset
    targets: Targets  # of all rows of the table, as the user passed them
    states: GrowthStates | None = None  # growths to go on with; keeps those whose rounds are up
    base: BaseModel | None = None  # its raw scores are added to the offset of the rows

    @classmethod
    def build(
        cls,
        table: Table,
        encoder: TableEncoder,
        targets: Targets,
        objective: Objective,
        bagging: Bagging,
        shapes: Mapping[int, str],
        n_threads: int | None = None,
    ) -> Problem:
        """Build a problem of main effects: canonical rows, targets on the training scale."""
        features = canonical_features(encoder, table, targets)
        keys_of = partial(_keys, encoder, features)
        keys = table.shelf.keep(of_rows(table, keys_of, n_threads=n_threads))
        all_offsets = centred_offset(targets.offset, targets.weights, objective)
        draws = () if targets.draws is None else (targets.draws.numbers,)
        merged_by = table.shelf.keep(np.vstack([targets.y.T, all_offsets, *draws]))
        distinct = distinct_rows(
            keys, merged_by, targets.weights, targets.groups, table.shelf, targets.held_out
        )
        if targets.draws is not None:
            distinct = replace(distinct, size=targets.draws.size)
        y = table.shelf.keep(targets.y[distinct.rows])
        offset = table.shelf.keep(all_offsets[distinct.rows, None])
        y = softened(y, distinct.weights, distinct.size, objective)
        target = scaled(y, offset, distinct.weights, objective, table.shelf)
        single = table.shelf.keep(target.y.astype(np.float32))
        single_offset = table.shelf.keep(target.offset.astype(np.float32))
        bags = bagging.draw(distinct, n_threads, table.shelf)
        return cls(
            encoder=encoder,
            features=features,
            codes=Codes(table, encoder, distinct.rows, n_threads),
            components=ComponentSet.up_to(encoder.n_features, 1),
            shapes={feature: shapes[feature] for feature in features if feature in shapes},
            rows=TrainingRows(single, single_offset, *bags),
            distinct=distinct,
            bagging=bagging,
            objective=target.objective,
            best_constant=target.best_constant,
            shift=target.shift,
            scale=target.scale,
            has_offset=bool(targets.offset.any()),
            targets=targets,
        )

    @cached_property
    def ordered(self) -> list[Component]:
        """The components, and the features of each, in canonical order."""
        return canonical(self.components, self.features)

    @cached_property
    def coded(self) -> list[CodedComponents]:
        """The components of each order, in canonical order, over the distinct rows."""
        orders = self.components.orders
        return [self.codes.coded([s for s in self.ordered if len(s) == d]) for d in orders]

    @property
    def seed(self) -> int:
        """Seed of everything random: bags, cuts, signs, starting values."""
        return self.bagging.seed

    @property
    def trained_share(self) -> float:
        """Share of the rows that a bag trains on; 1 where others are held out of every bag."""
        return 1.0 if self.distinct.held_out is not None else 1 - self.bagging.validation_fraction

    @property
    def has_held_out(self) -> bool:
        """Whether held-out rows can judge anything: a handful of rows is on both sides of a bag."""
        rows = self.rows
        if rows.sizes.max() >= SURELY_HELD_OUT:
            return True
        return bool(((rows.validation > 0) & (rows.training == 0)).any())

    @property
    def is_handful(self) -> bool:
        """Whether nothing can be said of new rows: each row is as good as a value of the model."""
        return len(self.rows.y) < HANDFUL and not self.has_held_out

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return self.bagging.n_bags

    def with_components(self, components: ComponentSet) -> Problem:
        """Change the components; keep the rows and their codes."""
        return replace(self, components=components)

    def with_nodes(self, order: int, most: int) -> Problem:
        """Limit the nodes per feature in the components of one order; keep the rows."""
        encoder = self.encoder.coarsened(order, most)
        return replace(self, encoder=encoder, codes=self.codes.with_encoder(encoder))

    def with_bags(self, n_bags: int) -> Problem:
        """Change the number of bags; keep the rows."""
        if n_bags == self.n_bags:
            return self
        bagging = replace(self.bagging, n_bags=n_bags)
        bags = bagging.draw(self.distinct, self.codes.n_threads, self.codes.shelf)
        rows = TrainingRows(self.rows.y, self.rows.offset, *bags)
        return replace(self, rows=rows, bagging=bagging)

    def sampled(self, most: int) -> Problem:
        """Problem of at most ``most`` rows, evenly spaced in canonical order.

        The problem itself if it has no more rows, or if one side of a bag would become empty.
        """
        n_rows = len(self.rows.y)
        if n_rows <= most:
            return self
        some = np.arange(most) * n_rows // most
        sides = self.rows.training, self.rows.validation
        if not all(side[some].any(0).all() for side in sides):
            return self
        rows, distinct = self.rows.take(some), self.distinct.take(some)
        return replace(self, rows=rows, distinct=distinct, codes=self.codes.take(some))

    def raw_scores(
        self, solution: Solution, rows: Any = slice(None), lanes: Any = None
    ) -> FloatArray:
        """Raw scores of rows in double precision, (n, n_bags * K).

        ``lanes`` (n, K) selects lanes for each row, such as those of the bag that holds it out; the
        result is then (n, K).
        """
        intercepts = solution.intercepts if lanes is None else solution.intercepts[lanes]
        offset = in_lanes(self.rows.offset[rows], intercepts.shape[-1])
        raw: FloatArray = offset + intercepts
        for component, table in zip(solution.components, solution.tables, strict=True):
            raw += self.codes.values(component, table, rows, lanes)
        if solution.remainder is not None:
            rest = solution.remainder[rows]
            raw += rest if lanes is None else np.take_along_axis(rest, lanes, 1)
        return raw

    def raw_scores_by_bag(self, solution: Solution) -> FloatArray:
        """Raw scores of all rows in double precision, (n_bags, n, K), on the shelf."""
        n_rows, n_outputs = len(self.rows.y), self.objective.n_outputs
        raw = self.codes.shelf.empty((self.n_bags, n_rows, n_outputs), np.float64)
        for block in split(n_rows, ROWS_PER_BLOCK):
            some = slice(*block)
            scores = self.raw_scores(solution, some)
            raw[:, some] = scores.reshape(len(scores), -1, n_outputs).transpose(1, 0, 2)
        return raw

    def freeze(self, solution: Solution, task: Task) -> AnovaModel:
        """Average the bags, undo the training scale and restore the user's order."""
        tables = {
            tuple(sorted(component)): self._restore_table(component, padded)
            for component, padded in zip(solution.components, solution.tables, strict=True)
        }
        constants = self.by_output(solution.intercepts).mean(0)
        means, spreads = (
            {s: function(table, axis=len(s)) for s, table in tables.items()}
            for function in (np.mean, np.std)
        )
        # Scores are of size one, but for own losses, whose unit only the constant and tables tell.
        is_sized = self.objective.standardised or self.objective.kind != "numbers"
        largest = max((np.abs(table).max(initial=0.0) for table in means.values()), default=0.0)
        size = 1.0 if is_sized else largest
        rounding = ROUNDING * np.maximum(np.abs(constants), size)
        means = {s: self.scale * unless_rounding(table, rounding) for s, table in means.items()}
        if self.base is not None:
            means, spreads = self.base.plus(means, spreads)
        components = ComponentSet(tuple(means))
        rest = None if self.base is None else self.base.remainder
        held = () if rest is None else rest.components
        return AnovaModel(
            encoder=self.encoder.up_to(max(map(len, (*components, *held)))),
            components=components,
            tables=tuple(means[s] for s in components),
            intercepts=(self.shift if self.base is None else self.base.intercepts)
            + self.scale * constants,
            link=self.objective.link,
            basis=Basis(
                solution.activation, solution.scale, self._restored_terms(solution, components)
            ),
            output_names=task.outputs,
            classes=task.classes,
            has_offset=self.has_offset,
            evidence=Evidence(spreads=tuple(spreads[s] for s in components)),
            remainder=rest,
        )

    def _restored_terms(
        self, solution: Solution, components: ComponentSet
    ) -> tuple[Terms, ...] | None:
        if solution.terms is None:
            return None
        restored = map(self._restore_terms, solution.components, solution.terms)
        by_component = {terms.features: terms for terms in restored}
        return tuple(by_component[component] for component in components)

    def by_output(self, values: FloatArray) -> FloatArray:
        """Reshape (..., n_bags * K) to (..., n_bags, K); centre class scores over the classes."""
        split = values.reshape(*values.shape[:-1], -1, self.objective.n_outputs)
        if self.objective.couples_outputs:
            split = split - split.mean(-1, keepdims=True)
        return split

    def by_bag(self, component: Component, padded: FloatArray) -> FloatArray:
        """Grid of shape (M_1, ..., M_d, n_bags, K) of a grid (M_1, ..., M_d, n_bags * K)."""
        sizes = (self.encoder.axes[len(component)][feature].n_nodes for feature in component)
        return self.by_output(padded[tuple(map(slice, sizes))])

    def _restore_table(self, component: Component, padded: FloatArray) -> FloatArray:
        """Grid of shape (M_1, ..., M_d, n_bags, K) with its axes in the user's order."""
        axes = np.argsort(component)
        table = self.by_bag(tuple(sorted(component)), padded.transpose(*axes, -1))
        return np.ascontiguousarray(table)

    def _restore_terms(self, component: Component, terms: Terms) -> Terms:
        axes, features = np.argsort(component), tuple(sorted(component))
        return Terms(features, terms.b[axes], terms.gamma[axes], terms.beta * self.scale[0])
