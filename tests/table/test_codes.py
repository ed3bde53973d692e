"""Codes of a table: one compiled search for each value, against NumPy's search at every order."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tpnn.table.axis import Axis
from tpnn.table.codes import ROWS_PER_BLOCK, _find_places, code_rows, lay_out
from tpnn.table.encoder import LevelRules, TableEncoder
from tpnn.table.table import Table

NODES = {1: 40, 2: 9, 3: 4}
any_numbers = arrays(float, st.integers(2, 60), elements=st.floats(allow_infinity=False))


def nearest(axis: Axis, x: np.ndarray) -> np.ndarray:
    """Node of each value by NumPy, from the definition: the middle belongs to the lower node."""
    nodes = axis.values
    middles = np.minimum(nodes[:-1] / 2 + nodes[1:] / 2, np.nextafter(nodes[1:], -np.inf))
    return np.where(np.isnan(x), axis.missing_node, np.searchsorted(middles, x, side="left"))


def assert_coded(X: np.ndarray, rows: np.ndarray | None = None, n_threads: int = 2) -> None:
    table = Table(X)
    rows = np.arange(len(X)) if rows is None else rows
    encoder = TableEncoder.fit(table, NODES)
    codes = code_rows(table, encoder, rows, n_threads)
    assert list(codes) == list(NODES)
    for order, axes in encoder.axes.items():
        for feature, axis in enumerate(axes):
            expected = nearest(axis, X[rows, feature])
            assert np.array_equal(codes[order][feature], expected), (order, feature)


@settings(max_examples=200)
@given(any_numbers)
def test_codes_are_those_of_numpy(x: np.ndarray) -> None:
    """Huge values, subnormal ones, -0.0, NaN, ties: whatever a double can be."""
    assert_coded(np.column_stack([x, -x]))


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_long_columns_of_every_shape(n_threads: int) -> None:
    rng = np.random.default_rng(0)
    n_rows = 3 * ROWS_PER_BLOCK + 17
    normal = rng.normal(size=n_rows)
    X = np.column_stack(
        [
            normal,
            np.exp(30 * normal),  # heavy tails: nearly all values in one bucket
            np.round(normal),
            np.where(rng.random(n_rows) < 0.3, np.nan, normal),
            np.full(n_rows, 7.0),
            np.full(n_rows, np.nan),
            normal * 1e-310,  # subnormal
            normal * 1e307,
            np.where(normal > 0, 0.0, -0.0),
        ]
    )
    rows = rng.permutation(n_rows)[: n_rows // 2]
    assert_coded(X, rows, n_threads)


def test_every_end_and_its_neighbours() -> None:
    """The values next to an end, where a search goes wrong first."""
    ends = np.sort(np.random.default_rng(1).standard_cauchy(300))
    x = np.concatenate([ends, np.nextafter(ends, -np.inf), np.nextafter(ends, np.inf)])
    table = np.concatenate([x, [-np.inf, np.inf]])
    places = lay_out(ends)
    found = np.empty(len(table), np.int32)
    _find_places(table, places, -1, found)
    assert np.array_equal(found, np.searchsorted(ends, table, side="left"))


def test_levels_and_missing_levels() -> None:
    frame = pd.DataFrame(
        {"a": ["x", "y", None, "z", "x", "y"], "b": [3, 1, 1, 2, 2, 1], "c": np.arange(6.0)}
    )
    table = Table(frame)
    encoder = TableEncoder.fit(table, {1: 8, 2: 2}, rules=LevelRules(nominal=[1]))
    rows = np.array([5, 2, 0])
    codes = code_rows(table, encoder, rows)
    for order, axes in encoder.axes.items():
        for feature in (0, 1):
            numbers = encoder.numbers(table, feature)[rows]
            missing = np.isnan(numbers)
            groups = axes[feature].groups
            assert groups is not None
            expected = groups[np.where(missing, 0, numbers).astype(int)]
            expected[missing] = axes[feature].missing_node
            assert np.array_equal(codes[order][feature], expected)


def test_a_level_without_mass_is_coded_without_a_word() -> None:
    """Rows of weight zero are not among the rows, so their new levels have no node."""
    table = Table(pd.DataFrame({"a": ["x", "y", "ghost", "x"]}))
    encoder = TableEncoder.fit(table, {1: 8}, np.array([1.0, 1.0, 0.0, 1.0]))
    rows = np.array([0, 1, 3])
    codes = code_rows(table, encoder, rows)[1][0]
    assert codes[0] == codes[2] != codes[1]
