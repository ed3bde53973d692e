"""Imputation: rows with gaps become several rows, drawn from what is missing given what is there.

For each column with gaps in turn, rows that have a value and are alike in all other columns offer
theirs: they are in the same leaves of trees that were grown to tell that column. The likelihood
of the row's target under a pilot fit chooses among them,

    p(x_j | others, y) ~ p(x_j | others) p(y | f(x)).

The pilot is fitted to rows without gaps where they are enough, then to draws. Every draw has a
pilot of its own from the posterior, so that draws differ by all that is not known. All draws of a
row have its weight together and are held out together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from tpnn._utils.arrays import BoolArray, FloatArray, IntArray
from tpnn._utils.rules import is_count
from tpnn._utils.threads import split
from tpnn.anova.shapes import RANDOM
from tpnn.estimators.inputs import FitInputs
from tpnn.estimators.pipeline import Fitted, encode
from tpnn.model.model import AnovaModel, part_scores
from tpnn.search.select import HeldOut
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.problem.rows import Draws, Targets, canonical_features, row_keys
from tpnn.solvers.solution import Event, Limits
from tpnn.table.columns import StoredColumns
from tpnn.table.encoder import whole_counts
from tpnn.table.table import NOMINAL, NUMBER, PERIODIC, Column, FilledTable, JoinedTable, Table
from tpnn.uncertainty.design import WorkingRows

N_DRAWS = 10
N_PILOTS = 2
N_SWEEPS = 3  # over the columns, if several have gaps
ENOUGH_COMPLETE, ENOUGH_COMPLETE_SHARE = 50, 0.25  # rows for the first pilot
MOST_DONORS = 2000  # rows that grow the trees of a column
PILOT_BAGS = 4  # unless the number is given
TIME_SHARE, PILOT_SHARE = 0.5, 0.4  # of the time for draws, and of what is left of it for a pilot
ROWS_PER_BLOCK = 1 << 12  # whose candidates are in memory at a time
N_TREES, ROWS_PER_LEAF, N_CANDIDATES = 5, 5, 20
SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")
MOST_LEVELS = 10  # that a tree tells apart, the most frequent ones

Fit = Callable[[FitInputs], Fitted]


class Pilot(NamedTuple):
    """A fit whose likelihood chooses among values."""

    model: AnovaModel
    problem: Problem  # its targets and loss
    dispersion: float

    @classmethod
    def of(cls, fitted: Fitted) -> Pilot:
        """Pilot with the dispersion of its held-out rows."""
        problem = fitted.kept.problem
        held_out = HeldOut(problem, fitted.kept.solution)
        y, masses = np.asarray(held_out.y, np.float64), held_out.weights
        working = WorkingRows(problem.objective, y, masses)
        with np.errstate(all="ignore"):
            found = float(np.mean(working.dispersion(held_out.raw, masses)))
        return cls(fitted.model, problem, found if np.isfinite(found) else 1.0)

    def drawn(self, rng: np.random.Generator) -> Pilot:
        """Pilot with components from their posteriors, where it has them."""
        model, posteriors = self.model, self.model.evidence.posteriors
        if posteriors is None:
            return self
        names, tables = self.problem.encoder.feature_names, list(model.tables)
        ranks = {names[j]: rank for rank, j in enumerate(self.problem.features)}
        keys = [sorted(ranks[name] for name in component) for component in model.component_names]
        for place in sorted(range(len(keys)), key=keys.__getitem__):
            posterior = posteriors[place]
            if posterior is None:
                continue
            known = posterior.uncertainty()
            noise = rng.standard_normal((*known.roots.shape[:2], 1))
            shift = known.shifts.T + (known.roots @ noise)[..., 0]  # (K, k)
            tables[place] = tables[place] + known.units * (known.functions @ shift.T)
        return self._replace(model=replace(model, tables=tuple(tables)))

    def raw_scores(self, table: Table, offset: FloatArray) -> FloatArray:
        """Raw scores (n, K) on the training scale."""
        encoder, problem = self.model.encoder, self.problem
        read = encoder.read(table)
        columns = [encoder.numbers(read, j) for j in range(encoder.n_features)]
        parts = part_scores(self.model, columns)
        raw = self.model.intercepts + parts.reshape(
            table.n_rows, -1, len(self.model.intercepts)
        ).sum(1)
        raw = (raw - problem.shift) / problem.scale
        return np.asarray(raw if problem.objective.standardised else raw + offset[:, None])

    def targets(self, targets: Targets) -> FloatArray:
        """Targets (n, T) on the training scale."""
        problem = self.problem
        if problem.objective.standardised:
            return np.asarray((targets.y - targets.offset[:, None] - problem.shift) / problem.scale)
        return targets.y / np.exp(problem.shift) if problem.objective.is_relative else targets.y


@dataclass(frozen=True, eq=False)
class Gaps:
    """Rows of a table in canonical order, with their gaps."""

    table: Table
    targets: Targets  # of these rows
    columns: list[Column]  # in the user's order, NaN where missing
    rows: IntArray  # (n,), their places in the user's table
    features: list[int]  # in canonical order
    seed: int

    @classmethod
    def of(cls, inputs: FitInputs) -> Gaps:
        """Read a table; rows without weight are left out."""
        table, targets, settings, _ = inputs
        encoder = encode(table, targets, settings)
        features = canonical_features(encoder, table, targets)
        values = [encoder.numbers(table, j) for j in range(encoder.n_features)]
        given = [values[j] for j in features]
        keys = row_keys([*given, *np.ascontiguousarray(targets.y.T), targets.offset], table.n_rows)
        weights = np.ones(table.n_rows) if targets.weights is None else targets.weights
        order = np.argsort(keys, kind="stable")
        order = order[weights[order] > 0]
        columns = [
            Column(NUMBER if feature.kind == PERIODIC else feature.kind, x[order], feature.levels)
            for feature, x in zip(encoder.features, values, strict=True)
        ]
        return cls(table, taken(targets, order), columns, order, features, settings.seed)

    @cached_property
    def are_missing(self) -> dict[int, BoolArray]:
        """Rows without a value, of each feature that has values and gaps, in canonical order."""
        found = {j: np.isnan(self.columns[j].values) for j in self.features}
        return {j: missing for j, missing in found.items() if missing.any() and not missing.all()}

    @property
    def has_gap(self) -> BoolArray:
        """Whether a row has a gap, (n,)."""
        return np.asarray(np.any(list(self.are_missing.values()), axis=0))

    def filled(self, rows: IntArray, values: Sequence[FloatArray]) -> FilledTable:
        """Table of some rows with other values, which are those of these rows."""
        columns = [c._replace(values=x) for c, x in zip(self.columns, values, strict=True)]
        offset = self.offset and self.offset._replace(values=self.offset.values[self.rows[rows]])
        return FilledTable(self.table, columns, offset)

    @cached_property
    def offset(self) -> Column | None:
        """Column that was set aside, in the user's order."""
        table = self.table
        return None if table.offset_column is None else table.read_offset_column()


