"""Raw scores of training rows by interpolation, as a frozen model computes them.

Solvers see every row at its nearest nodes; a model interpolates between nodes. What is to hold for
predictions is computed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.anova.components import Component, canonical
from tpnn.model.flat import FlatTable, flatten_tables
from tpnn.model.interpolate import Predictor
from tpnn.solvers.problem.base import Base
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.problem.rows import read_columns
from tpnn.table.encoder import TableEncoder
from tpnn.table.frame import Table
from tpnn.table.passes import of_rows


def training_columns(
    problem: Problem, components: Iterable[Component], rows: IntArray
) -> list[FloatArray]:
    """Columns of some rows of the user's table as numbers; empty where no component needs them."""
    table, encoder, shelf = problem.codes.table, problem.encoder, problem.codes.shelf
    columns = [np.empty(0) for _ in range(encoder.n_features)]
    for feature in used_features(components):
        found = of_rows(table, partial(_column, encoder, feature), rows)
        columns[feature] = shelf.keep(found)
    return columns


def used_features(components: Iterable[Component]) -> list[int]:
    """Features of some components, in order."""
    return sorted({feature for component in components for feature in component})


def _column(
    encoder: TableEncoder,
    feature: int,
    table: Table,
    rows: IntArray | None,
    n_threads: int | None = None,
) -> FloatArray:
    values = encoder.numbers(table, feature)
    return values if rows is None else values[rows]


def interpolated(
    encoder: TableEncoder,
    tables: Sequence[FlatTable],
    intercepts: FloatArray,
    columns: list[FloatArray],
) -> FloatArray:
    """Add intercepts (K,) and K tables of each component, in their order, on rows: (n, K)."""
    n_rows = max(map(len, columns), default=0)
    raw = np.empty((len(intercepts), n_rows))
    raw[:] = intercepts[:, None]
    Predictor(encoder.axes, tables).add(columns, raw)
    return raw.T


def training_scores(
    tables: Mapping[Component, FloatArray], intercepts: FloatArray, problem: Problem
) -> FloatArray:
    """Raw scores (n, K) of the distinct training rows, without their offset.

    They are what a model predicts with these grids (M_1, ..., M_d, K), whose components are in the
    user's order. Components are added in canonical order, so that the order of the columns changes
    no bit.
    """
    ordered = canonical(tables, problem.features)
    given = {s: tables[tuple(sorted(s))].transpose(*np.argsort(np.argsort(s)), -1) for s in ordered}
    scores = partial(_scores, problem.encoder, given, intercepts)
    return of_rows(problem.codes.table, scores, problem.distinct.rows)


def _scores(
    encoder: TableEncoder,
    tables: Mapping[Component, FloatArray],
    intercepts: FloatArray,
    table: Table,
    rows: IntArray,
    n_threads: int | None,
) -> FloatArray:
    """Raw scores (n, K) of some rows."""
    used, columns = used_features(tables), [np.empty(0) for _ in range(encoder.n_features)]

    def read(feature: int) -> FloatArray:
        return table.shelf.keep(_column(encoder, feature, table, rows))

    for feature, column in zip(used, read_columns(read, used, table, n_threads), strict=True):
        columns[feature] = column
    return interpolated(encoder, flatten_tables(tables), intercepts, columns)


def based(problem: Problem, base: Base) -> Problem:
    """Return the problem of what to add to a model: its raw scores join the offset of the rows."""
    raw = training_scores(base.tables, base.intercepts, problem)
    known = problem.rows.offset + (raw - problem.shift) / problem.scale
    offset = problem.codes.shelf.keep(known.astype(np.float32))
    return replace(
        problem, rows=replace(problem.rows, offset=offset), start=0 * base.intercepts, base=base
    )
