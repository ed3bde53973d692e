"""Doubt: what the band and the rows do not speak for, by the same rules in plots and reports."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tpnn._utils.arrays import BoolArray, FloatArray
from tpnn.anova.posterior import LEVEL, normal_quantile
from tpnn.model.model import AnovaModel
from tpnn.table.axis import Axis

COLOUR_RANK = 0.995  # share of the cells whose colours are told apart; the rest saturates
VEIL = 0.65  # how much of a colour paper covers where the band holds "no effect"
EXPECTED_NEAR = 12.0  # rows that a neighbourhood would hold if the features were independent
REACH = normal_quantile((1 + LEVEL) / 2)  # of an interval, in standard errors


def colour_limit(model: AnovaModel, output: int = 0) -> float:
    """Raw effect that has the strongest colour in all heat maps of an output: one for all pairs."""
    tables = zip(model.components, model.tables, strict=True)
    sizes = [
        float(np.quantile(np.abs(table[..., output]), COLOUR_RANK))
        for component, table in tables
        if len(component) > 1
    ]
    return max(sizes, default=0.0) or 1.0


def without_rows(axes: Sequence[Axis], density: FloatArray | None, n_rows: int) -> BoolArray:
    """Tell cells that no row is near, (M_1, ..., M_d); none where the rows are not known.

    Near are the neighbouring nodes, and where rows are few, nodes of about the same rank. What has
    no order is near to itself alone.

    >>> axis = Axis(np.arange(4.0), np.full(4, 0.25))
    >>> without_rows([axis, axis], np.diag([1.0, 1.0, 0.0, 0.0]), 100)[0]
    array([False, False, False,  True])
    """
    shape = tuple(axis.n_nodes for axis in axes)
    if density is None or n_rows == 0:
        return np.zeros(shape, bool)
    reach = 0.5 * (EXPECTED_NEAR / n_rows) ** (1 / len(axes))
    held = density
    for place, axis in enumerate(axes):
        held = np.moveaxis(np.tensordot(_near(axis, reach), held, axes=(1, place)), 0, place)
    return np.asarray(held == 0)


def _near(axis: Axis, reach: float) -> FloatArray:
    """Which nodes are near each other, (M, M); ``reach`` is a difference of ranks."""
    near = np.eye(axis.n_nodes)
    if axis.levels is None and not axis.is_empty:
        nodes, ranks = np.arange(len(axis.values)), axis.positions[axis.regular]
        are_beside = np.abs(nodes[:, None] - nodes) <= 1
        near[axis.regular, axis.regular] = are_beside | (np.abs(ranks[:, None] - ranks) <= reach)
    return near


def share_interval(share: FloatArray, n_rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Wilson's interval of 95 % of a share of some rows.

    >>> [end.round(3) for end in share_interval(np.array([0.0]), np.array([10.0]))]
    [array([0.]), array([0.278])]
    """
    total = 1 + REACH**2 / n_rows
    centre = (share + REACH**2 / (2 * n_rows)) / total
    reach = REACH / total * np.sqrt(share * (1 - share) / n_rows + REACH**2 / (4 * n_rows**2))
    return (centre - reach).clip(0), (centre + reach).clip(max=1)
