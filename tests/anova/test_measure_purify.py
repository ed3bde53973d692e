"""Purification: the sum stays, every part averages to zero, and there is only one such split."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.anova.tables import masses_of, random_axes, random_tables, total
from tpnn.anova.measure import purify_tables, worst_mean

seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=20)
@given(seeds, st.integers(1, 3), st.booleans())
def test_the_sum_stays_and_the_parts_are_pure(seed: int, order: int, gaps: bool) -> None:
    rng = np.random.default_rng(seed)
    axes = random_axes(rng, missing=[0, 2] if gaps else [])
    tables = random_tables(rng, axes, order)
    intercept, pure = purify_tables(tables, axes)
    assert pure.keys() == tables.keys()
    for component, table in pure.items():
        assert worst_mean(table, masses_of(axes, component), scale=1.0) < 1e-12
    for x in rng.normal(size=(5, 3)):
        assert intercept + total(pure, axes, x) == pytest.approx(total(tables, axes, x))


@settings(max_examples=20)
@given(seeds)
def test_levels_are_purified_like_numbers(seed: int) -> None:
    """Compared cell by cell, with the group of each level of the coarse axis."""
    rng = np.random.default_rng(seed)
    axes = random_axes(rng, n_features=2, sizes=(9, 3), nominal=[0, 1], missing=[1])
    tables = random_tables(rng, axes)
    intercept, pure = purify_tables(tables, axes)
    for component, table in pure.items():
        assert worst_mean(table, masses_of(axes, component), scale=1.0) < 1e-12
    fine = [axis.groups for axis in axes[1]]
    coarse = [axis.groups for axis in axes[2]]
    for one in range(5):
        for two in range(5):
            cells = {
                (0,): (fine[0][one],),
                (1,): (fine[1][two],),
                (0, 1): (coarse[0][one], coarse[1][two]),
            }
            before = sum(tables[s][cell] for s, cell in cells.items())
            after = intercept + sum(pure[s][cell] for s, cell in cells.items())
            assert after == pytest.approx(before)


@settings(max_examples=20)
@given(seeds)
def test_purification_is_linear_and_changes_nothing_twice(seed: int) -> None:
    rng = np.random.default_rng(seed)
    axes = random_axes(rng)
    one, two = (random_tables(rng, axes, 3) for _ in range(2))
    a, pure_one = purify_tables(one, axes)
    b, pure_two = purify_tables(two, axes)
    c, pure_sum = purify_tables({s: one[s] + 2 * two[s] for s in one}, axes)
    assert c == pytest.approx(a + 2 * b)
    again, same = purify_tables(pure_one, axes)
    assert again == pytest.approx(0.0, abs=1e-12)
    for s in one:
        assert np.allclose(pure_sum[s], pure_one[s] + 2 * pure_two[s], atol=1e-12)
        assert np.allclose(same[s], pure_one[s], atol=1e-12)


def test_the_variance_is_that_of_the_parts() -> None:
    """Pure components are orthogonal under the product measure, on one grid for all orders."""
    rng = np.random.default_rng(0)
    axes = random_axes(rng, sizes=(4, 4, 4))
    tables = random_tables(rng, axes, 3)
    _, pure = purify_tables(tables, axes)
    masses = [axis.weights for axis in axes[1]]
    joint = np.einsum("i,j,k->ijk", *masses)

    def spread(component: tuple[int, ...], table: np.ndarray) -> np.ndarray:
        shape = [len(masses[j]) if j in component else 1 for j in range(3)]
        return np.broadcast_to(table.reshape(shape), joint.shape)

    whole = sum(spread(s, table) for s, table in tables.items())
    variance = (joint * whole**2).sum() - (joint * whole).sum() ** 2
    parts = sum((joint * spread(s, table) ** 2).sum() for s, table in pure.items())
    assert parts == pytest.approx(variance)


def test_bags_are_purified_one_by_one() -> None:
    rng = np.random.default_rng(1)
    axes = random_axes(rng, missing=[0])
    bags = [random_tables(rng, axes) for _ in range(3)]
    stacked = {s: np.stack([bag[s] for bag in bags], axis=-1) for s in bags[0]}
    intercept, pure = purify_tables(stacked, axes)
    assert intercept.shape == (3,)
    for number, bag in enumerate(bags):
        alone, tables = purify_tables(bag, axes)
        assert intercept[number] == pytest.approx(alone)
        for s, table in tables.items():
            assert np.allclose(pure[s][..., number], table, atol=1e-12)


@settings(max_examples=20)
@given(seeds)
def test_nothing_moves_out_of_a_pure_table(seed: int) -> None:
    """Its means are rounding errors, which average to zero in no component."""
    axes = random_axes(np.random.default_rng(seed), n_features=2)
    _, pure = purify_tables(random_tables(np.random.default_rng(seed), axes), axes)
    alone = {s: table if len(s) == 2 else np.zeros_like(table) for s, table in pure.items()}
    _, again = purify_tables(alone, axes)
    assert not again[0,].any()
    assert not again[1,].any()
    assert np.allclose(again[0, 1], pure[0, 1], rtol=1e-12, atol=1e-15)
