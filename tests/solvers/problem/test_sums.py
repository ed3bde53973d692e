"""Sums of whole numbers: exact, in any order, without an end at 2^24."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tpnn.solvers.problem.sums import largest_of, sum_scale, totals, whole_numbers, whole_total

SIZES = [1e-40, 1e-12, 1.0, 3.7, 1e9, 3e38]
SMALLEST = 2.0**-126  # the unit of the smallest numbers


def values_of(size: float, n_rows: int = 5000, n_lanes: int = 3) -> np.ndarray:
    rng = np.random.default_rng(7)
    return (size * rng.uniform(-1, 1, (n_rows, n_lanes))).astype(np.float32)


@pytest.mark.parametrize("size", SIZES)
def test_totals_are_sums(size: float) -> None:
    values = values_of(size)
    for found, column in zip(totals(values), values.T, strict=True):
        exact = sum(Fraction(float(value)) for value in column)
        assert abs(Fraction(found) - exact) <= len(column) * max(size * 2.0**-38, SMALLEST)


def test_totals_do_not_depend_on_the_order() -> None:
    values = values_of(1.0)
    shuffled = np.random.default_rng(0).permutation(values)
    assert np.array_equal(totals(values), totals(shuffled))


def test_a_sum_goes_on_beyond_2_to_the_24() -> None:
    """In single precision 2^24 + 1 is 2^24, so that every later row is lost."""
    values = np.ones((1001, 1), np.float32)
    values[0] = 2.0**24
    assert np.add.accumulate(values, dtype=np.float32)[-1, 0] == 2.0**24
    assert totals(values)[0] == 2.0**24 + 1000
    scale = np.float32(sum_scale(2.0**24, len(values)))
    assert whole_total(values[:, 0], scale) / float(scale) == 2.0**24 + 1000


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("n_rows", [1, 1000, 2**33])
def test_no_sum_overflows(size: float, n_rows: int) -> None:
    """Neither the sum of as many rows as large as the largest, nor one a thousand times that."""
    scale = sum_scale(size, n_rows)
    assert math.frexp(scale)[0] == 0.5  # a power of two
    assert np.float32(scale) == scale
    assert 1000 * n_rows * size * scale < 2.0**63
    assert n_rows * size * scale > 2.0**49 or scale == 2.0**126 or size > 1e37


def test_a_lane_that_is_not_finite_is_nan_alone() -> None:
    values = values_of(1.0)
    values[3, 1], values[4, 2] = np.nan, np.inf
    found = totals(values)
    assert np.isnan(found).tolist() == [False, True, True]
    numbers, units = whole_numbers(values)
    assert np.isnan(units).tolist() == [False, True, True]
    assert numbers[:, 0] * units[0] == pytest.approx(values[:, 0], abs=2.0**-29)


@pytest.mark.parametrize("size", SIZES)
def test_whole_numbers_are_close(size: float) -> None:
    values = values_of(size)
    numbers, units = whole_numbers(values)
    assert numbers.dtype == np.int32
    np.testing.assert_allclose(numbers * units, values, rtol=0, atol=max(size * 2.0**-29, SMALLEST))
    assert np.abs(numbers).max() <= 2**30


def test_largest_absolute_value() -> None:
    values = np.array([[1.0, -3.0], [-2.0, 2.0]])
    assert largest_of(values).tolist() == [2.0, 3.0]


def test_zeros() -> None:
    assert totals(np.zeros((4, 2))).tolist() == [0.0, 0.0]
    assert not whole_numbers(np.zeros((4, 2)))[0].any()
