"""Axis: nodes, masses, and where values lie between the nodes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tpnn.table.axis import (
    CLIP_RANGES,
    OTHERS,
    OUTER_RANKS,
    UNSEEN_LEVEL,
    VALUE_SHARE,
    Axis,
    distinct,
    make_axis,
    nested_axes,
    nominal_axes,
    place_nodes,
)

numbers = st.floats(-1e6, 1e6).map(lambda x: x if abs(x) >= 2.0**-1020 else 0.0)
columns = arrays(float, st.integers(2, 60), elements=numbers)


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


def test_constant_column_has_one_node() -> None:
    axis = axis_of(np.full(5, 3.0), 8)
    assert axis.n_nodes == 1
    assert axis.locate(np.array([1.0, 9.0]))[1].tolist() == [0.0, 0.0]


@given(columns, st.data())
def test_distinct_values_have_the_mass_of_their_rows(x: np.ndarray, data: Any) -> None:
    x = np.where(np.arange(len(x)) % 3 == 0, np.nan, np.round(x, -5))
    weights = data.draw(arrays(float, len(x), elements=st.integers(0, 3).map(float)))
    values, masses = distinct(x, weights)
    expected = {}
    for value, weight in zip(x.tolist(), weights.tolist(), strict=True):
        key = "missing" if np.isnan(value) else value
        expected[key] = expected.get(key, 0.0) + weight
    found = ["missing" if np.isnan(v) else v for v in values.tolist()]
    assert dict(zip(found, masses.tolist(), strict=True)) == {
        value: mass for value, mass in expected.items() if mass > 0
    }
    assert "missing" not in found[:-1]


@given(columns)
def test_rows_count_the_same_without_weights(x: np.ndarray) -> None:
    for one, other in zip(distinct(x, None), distinct(x, np.ones(len(x))), strict=True):
        assert np.array_equal(one, other)


@given(columns, st.integers(2, 12))
def test_missing_values_have_a_node_of_their_own(x: np.ndarray, most: int) -> None:
    gaps = np.append(x, [np.nan] * 3)
    values, masses = distinct(gaps, None)
    (axis,) = nested_axes(values, masses, [most], "number", ())
    plain = axis_of(x, most)
    assert axis.has_missing
    assert axis.n_nodes == len(axis.values) + 1 == plain.n_nodes + 1
    assert axis.weights[-1] == pytest.approx(3 / len(gaps))
    assert np.allclose(axis.weights[:-1] / axis.weights[:-1].sum(), plain.weights)
    assert np.allclose(axis.positions[:-1], plain.positions)
    assert axis.positions[-1] == 1.0
    assert axis.locate(np.array([np.nan]))[0] == axis.codes(np.array([np.nan])) == axis.n_nodes - 1


def test_the_sign_of_zero_and_the_order_of_rows_do_not_matter() -> None:
    x, weights = np.array([0.0, -0.0, 1.0, 1.0]), np.array([0.1, 0.2, 0.3, 0.7])
    values, masses = distinct(x, weights)
    assert not np.signbit(values).any()
    for order in ([1, 0, 2, 3], [3, 2, 1, 0]):
        again, same = distinct(x[order], weights[order])
        assert np.array_equal(again, values)
        assert np.array_equal(same, masses)


@pytest.mark.parametrize("weights", [None, np.ones(6)])
def test_numbers_too_small_for_exact_differences_are_zero(weights: np.ndarray | None) -> None:
    """So that a value's share of its two nodes is the same in every unit of the feature."""
    values, masses = distinct(np.array([-5e-324, 0.0, 2e-310, 1e-308, 2e-307, 1.0]), weights)
    assert values.tolist() == [0.0, 2e-307, 1.0]
    assert masses.tolist() == [4, 1, 1]


def test_what_fit_has_not_seen_lies_beyond_the_last_node() -> None:
    axis = Axis(np.array([0.0, 1.0]), np.array([0.5, 0.5]))
    lower, fraction = axis.locate(np.array([0.25, np.nan, UNSEEN_LEVEL]))
    assert lower.tolist() == [0, 2, 2]
    assert fraction.tolist() == [0.25, 0.0, 0.0]
    gaps = Axis(np.array([0.0, 1.0]), np.full(3, 1 / 3), has_missing=True)
    assert gaps.locate(np.array([np.nan, UNSEEN_LEVEL]))[0].tolist() == [2, 3]