def taken(targets: Targets, rows: IntArray) -> Targets:
    """Targets of some rows."""
    weights, groups = targets.weights, targets.groups
    return Targets(
        y=targets.y[rows],
        weights=None if weights is None else weights[rows],
        offset=targets.offset[rows],
        groups=None if groups is None else groups[rows],
    )


def imputed(inputs: FitInputs, fit: Fit) -> tuple[FitInputs, list[Event]]:
    """Table and targets in which each row with gaps stands several times, without gaps.

    An event says so where the time limit ended the draws early.
    """
    if isinstance(inputs.table.source, StoredColumns) or isinstance(inputs.table, JoinedTable):
        found = "a table in files" if inputs.table.is_stored else "X_val"
        raise ValueError(
            f'missing: "impute" needs one table in memory, found {found}. Pass X in memory and '
            "without X_val, or leave missing out."
        )
    if RANDOM in inputs.settings.shapes.values():
        raise ValueError(
            'missing: "impute" does not go with random intercepts, found random. Leave the feature '
            "as levels, which are shrunk too, or leave missing out."
        )
    gaps = Gaps.of(inputs)
    if not gaps.are_missing:
        return inputs, []
    began, limits, events = time.monotonic(), inputs.limits.share(TIME_SHARE), list[Event]()
    n_bags = inputs.settings.n_bags
    settings = replace(inputs.settings, n_bags=n_bags if is_count(n_bags) else PILOT_BAGS)
    chains = [Chain(gaps, number, limits) for number in range(N_DRAWS)]
    complete = np.flatnonzero(~gaps.has_gap)
    are_enough = len(complete) >= max(ENOUGH_COMPLETE, ENOUGH_COMPLETE_SHARE * len(gaps.has_gap))
    rounds = [True] * N_PILOTS if are_enough else [False] + [True] * N_PILOTS
    given, n_done = inputs, 0
    if are_enough:
        table = gaps.filled(complete, [column.values[complete] for column in gaps.columns])
        given = inputs._replace(table=table, targets=taken(gaps.targets, complete))
    try:
        for has_pilot in rounds:
            limits.check("draws of missing values")
            timed = given._replace(settings=settings, limits=limits.share(PILOT_SHARE))
            pilot = Pilot.of(fit(timed)) if has_pilot else None
            for chain in chains:
                chain.sweep(pilot)
            given, n_done = stacked(inputs, gaps, chains), n_done + 1
    except TimeoutError:
        found = f"{n_done} of {len(rounds)} rounds"
        note = f"the time limit ended the draws of missing values after {found}"
        events = [Event(stage="limit", note=note, seconds=time.monotonic() - began)]
        given = stacked(inputs, gaps, chains)
    return given, events


