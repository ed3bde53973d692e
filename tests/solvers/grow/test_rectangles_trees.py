"""Seeded random draws, and trees whose leaves may only step one way."""

from __future__ import annotations

import numpy as np
import pytest

from tpnn.solvers.grow.forest import MAIN_TREE
from tpnn.solvers.grow.rectangles import bounded, draw_below, draw_uniform, one_way


def test_random_numbers_are_uniform() -> None:
    state = np.array([5], np.uint64)
    draws = np.array([draw_uniform(state) for _ in range(4000)])
    assert 0 <= draws.min() < draws.max() < 1
    assert draws.mean() == pytest.approx(0.5, abs=0.02)
    assert np.histogram(draws, 10, (0, 1))[0].min() > 320


def test_whole_random_numbers_stay_below_their_bound() -> None:
    state = np.array([7], np.uint64)
    draws = [draw_below(state, 5) for _ in range(500)]
    assert sorted(set(draws)) == [0, 1, 2, 3, 4]


def test_a_seed_repeats_its_draws() -> None:
    first, second = ([draw_uniform(np.array([seed], np.uint64))] for seed in (3, 3))
    assert first == second
    assert first != [draw_uniform(np.array([4], np.uint64))]


def test_a_tree_that_steps_one_way_has_two_leaves() -> None:
    tree = one_way(MAIN_TREE._replace(n_leaves=9), -1.0, 4)
    assert tree == MAIN_TREE._replace(n_leaves=2, sign=-1.0, exempt=4)


@pytest.mark.parametrize(("value", "expected"), [(0.5, 0.5), (-7.0, -1.0), (7.0, 1.0)])
def test_leaf_values_are_bounded(value: float, expected: float) -> None:
    assert bounded(value, MAIN_TREE._replace(largest=1.0)) == expected