def test_nodes_of_huge_values_do_not_overflow() -> None:
    largest = np.finfo(float).max
    axis = Axis(np.array([-largest, largest]), np.array([0.5, 0.5]))
    lower, fraction = axis.locate(np.array([-largest, 0.0, largest]))
    assert lower.tolist() == [0, 0, 1]
    assert fraction.tolist() == [0.0, 0.5, 0.0]
    assert axis.codes(np.array([-1.0, 1.0])).tolist() == [0, 1]


@given(columns, st.integers(2, 12))
def test_codes_are_the_nearest_of_all_nodes(x: np.ndarray, most: int) -> None:
    axis = axis_of(x, most)
    distances = np.abs(x[:, None] - axis.values)
    chosen = distances[np.arange(len(x)), axis.codes(x)]
    assert np.allclose(chosen, distances.min(1), atol=1e-9 * (1 + np.ptp(x)))


@given(columns, st.integers(2, 12))
def test_ends_and_heavy_values_are_nodes_together(x: np.ndarray, most: int) -> None:
    """Of more heavy values than there is room for beside the ends, the lightest are left out."""
    values, counts = np.unique(x, return_counts=True)
    nodes = place_nodes(values, counts.astype(float), most, reach_ends=True)
    assert len(nodes) <= max(most, 1)
    assert nodes[0] == values[0]
    assert nodes[-1] == values[-1]
    heavy = values[counts >= counts.sum() / most]
    left_out = np.setdiff1d(heavy, nodes)
    assert len(left_out) <= 2
    assert len(np.union1d(heavy, values[[0, -1]])) <= most or len(nodes) == most
    if len(np.union1d(heavy, values[[0, -1]])) <= most:
        assert not len(left_out)


def test_a_heavy_value_beside_an_end_keeps_its_node() -> None:
    values, masses = np.arange(101.0), np.ones(101)
    masses[[1, 99]] = 500.0
    for most in (4, 8, 16):
        nodes = place_nodes(values, masses, most, reach_ends=True)
        assert set(nodes) >= {0.0, 1.0, 99.0, 100.0}
        assert len(nodes) == most


@given(columns, st.integers(3, 12))
def test_no_node_stands_for_much_more_than_its_share(x: np.ndarray, most: int) -> None:
    """Light values between two nodes hold at most two shares of the mass."""
    values, counts = np.unique(x, return_counts=True)
    nodes = place_nodes(values, counts.astype(float), most)
    inside = np.searchsorted(nodes, values, side="right")
    between = ~np.isin(values, nodes)
    gaps = np.bincount(inside[between], counts[between], minlength=len(nodes) + 1)
    n_atoms = int((counts >= counts.sum() / most).sum())
    if len(nodes) > n_atoms:
        light = counts[counts < counts.sum() / most].sum()
        assert gaps.max() <= 2 * light / (most - n_atoms) + counts.max()


@given(columns)
def test_nested_axes_are_nested(x: np.ndarray) -> None:
    values, masses = distinct(x, None)
    fine, coarse, coarsest = nested_axes(values, masses, [12, 6, 3], "number", ())
    assert set(coarsest.values) <= set(coarse.values) <= set(fine.values)
    assert fine.n_nodes <= 12
    assert coarse.n_nodes <= 6
    assert coarsest.n_nodes <= 3
    for axis in (fine, coarse, coarsest):
        assert axis.weights.sum() == pytest.approx(1.0)


def test_nodes_of_ordered_levels_keep_their_labels() -> None:
    values, masses = np.arange(5.0), np.array([1.0, 9.0, 1.0, 9.0, 1.0])
    fine, coarse = nested_axes(values, masses, [8, 2], "ordered", tuple("abcde"))
    assert fine.levels == tuple("abcde")
    assert coarse.levels == ("b", "d")
    assert coarse.kind == "ordered"
    assert not coarse.is_nominal


