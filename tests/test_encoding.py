from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tpnn.encoding import Axis, Table, TableEncoder, make_axis, place_nodes

columns = arrays(float, st.integers(2, 60), elements=st.floats(-1e6, 1e6, allow_subnormal=False))


def axis_of(x: np.ndarray, max_nodes: int) -> Axis:
    values, counts = np.unique(x, return_counts=True)
    masses = counts.astype(float)
    return make_axis(values, masses, place_nodes(values, masses, max_nodes))


@given(columns, st.integers(2, 20))
def test_nodes_are_data_values_and_weights_a_distribution(x: np.ndarray, most: int) -> None:
    axis = axis_of(x, most)
    assert axis.n_nodes <= most
    assert np.isin(axis.values, x).all()
    assert (np.diff(axis.values) > 0).all()
    assert (axis.weights > 0).all()
    assert axis.weights.sum() == pytest.approx(1.0)
    assert ((axis.positions > 0) & (axis.positions < 1)).all()


@given(columns, st.integers(2, 12), st.integers(0, 2**32 - 1))
def test_mean_over_nodes_is_the_mean_over_rows(x: np.ndarray, most: int, seed: int) -> None:
    """A table averages to the same number over its nodes and, interpolated, over the rows."""
    axis = axis_of(x, most)
    table = np.random.default_rng(seed).normal(size=axis.n_nodes)
    on_rows = np.interp(x, axis.values, table)
    assert axis.weights @ table == pytest.approx(on_rows.mean(), abs=1e-9)


@given(columns, st.integers(2, 12))
def test_locate_is_linear_interpolation(x: np.ndarray, most: int) -> None:
    axis = axis_of(x, most)
    lower, fraction = axis.locate(x)
    upper = np.minimum(lower + 1, axis.n_nodes - 1)
    located = axis.values[lower] * (1 - fraction) + axis.values[upper] * fraction
    clipped = np.clip(x, axis.values[0], axis.values[-1])
    assert np.allclose(located, clipped, rtol=1e-12, atol=1e-9 * (1 + np.ptp(x)))


def test_codes_are_the_nearest_node() -> None:
    axis = Axis(np.array([0.0, 1.0, 10.0]), np.full(3, 1 / 3))
    assert axis.codes(np.array([-5.0, 0.4, 0.6, 5.4, 5.6, 99.0])).tolist() == [0, 0, 1, 1, 2, 2]


def test_heavy_atom_keeps_nodes_for_the_rest() -> None:
    values = np.arange(1001.0)
    masses = np.r_[0.92 * 1000 / 0.08, np.ones(1000)]
    nodes = place_nodes(values, masses, 64)
    assert len(nodes) == 64
    assert nodes[0] == 0
    assert np.ptp(np.diff(nodes[1:])) <= 1  # the other 63 cut the remaining mass evenly


def test_weights_count_like_repeated_rows() -> None:
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=200), rng.integers(0, 4, 200).astype(float)
    repeated = pd.DataFrame({"x": np.repeat(x, weights.astype(int))})
    one = TableEncoder.fit(Table(pd.DataFrame({"x": x})), {1: 16}, weights).axes[1][0]
    other = TableEncoder.fit(Table(repeated), {1: 16}).axes[1][0]
    assert np.array_equal(one.values, other.values)
    assert np.array_equal(one.weights, other.weights)


def test_constant_column_has_one_node() -> None:
    axis = axis_of(np.full(5, 3.0), 8)
    assert axis.n_nodes == 1
    assert axis.locate(np.array([1.0, 9.0]))[1].tolist() == [0.0, 0.0]


def test_canonical_order_follows_names_or_contents() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, 3))
    named = TableEncoder.fit(Table(pd.DataFrame(X, columns=["c", "a", "b"])), {1: 8})
    assert named.canonical_order() == [1, 2, 0]
    plain = TableEncoder.fit(Table(X), {1: 8}).canonical_order()
    flipped = TableEncoder.fit(Table(X[:, ::-1]), {1: 8}).canonical_order()
    assert [2 - feature for feature in flipped] == plain


def test_more_than_256_nodes_use_two_bytes() -> None:
    X = np.arange(600.0)[:, None]
    for most, dtype in ((256, np.uint8), (300, np.uint16)):
        encoder = TableEncoder.fit(Table(X), {1: most})
        assert encoder.codes(Table(X), 1, np.arange(600)).dtype == dtype


@given(columns)
def test_coarse_nodes_are_fine_nodes(x: np.ndarray) -> None:
    encoder = TableEncoder.fit(Table(x[:, None]), {1: 12, 2: 6, 3: 3})
    fine, coarse, coarsest = (encoder.axes[order][0].values for order in (1, 2, 3))
    assert np.isin(coarse, fine).all()
    assert np.isin(coarsest, coarse).all()