class Chain:
    """One draw of all that is missing, which changes column by column."""

    def __init__(self, gaps: Gaps, number: int, limits: Limits) -> None:
        self.limits, self.gaps, self.rng = limits, gaps, np.random.default_rng([gaps.seed, number])
        self.values = [column.values.copy() for column in gaps.columns]
        for j, missing in gaps.are_missing.items():
            present = np.flatnonzero(~missing)
            self.values[j][missing] = self.values[j][self.rng.choice(present, missing.sum())]

    def sweep(self, pilot: Pilot | None) -> None:
        """Draw every column with gaps given all others, a few times."""
        pilot = pilot and pilot.drawn(self.rng)
        for _ in range(N_SWEEPS if len(self.gaps.are_missing) > 1 else 1):
            for j, missing in self.gaps.are_missing.items():
                self.limits.check("draws of missing values")
                rows = np.flatnonzero(missing)
                donors = self._donors(j, rows, np.flatnonzero(~missing))
                chosen = np.zeros(len(rows), np.intp)
                if pilot is not None:
                    chosen = self._chosen(pilot, j, rows, donors)
                self.values[j][rows] = self.values[j][donors[np.arange(len(rows)), chosen]]

    def _donors(self, feature: int, rows: IntArray, present: IntArray) -> IntArray:
        """Rows (n, N_CANDIDATES) that are alike in all other features and have a value."""
        from sklearn.tree import ExtraTreeRegressor

        weights = self.gaps.targets.weights
        shares = None if weights is None else weights[present] / weights[present].sum()
        size = min(len(present), MOST_DONORS)
        present = np.sort(self.rng.choice(present, size, p=shares))
        others = [j for j in self.gaps.features if j != feature]
        if not others:
            return self.rng.choice(present, (len(rows), N_CANDIDATES))
        target = self._told(feature, present)
        columns = [self._sorted(j, target, present) for j in others]
        X = np.column_stack(columns).astype(np.float32)
        given, wanted, each = X[present], X[rows], N_CANDIDATES // N_TREES
        candidates = np.empty((len(rows), N_CANDIDATES), np.intp)
        for number in range(N_TREES):
            seed = int(self.rng.integers(2**31))
            tree = ExtraTreeRegressor(min_samples_leaf=ROWS_PER_LEAF, random_state=seed)
            grown = tree.fit(given, target, check_input=False).tree_
            leaves = grown.apply(given)
            order = np.argsort(leaves, kind="stable")
            sides = [np.searchsorted(leaves[order], grown.apply(wanted), side) for side in SIDES]
            shares = self.rng.random((len(rows), each))
            places = sides[0][:, None] + (shares * (sides[1] - sides[0])[:, None]).astype(np.intp)
            candidates[:, number * each : (number + 1) * each] = present[order[places]]
        return candidates

    def _told(self, feature: int, rows: IntArray) -> FloatArray:
        """Return what a tree tells of a feature: ranks of numbers, or which level it is."""
        x = self.values[feature][rows]
        if self.gaps.columns[feature].kind != NOMINAL:
            return np.asarray(np.searchsorted(np.sort(x), x) / len(x))
        levels, counts = np.unique(x, return_counts=True)
        frequent = levels[np.argsort(-counts, kind="stable")[:MOST_LEVELS]]
        return np.asarray(x[:, None] == frequent, np.float64)

    def _sorted(self, feature: int, target: FloatArray, rows: IntArray) -> FloatArray:
        """Ranks of a feature; of levels the means of the first number that a tree tells."""
        x = np.nan_to_num(self.values[feature])
        if self.gaps.columns[feature].kind != NOMINAL:
            return np.searchsorted(np.sort(x), x).astype(np.float64)
        codes, told = x.astype(np.intp), target.reshape(len(target), -1)[:, 0]
        size = int(codes.max()) + 1
        counts = np.bincount(codes[rows], minlength=size)
        sums = np.bincount(codes[rows], told, size)
        return np.asarray(((sums + told.mean()) / (counts + 1))[codes])

    def _chosen(self, pilot: Pilot, feature: int, rows: IntArray, donors: IntArray) -> IntArray:
        """Draw a donor (n,) for each row by the likelihood of the row's target with its value."""
        gaps, objective, y = self.gaps, pilot.problem.objective, pilot.targets(self.gaps.targets)
        slope = expected = known = np.empty((0, 1))
        if objective.couples_rows:  # as of counts, whose expectations the other rows give
            table = gaps.filled(np.arange(len(y)), self.values)
            known = pilot.raw_scores(table, gaps.targets.offset)
            weights = gaps.targets.weights
            masses = np.ones(len(y)) if weights is None else weights
            with np.errstate(all="ignore"):
                slope, expected = objective.slopes(y, known, masses[:, None])
        chosen = np.empty(len(rows), np.intp)
        for block in split(len(rows), ROWS_PER_BLOCK):
            some = slice(*block)
            each = np.repeat(rows[some], donors.shape[1])
            values = [x[each] for x in self.values]
            values[feature] = self.values[feature][donors[some].ravel()]
            raw = pilot.raw_scores(gaps.filled(each, values), gaps.targets.offset[each])
            with np.errstate(all="ignore"):
                if objective.couples_rows:
                    change = raw - known[each]
                    losses = expected[each] * np.expm1(change) + (slope - expected)[each] * change
                else:
                    losses = objective.losses(y[each], raw)
            found = -losses.reshape(-1, donors.shape[1]) / pilot.dispersion
            scores = np.nan_to_num(found, nan=-np.inf, posinf=-np.inf)
            chosen[some] = np.argmax(scores + self.rng.gumbel(size=scores.shape), axis=1)
        return chosen


