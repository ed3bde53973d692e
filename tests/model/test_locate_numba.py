"""Compiled location: node and fraction of every value are those of Axis.locate, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpnn.model.interpolate_numba import (
    LEVELS,
    ODD,
    PLAIN,
    SMALLEST_RANGE,
    lay_out,
    locate_rows,
    starts_of,
)
from tpnn.table.axis import Axis

FINITE = st.floats(-1e308, 1e308)


def axis_of(nodes: np.ndarray, has_missing: bool = False) -> Axis:
    n_nodes = len(nodes) + has_missing
    return Axis(nodes, np.full(n_nodes, 1 / n_nodes), has_missing=has_missing)


@settings(max_examples=80, deadline=None)
@given(
    nodes=st.lists(FINITE, min_size=2, max_size=40, unique=True).map(sorted),
    coarse=st.integers(2, 5),
    points=st.lists(FINITE | st.sampled_from([np.nan, np.inf, -0.0, 5e-324]), max_size=20),
    has_missing=st.booleans(),
)
def test_numbers_are_located_as_by_the_axis(
    nodes: list[float], coarse: int, points: list[float], has_missing: bool
) -> None:
    """At two orders; values on, between, beyond the nodes, far apart or next to each other."""
    fine = np.array(nodes)
    axes = [axis_of(fine, has_missing), axis_of(fine[:: max(len(fine) // coarse, 1)], has_missing)]
    if min(len(axis.values) for axis in axes) < 2:
        return
    between = np.concatenate([fine, np.nextafter(fine, np.inf), np.nextafter(fine, -np.inf)])
    x = np.concatenate([between, points])[None, :]
    places = lay_out([axes])
    if places.kinds[0] == ODD:
        return  # left to the axes themselves
    lower, fraction = np.empty((2, *x.shape), np.int32), np.empty((2, *x.shape))
    locate_rows(x, places, lower, fraction)
    for order, axis in enumerate(axes):
        expected_lower, expected_fraction = axis.locate(x[0])
        assert np.array_equal(lower[order, 0], expected_lower)
        assert np.array_equal(fraction[order, 0], expected_fraction)


def test_levels_are_located_by_their_nodes() -> None:
    axis = Axis(
        np.array([0.0, 1.0]), np.ones(3) / 3, "nominal",
        groups=np.array([1, 0, 1, 1]), has_missing=True,
    )  # fmt: skip
    x = np.array([[0.0, 1.0, 2.0, 3.0, np.nan, np.inf]])
    lower, fraction = np.empty((1, 1, 6), np.int32), np.empty((1, 1, 6))
    places = lay_out([[axis]])
    assert places.kinds.tolist() == [LEVELS]
    locate_rows(x, places, lower, fraction)
    assert lower[0, 0].tolist() == [1, 0, 1, 1, 2, 3]
    assert not fraction.any()


@pytest.mark.parametrize(
    ("nodes", "kind"),
    [
        ([0.0, 1.0], PLAIN),
        ([0.0], ODD),
        ([0.0, SMALLEST_RANGE], ODD),
        ([-1e308, 1e308], PLAIN),
    ],
)
def test_features_that_the_loops_leave_to_their_axes(nodes: list[float], kind: int) -> None:
    assert lay_out([[axis_of(np.array(nodes))]]).kinds.tolist() == [kind]


def test_levels_in_one_order_and_numbers_in_another_are_left_to_their_axes() -> None:
    levels = Axis(np.arange(2.0), np.ones(2) / 2, "nominal", groups=np.arange(2))
    assert lay_out([[levels, axis_of(np.arange(2.0))]]).kinds.tolist() == [ODD]


def test_starts_are_the_running_lengths() -> None:
    assert starts_of([np.empty(2), np.empty(0), np.empty(3)]).tolist() == [0, 2, 2, 5]
