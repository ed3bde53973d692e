"""Raw scores of training rows by interpolation, as a frozen model computes them.

Solvers see every row at its nearest nodes; a model interpolates between nodes. What is to hold for
predictions is computed here.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tpnn._typing import FloatArray, IntArray
from tpnn.anova.components import Component
from tpnn.model.flat import flatten_tables
from tpnn.model.interpolate import Predictor
from tpnn.problem.problem import Problem


def training_columns(
    problem: Problem, components: Mapping[Component, FloatArray], rows: IntArray
) -> list[FloatArray]:
    """Columns of some rows of the user's table as numbers; empty where no component needs them."""
    used = {feature for component in components for feature in component}
    encoder, codes = problem.encoder, problem.codes
    return [
        codes.shelf.keep(encoder.numbers(codes.table, j)[rows]) if j in used else np.empty(0)
        for j in range(encoder.n_features)
    ]


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