levels_and_masses = st.lists(st.integers(1, 5), min_size=1, max_size=12)


@given(levels_and_masses, st.integers(1, 14), st.integers(0, 3), st.booleans())
def test_levels_share_nodes_by_frequency(
    counts: list[int], size: int, least: int, gaps: bool
) -> None:
    masses = np.array(counts + [2] * gaps, float)
    values = np.append(np.arange(float(len(counts))), [np.nan] * gaps)
    labels = tuple(f"level {number}" for number in range(len(counts)))
    (axis,) = nominal_axes(values, masses, [size], labels, masses < least)
    assert axis.is_nominal
    assert axis.has_missing == gaps
    assert axis.groups is not None
    assert axis.levels is not None
    assert len(axis.values) == len(axis.levels) <= size
    assert axis.weights.sum() == pytest.approx(1.0)
    for node, label in enumerate(axis.levels):
        members = np.flatnonzero(axis.groups == node)
        mass = masses[members].sum() / masses.sum()
        assert axis.weights[node] == pytest.approx(mass)
        if label != OTHERS:
            assert [labels[member] for member in members] == [label]
            assert masses[members[0]] >= least or len(axis.values) == len(counts)
    alone = axis.weights[axis.regular][:-1]
    assert (np.diff(alone) <= 1e-12).all()  # most frequent first


def test_levels_are_located_on_their_group() -> None:
    (axis,) = nominal_axes(
        np.arange(3.0), np.array([1.0, 5.0, 2.0]), [2], ("a", "b", "c"), np.zeros(3, bool)
    )
    assert axis.levels == ("b", OTHERS)
    x = np.array([0.0, 1.0, 2.0, UNSEEN_LEVEL])
    lower, fraction = axis.locate(x)
    assert lower.tolist() == [1, 0, 1, 2]
    assert not fraction.any()
    assert axis.codes(x[:3]).tolist() == [1, 0, 1]


def test_a_feature_without_values_has_the_node_of_missing_ones() -> None:
    axis = make_axis(np.array([np.nan]), np.array([4.0]), np.empty(0))
    assert (axis.n_nodes, len(axis.values), axis.missing_node) == (1, 0, 0)
    assert axis.weights.tolist() == [1.0]
    assert axis.positions.tolist() == [1.0]


@pytest.mark.parametrize(
    "again",
    [lambda axis: axis, lambda axis: pickle.loads(pickle.dumps(axis)), copy.deepcopy, replace],
    ids=["made", "pickled", "copied", "replaced"],
)
def test_arrays_are_read_only(again: Callable[[Axis], Axis]) -> None:
    mine = np.array([0.0, 1.0])
    axis = again(Axis(mine, np.array([0.5, 0.5]), "nominal", ("a", "b"), np.array([0, 1])))
    for array in (axis.values, axis.weights, axis.groups):
        assert array is not None
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    assert mine.flags.writeable
    assert again(replace(axis, groups=None)).groups is None


@pytest.mark.parametrize("first", [2.0**53, 2.0**53 + 2, -(2.0**53) - 16, 1.0, 1e300, 5e-324])
def test_neighbouring_doubles_are_nodes_of_their_own(first: float) -> None:
    """Also where their middle, which is no double, rounds to the upper one."""
    nodes = np.array([first])
    while len(nodes) < 8:
        nodes = np.append(nodes, np.nextafter(nodes[-1], np.inf))
    axis = make_axis(nodes, np.ones(8), place_nodes(nodes, np.ones(8), 16))
    assert axis.codes(nodes).tolist() == list(range(8))
    lower, fraction = axis.locate(nodes)
    assert lower.tolist() == list(range(8))
    assert not fraction.any()
    assert axis.weights.tolist() == [1 / 8] * 8


