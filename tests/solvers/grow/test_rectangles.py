"""Rectangle trees: sums over cells, cuts, leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tpnn.solvers.grow.rectangles import (
    TreeSettings,
    cell_sums,
    fill_step,
    grow_tree,
    subtract_step,
    summed_area,
)
from tpnn.solvers.problem.sums import sum_scale

SCALE = np.float32(2**30)
EVERY_CUT = TreeSettings(
    n_leaves=4, rate=1.0, ridge=0.0, min_mass=1.0, share=1.0, fewest=100, random_first=False
)


def table_case(seed: int, shape: tuple[int, int]) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    rows, columns = (rng.integers(0, size, 500).astype(np.uint8) for size in shape)
    return rows, columns, rng.normal(size=500).astype(np.float32)


def areas(rows: np.ndarray, columns: np.ndarray, values: np.ndarray, shape: Any) -> np.ndarray:
    sums = np.empty(shape, np.int64)
    cell_sums(rows, columns, values, SCALE, sums)
    area = np.empty((shape[0] + 1, shape[1] + 1))
    summed_area(sums, 1 / float(SCALE), area)
    return area


def test_summed_area_by_hand() -> None:
    rows, columns, values = table_case(0, (6, 9))
    area = areas(rows, columns, values, (6, 9))
    inside = (rows < 4) & (columns < 7)
    assert area[4, 7] == pytest.approx(values[inside].sum(), abs=1e-4)
    assert area[6, 9] == pytest.approx(values.sum(), abs=1e-4)


def test_a_cell_that_is_nearly_full_still_counts_its_rows() -> None:
    """Single precision adds nothing to 2^24 that is below 2: such cells stopped growing."""
    values = np.ones(1001, np.float32)
    values[0] = 2.0**24
    nil = np.zeros(1001, np.uint8)
    sums, scale = np.empty((1, 1), np.int64), np.float32(sum_scale(2.0**24, len(values)))
    cell_sums(nil, nil, values, scale, sums)
    area = np.empty((2, 2))
    summed_area(sums, 1 / float(scale), area)
    assert area[1, 1] == 2.0**24 + 1000


def test_tree_is_a_partition_and_its_leaves_are_means() -> None:
    rows, columns, values = table_case(1, (6, 9))
    residual = areas(rows, columns, values, (6, 9))
    mass = areas(rows, columns, np.ones(500, np.float32), (6, 9))
    boxes = np.empty((4, 4), np.int64)
    n_boxes, gain = grow_tree(residual, mass, EVERY_CUT, np.zeros(1, np.uint64), boxes)
    assert n_boxes == 4
    assert gain > 0
    covered, step = np.zeros((6, 9)), np.empty((6, 9), np.float32)
    for top, bottom, left, right in boxes:
        covered[top:bottom, left:right] += 1
    assert (covered == 1).all()
    fill_step(residual, mass, boxes, n_boxes, EVERY_CUT, step)
    for top, bottom, left, right in boxes:
        inside = (rows >= top) & (rows < bottom) & (columns >= left) & (columns < right)
        assert step[top, left] == pytest.approx(values[inside].mean(), abs=1e-4)
    before = (values.astype(float) ** 2).sum()
    subtract_step(rows, columns, step, np.ones(500, np.float32), values)
    drop = before - (values.astype(float) ** 2).sum()
    root = residual[-1, -1] ** 2 / 500
    assert drop == pytest.approx(gain + root, rel=1e-3)  # the gain is what squared error falls by


def test_first_cut_of_a_main_effect_is_the_best_one() -> None:
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 20, 1000).astype(np.uint8)
    values = np.where(codes >= 13, 1.0, -1.0).astype(np.float32)
    nil = np.zeros(1000, np.uint8)
    residual, mass = (areas(codes, nil, v, (20, 1)) for v in (values, np.ones_like(values)))
    boxes = np.empty((2, 4), np.int64)
    grow_tree(residual, mass, EVERY_CUT._replace(n_leaves=2), np.zeros(1, np.uint64), boxes)
    assert sorted(boxes[:, :2].tolist()) == [[0, 13], [13, 20]]
