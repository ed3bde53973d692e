"""Sorted columns: values, counts and shared masses, bit for bit those of NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tpnn.table.axis import distinct, make_axis, place_nodes
from tpnn.table.axis_numba import sort_column
from tpnn.table.columns import SMALLEST_SIZE

any_numbers = arrays(float, st.integers(1, 80), elements=st.floats(allow_infinity=False))


def bits(x: np.ndarray) -> np.ndarray:
    """Bits of numbers; all NaN are one."""
    return np.where(np.isnan(x), np.nan, x).view(np.uint64)


def without_tiny_numbers(x: np.ndarray) -> np.ndarray:
    """Numbers too small for exact differences are 0."""
    return np.where(np.abs(x) < SMALLEST_SIZE, 0.0, x)


@given(any_numbers)
def test_sorting_is_that_of_numpy(x: np.ndarray) -> None:
    assert np.array_equal(bits(sort_column(x)), bits(np.sort(without_tiny_numbers(x))))


def test_columns_that_are_no_block_of_memory() -> None:
    X = np.random.default_rng(0).normal(size=(5000, 7)) * 10.0 ** np.arange(-300, 301, 100)
    for column in X.T:
        before = column.copy()
        assert np.array_equal(sort_column(column), np.sort(column))
        assert np.array_equal(column, before)


def test_nan_of_any_sign_is_last() -> None:
    x = np.array([np.nan, 1.0, -np.nan, -np.inf, np.inf, -0.0, 0.0])
    x[2] = np.copysign(np.nan, -1.0)
    found = sort_column(x)
    assert found[:5].tolist() == [-np.inf, 0.0, 0.0, 1.0, np.inf]
    assert np.isnan(found[5:]).all()
    assert not np.signbit(found[1:3]).any()


@given(any_numbers)
def test_distinct_values_and_their_counts(x: np.ndarray) -> None:
    values, counts = np.unique(without_tiny_numbers(x), return_counts=True)
    found = distinct(x, None)
    assert np.array_equal(bits(found[0]), bits(values))
    assert found[1].tolist() == counts.tolist()


def numpy_weights(values: np.ndarray, masses: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Masses of the nodes, shared between neighbours by NumPy."""
    inside = np.clip(values, nodes[0], nodes[-1])
    lower = np.searchsorted(nodes, inside, side="right") - 1
    steps = np.append(np.diff(nodes / 2), 0.0)[lower]
    fraction = np.zeros(len(values))
    np.divide(inside / 2 - (nodes / 2)[lower], steps, out=fraction, where=steps > 0)
    shares, weights = masses / masses.sum(), np.zeros(len(nodes) + 1)
    np.add.at(weights, lower, shares * (1 - fraction))
    np.add.at(weights, lower + 1, shares * fraction)
    return weights[:-1]


@given(any_numbers.filter(lambda x: not np.isnan(x).any()), st.integers(1, 20))
def test_masses_are_shared_bit_for_bit(x: np.ndarray, most: int) -> None:
    values, masses = distinct(x, None)
    nodes = place_nodes(values, masses, most)
    expected = numpy_weights(values, masses, nodes)
    assert np.array_equal(make_axis(values, masses, nodes).weights, expected)


@pytest.mark.parametrize("n_missing", [0, 1, 30])
def test_missing_values_have_their_own_mass(n_missing: int) -> None:
    x = np.append(np.random.default_rng(0).normal(size=90), np.full(n_missing, np.nan))
    values, masses = distinct(x, None)
    known = values[~np.isnan(values)]
    axis = make_axis(values, masses, place_nodes(known, masses[: len(known)], 8))
    assert axis.has_missing == (n_missing > 0)
    assert axis.weights.sum() == pytest.approx(1.0)
    if n_missing:
        assert axis.weights[-1] == n_missing / len(x)
