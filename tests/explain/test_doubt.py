"""Doubt: cells within their band, cells without rows, and what may be nothing at all."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from tpnn import Explanation
from tpnn.explain.component_table import joint_density
from tpnn.explain.doubt import (
    EXPECTED_NEAR,
    colour_limit,
    share_interval,
    without_rows,
)
from tpnn.model.summary import importance_interval_of
from tpnn.table.axis import Axis


def axis_of(n_nodes: int, **fields: object) -> Axis:
    n_places = n_nodes + bool(fields.get("has_missing"))
    return Axis(np.arange(float(n_nodes)), np.full(n_places, 1 / n_places), **fields)


def test_a_cell_is_near_a_row_if_nodes_or_ranks_are() -> None:
    """By brute force: over all cells and all rows."""
    rng = np.random.default_rng(0)
    axes = [
        axis_of(12),
        axis_of(9, has_missing=True),
        axis_of(3, kind="nominal", levels=tuple("abc")),
    ]
    for n_rows in (3, 10, 40):
        nodes = np.stack([rng.integers(0, axis.n_nodes, n_rows) for axis in axes])
        density = np.zeros([axis.n_nodes for axis in axes])
        np.add.at(density, tuple(nodes), 1 / n_rows)
        reach = 0.5 * (EXPECTED_NEAR / n_rows) ** (1 / 3)
        far = without_rows(axes, density, n_rows)

        def near(axis: Axis, one: int, two: int, reach: float = reach) -> bool:
            if one == two:
                return True
            if axis.levels is not None or max(one, two) >= len(axis.values):
                return False
            ranks = axis.positions[axis.regular]
            return abs(one - two) <= 1 or abs(ranks[one] - ranks[two]) <= reach

        for cell in np.ndindex(*density.shape):
            found = any(
                all(near(a, one, two) for a, one, two in zip(axes, cell, row, strict=True))
                for row in nodes.T
            )
            assert far[cell] == (not found)


def test_without_rows_nothing_is_said() -> None:
    axes = [axis_of(4), axis_of(4)]
    assert not without_rows(axes, None, 100).any()
    assert not without_rows(axes, np.zeros((4, 4)), 0).any()


@pytest.mark.parametrize("n_rows", [200, 20_000])
def test_independent_rows_leave_few_cells_without(n_rows: int) -> None:
    rng = np.random.default_rng(1)
    axes = [axis_of(64), axis_of(64)]
    columns = [rng.uniform(-0.5, 63.5, n_rows).clip(0, 63) for _ in axes]
    far = without_rows(axes, joint_density(axes, columns), n_rows)
    assert far[4:-4, 4:-4].mean() < 0.01


def test_shares_have_the_interval_of_scipy() -> None:
    for successes, trials in ((0, 9), (3, 10), (999, 1000), (5, 5)):
        found = share_interval(np.array([successes / trials]), np.array([float(trials)]))
        expected = binomtest(successes, trials).proportion_ci(0.95, "wilson")
        assert np.ravel(found) == pytest.approx(list(expected), abs=1e-12)


def test_the_limit_of_colours_is_that_of_the_largest_interaction(local: Explanation) -> None:
    pairs = [table for table in local.model.tables if table.ndim > 2]
    assert colour_limit(local.model) == max(np.quantile(np.abs(each), 0.995) for each in pairs)


def test_intervals_are_those_of_the_summary(local: Explanation) -> None:
    model = local.model
    for line in model.summary().lines:
        place = local.find(tuple(line.component.split(" x ")))
        assert importance_interval_of(model, place) == (line.lower, line.upper)