def stacked(inputs: FitInputs, gaps: Gaps, chains: Sequence[Chain]) -> FitInputs:
    """Rows without gaps, and all draws of the others, each with its part of the weight."""
    complete, others = np.flatnonzero(~gaps.has_gap), np.flatnonzero(gaps.has_gap)
    rows = np.concatenate([complete, *[others] * len(chains)])
    values = [
        np.concatenate([x[0][complete], *(one[others] for one in x)])
        for x in zip(*(chain.values for chain in chains), strict=True)
    ]
    numbers = np.repeat(np.arange(-1, len(chains)), [len(complete), *[len(others)] * len(chains)])
    targets, n_rows = gaps.targets, len(gaps.has_gap)
    weights = np.ones(n_rows) if targets.weights is None else targets.weights
    counts = whole_counts(weights)
    size, are_given = n_rows if counts is None else counts.sum(), targets.groups is not None
    draws = Draws(numbers, gaps.rows[rows], len(chains), float(size), are_given)
    groups = np.arange(n_rows) if targets.groups is None else targets.groups
    targets = taken(replace(targets, weights=weights, groups=groups), rows)
    shares = np.where(numbers < 0, 1.0, 1 / len(chains))
    targets = replace(targets, weights=targets.weights * shares, draws=draws)
    table = gaps.filled(rows, values)
    return inputs._replace(table=table, targets=targets)
