"""Box trees: a visit adds constants on boxes, and the residual follows."""

from __future__ import annotations

import numpy as np
import pytest

from tpnn.solvers.grow.box_trees import BoxGrowth, BoxRows, grow_visits, visit
from tpnn.solvers.grow.rectangles import UNVISITED_GAIN, TreeSettings

TREE = TreeSettings(
    n_leaves=8, rate=1.0, ridge=0.0, min_mass=1.0, share=1.0, fewest=100, random_first=True
)
N_NODES, N_ROWS = 4, 600


def case(seed: int = 0, order: int = 3) -> tuple[np.ndarray, BoxGrowth]:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, N_NODES, (order, N_ROWS)).astype(np.uint8)
    parity = np.where((codes >= 2).sum(0) % 2, 1.0, -1.0)
    growth = BoxGrowth(
        tables=(np.zeros((1, N_NODES**order), np.float32),),
        residual=parity + 0.1 * rng.normal(size=N_ROWS),
        hessian=np.ones(N_ROWS),
        scales=np.full(2, 2.0**40),
        gains=np.full(1, UNVISITED_GAIN),
        state=np.array([seed], np.uint64),
    )
    return codes, growth


def cells(codes: np.ndarray) -> np.ndarray:
    return np.ravel_multi_index(tuple(codes.astype(int)), (N_NODES,) * len(codes))


@pytest.mark.parametrize("order", [3, 4])
def test_the_residual_follows_the_table(order: int) -> None:
    codes, growth = case(order=order)
    before = growth.residual.copy()
    sizes = np.full(order, N_NODES)
    visit(codes, sizes, growth, growth.tables[0][0], N_NODES, TREE)
    assert np.abs(growth.tables[0]).max() > 0
    assert growth.residual == pytest.approx(before - growth.tables[0][0][cells(codes)], abs=1e-5)


def test_a_visit_makes_boxes() -> None:
    """At most as many values as leaves, and each leaf's value is the mean of its residual."""
    codes, growth = case()
    before = growth.residual.copy()
    visit(codes, np.full(3, N_NODES), growth, growth.tables[0][0], N_NODES, TREE)
    table = growth.tables[0].reshape(N_NODES, N_NODES, N_NODES)
    values = np.unique(table)
    assert len(values) <= TREE.n_leaves
    for value in values:
        inside = table == value
        rows = inside.ravel()[cells(codes)]
        assert before[rows].mean() == pytest.approx(value, abs=1e-4)
        corners = np.argwhere(inside)
        low, high = corners.min(0), corners.max(0) + 1
        assert inside.sum() == np.prod(high - low)


def test_visits_learn_a_parity() -> None:
    codes, growth = case()
    rows = BoxRows((codes,), (np.array([[0, 1, 2]]),), (np.full(3, N_NODES),), (N_NODES,))
    before = (growth.residual**2).mean()
    grow_visits(rows, growth, 100, (TREE._replace(rate=0.3),))
    assert (growth.residual**2).mean() < 0.05 * before


def test_a_seed_repeats_its_boxes() -> None:
    found = []
    for seed in (1, 1, 2):
        codes, growth = case()
        growth.state[0] = seed
        visit(codes, np.full(3, N_NODES), growth, growth.tables[0][0], N_NODES, TREE)
        found.append(growth.tables[0].copy())
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
