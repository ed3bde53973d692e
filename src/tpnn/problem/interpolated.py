"""Raw scores of training rows by interpolation, as a frozen model computes them.

Solvers see every row at its nearest nodes; a model interpolates between nodes. What is to hold for
predictions is computed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tpnn._typing import FloatArray, IntArray
from tpnn.anova.components import Component, canonical
from tpnn.model.flat import flatten_tables
from tpnn.model.interpolate import Predictor
from tpnn.problem.base import Base
from tpnn.problem.problem import Problem
from tpnn.problem.rows import read_columns


def training_columns(
    problem: Problem, components: Mapping[Component, FloatArray], rows: IntArray
) -> list[FloatArray]:
    """Columns of some rows of the user's table as numbers; empty where no component needs them."""
    used = {feature for component in components for feature in component}
    encoder, codes = problem.encoder, problem.codes

    def read(feature: int) -> FloatArray:
        if feature not in used:
            return np.empty(0)
        return codes.shelf.keep(encoder.numbers(codes.table, feature)[rows])

    features, n_rows = range(encoder.n_features), codes.table.n_rows
    return list(read_columns(read, features, n_rows, codes.n_threads))


def interpolated(
    problem: Problem,
    tables: Mapping[Component, FloatArray],
    intercepts: FloatArray,
    columns: list[FloatArray],
) -> FloatArray:
    """Add intercepts (K,) and grids (M_1, ..., M_d, K), in their order, on rows: (n, K)."""
    n_rows = max(map(len, columns), default=0)
    raw = np.empty((len(intercepts), n_rows))
    raw[:] = intercepts[:, None]
    Predictor(problem.encoder.axes, flatten_tables(tables)).add(columns, raw)
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
    columns = training_columns(problem, given, problem.distinct.rows)
    return interpolated(problem, given, intercepts, columns)


def based(problem: Problem, base: Base) -> Problem:
    """Return the problem of what to add to a model: its raw scores join the offset of the rows."""
    raw = training_scores(base.tables, base.intercepts, problem)
    known = problem.rows.offset + (raw - problem.shift) / problem.scale
    offset = problem.codes.shelf.keep(known.astype(np.float32))
    return replace(
        problem, rows=replace(problem.rows, offset=offset), start=0 * base.intercepts, base=base
    )