def test_unseen_levels_are_on_their_node_where_they_have_one() -> None:
    closed = Axis(
        np.arange(2.0),
        np.full(3, 1 / 3),
        "nominal",
        ("u", "v"),
        np.arange(2),
        has_missing=True,
    )
    opened = Axis(
        np.arange(3.0),
        np.full(4, 1 / 4),
        "nominal",
        ("u", "v", "?"),
        np.arange(2),
        has_missing=True,
        has_unseen=True,
    )
    x = np.array([0.0, 1.0, np.inf, np.nan])
    assert closed.locate(x)[0].tolist() == [0, 1, 3, 2]
    assert opened.locate(x)[0].tolist() == [0, 1, 2, 3]


@given(st.integers(0, 6), st.booleans(), st.booleans(), st.booleans())
def test_every_node_is_seen_unseen_or_missing(
    n_seen: int, has_levels: bool, has_missing: bool, has_unseen: bool
) -> None:
    """And lies where the axis locates its own number."""
    has_unseen = has_unseen and has_levels
    n_values = n_seen + has_unseen
    axis = Axis(
        np.arange(float(n_values)),
        np.ones(n_values + has_missing),
        groups=np.arange(n_seen)[::-1] if has_levels else None,
        has_missing=has_missing,
        has_unseen=has_unseen,
    )
    nodes = range(axis.n_nodes)
    parts = [nodes[axis.seen], nodes[axis.unseen], nodes[axis.missing]]
    assert [len(part) for part in parts] == [n_seen, has_unseen, has_missing]
    assert sorted(node for part in parts for node in part) == list(nodes)
    assert [*parts[0], *parts[1]] == list(nodes[axis.regular])
    if n_seen or not has_levels:
        assert axis.locate(axis.numbers)[0].tolist() == list(nodes)
    assert np.isnan(axis.numbers).nonzero()[0].tolist() == list(parts[2])
    assert np.isinf(axis.numbers).nonzero()[0].tolist() == list(parts[1])
    shares = axis.with_missing(np.full((n_values, 2), 1.0), np.array([[2.0, 3.0]]))
    assert shares.shape == (axis.n_nodes, 2)
    assert (shares[axis.regular] == 1).all()
    assert shares[axis.missing].tolist() == [[2.0, 3.0]] * has_missing


@given(columns, st.integers(2, 20), st.booleans())
def test_blended_positions_increase_within_the_unit_interval(
    x: np.ndarray, most: int, gaps: bool
) -> None:
    values, masses = distinct(np.append(x, [np.nan] * gaps), None)
    (axis,) = nested_axes(values, masses, [most], "number", ())
    blended = axis.blended_positions
    regular = blended[axis.regular]
    assert len(blended) == axis.n_nodes
    assert (np.diff(regular) > 0).all()
    assert regular.min() >= 0
    assert regular.max() <= 1
    assert not gaps or blended[axis.missing] == [1.0]


def test_blended_positions_are_means_of_ranks_and_clipped_values() -> None:
    """Against the definition: 0.4 of the rank, 0.6 of the value between the clipped extremes."""
    rng = np.random.default_rng(0)
    axis = axis_of(np.append(rng.normal(size=500), [-1e9, 40.0]), 64)
    nodes, ranks = axis.values, axis.positions
    low, high = (np.interp(rank, ranks, nodes) for rank in OUTER_RANKS)
    bottom, top = low - CLIP_RANGES * (high - low), high + CLIP_RANGES * (high - low)
    clipped = np.array([min(max(node, bottom), top) for node in nodes])
    values = (clipped - clipped.min()) / (clipped.max() - clipped.min())
    expected = (1 - VALUE_SHARE) * ranks + VALUE_SHARE * values
    assert np.allclose(axis.blended_positions, expected, rtol=0, atol=1e-12)
    assert not np.allclose(axis.blended_positions, ranks, rtol=0, atol=0.05)


@given(columns, st.integers(2, 12), st.floats(0.1, 100.0), st.integers(-1000, 1000))
def test_the_unit_of_a_feature_does_not_move_blended_positions(
    x: np.ndarray, most: int, unit: float, zero: int
) -> None:
    x = np.round(x, -3)
    one, other = axis_of(x, most), axis_of(unit * x + zero, most)
    assert np.allclose(one.blended_positions, other.blended_positions, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "axis",
    [
        axis_of(np.full(5, 3.0), 8),
        axis_of(np.r_[np.zeros(95), 1.0, 2.0, 5.0, -3.0, 1e6], 8),  # both outer deciles are 0
        make_axis(np.array([np.nan]), np.array([4.0]), np.empty(0)),
        Axis(np.array([-1e308, 0.0, 1e308]), np.full(3, 1 / 3)),  # a range that is no double
        Axis(np.arange(3.0), np.array([0.5, 0.3, 0.2]), "nominal", tuple("abc"), np.arange(3)),
    ],
    ids=["constant", "one heavy value", "only missing", "infinite range", "levels"],
)
def test_ranks_serve_where_values_say_nothing(axis: Axis) -> None:
    assert np.array_equal(axis.blended_positions, axis.positions)


@given(columns, st.integers(2, 12), st.data())
def test_weights_place_what_repeated_rows_place(x: np.ndarray, most: int, data: Any) -> None:
    """Nodes, masses and blended positions, bit for bit, also of coarser axes."""
    counts = data.draw(arrays(int, len(x), elements=st.integers(1, 3)))
    weighted = distinct(x, counts.astype(float))
    repeated = distinct(np.repeat(x, counts), None)
    doubled = distinct(np.repeat(x, 2 * counts), None)
    (one,), (other,), (twice,) = (
        nested_axes(*found, [most], "number", ()) for found in (weighted, repeated, doubled)
    )
    for first, second in ((one, other), (one, twice)):
        coarser = first.coarsened(3), second.coarsened(3)
        for mine, yours in ((first, second), coarser):
            assert np.array_equal(mine.values, yours.values)
            assert np.array_equal(mine.weights, yours.weights)
            assert np.array_equal(mine.blended_positions, yours.blended_positions)


@given(columns, st.integers(2, 12), st.integers(2, 12), st.booleans())
def test_a_coarsened_axis_is_the_one_placed_directly(
    x: np.ndarray, most: int, fewer: int, gaps: bool
) -> None:
    values, masses = distinct(np.append(x, [np.nan] * gaps), None)
    (fine,) = nested_axes(values, masses, [most], "number", ())
    coarse = fine.coarsened(fewer)
    assert len(coarse.values) <= fewer
    assert set(coarse.values) <= set(fine.values)
    direct = make_axis(values, masses, coarse.values)
    assert coarse.has_missing == gaps
    assert np.array_equal(coarse.values, direct.values)
    assert np.allclose(coarse.weights, direct.weights, rtol=0, atol=1e-12)
    if fewer < most:
        _, nested = nested_axes(values, masses, [most, fewer], "number", ())
        assert np.array_equal(coarse.values, nested.values)
    else:
        assert coarse is fine


def test_coarser_ordered_levels_keep_their_labels() -> None:
    values, masses = np.arange(5.0), np.array([1.0, 9.0, 1.0, 9.0, 1.0])
    (fine,) = nested_axes(values, masses, [8], "ordered", tuple("abcde"))
    coarse = fine.coarsened(2)
    assert coarse.levels == ("b", "d")
    assert coarse.kind == "ordered"
    (direct,) = nested_axes(values, masses, [2], "ordered", tuple("abcde"))
    assert np.allclose(coarse.weights, direct.weights)


@given(levels_and_masses, st.integers(2, 14), st.integers(2, 14), st.booleans())
def test_coarser_levels_are_those_placed_directly(
    counts: list[int], size: int, fewer: int, gaps: bool
) -> None:
    masses = np.array(counts + [2] * gaps, float)
    values = np.append(np.arange(float(len(counts))), [np.nan] * gaps)
    labels = tuple(f"level {number}" for number in range(len(counts)))
    fine, direct = nominal_axes(
        values, masses, [size, min(fewer, size)], labels, np.zeros(len(masses), bool)
    )
    coarse = fine.coarsened(fewer)
    assert coarse.levels == direct.levels
    assert np.array_equal(coarse.groups, direct.groups)
    assert np.array_equal(coarse.values, direct.values)
    assert np.allclose(coarse.weights, direct.weights, rtol=0, atol=1e-12)
    assert coarse.has_missing == gaps
