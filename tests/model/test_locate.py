"""Locator: many axes at once, bit for bit what each axis says alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.test_interpolate_numba import level_axis, number_axis
from tpnn.model.interpolate import Locator
from tpnn.table.axis import Axis

ODD_VALUES = [0.0, -0.0, 1e300, -1e300, 1.7e308, 5e-324, np.nan, np.inf]


def random_axis(rng: np.random.Generator, is_level: bool) -> Axis:
    make = level_axis if is_level else number_axis
    return make(rng, int(rng.integers(1, 9)), bool(rng.random() < 0.5))


def values_on(axis: Axis, rng: np.random.Generator, n_rows: int) -> np.ndarray:
    """Nodes, values beside and beyond them, and odd ones; levels that the axis knows."""
    if axis.groups is not None:
        return rng.choice([*range(len(axis.groups)), np.nan, np.inf], n_rows)
    nodes = axis.values
    beside = [*np.nextafter(nodes, np.inf), *np.nextafter(nodes, -np.inf), *rng.normal(size=9)]
    return rng.choice([*nodes, *beside, *ODD_VALUES], n_rows)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    kinds=st.lists(st.booleans(), min_size=1, max_size=5),
    n_rows=st.sampled_from([1, 2, 50]),
)
def test_every_axis_is_located_as_it_is_alone(seed: int, kinds: list[bool], n_rows: int) -> None:
    """Two axes for each column, as two orders have them, in any order of columns."""
    rng = np.random.default_rng(seed)
    features = rng.permutation(np.repeat(np.arange(len(kinds)), 2)).tolist()
    first = [random_axis(rng, is_level) for is_level in kinds]
    axes = [first[j] if kinds[j] else random_axis(rng, is_level=False) for j in features]
    columns = [values_on(axis, rng, n_rows) for axis in first]
    lower, fraction = Locator(features, axes).locate(columns)
    for place, (feature, axis) in enumerate(zip(features, axes, strict=True)):
        alone = axis.locate(columns[feature])
        assert np.array_equal(lower[place], alone[0])
        assert np.array_equal(fraction[place], alone[1])


def test_an_axis_without_values_has_a_place_for_missing_ones_alone() -> None:
    for axis in (Axis(np.empty(0), np.ones(1), has_missing=True), Axis(*np.empty((2, 0)))):
        lower, fraction = Locator([0], [axis]).locate([np.array([np.nan, np.inf])])
        assert lower.tolist() == [[axis.missing_node, axis.unseen_node]]
        assert fraction.tolist() == [[0.0, 0.0]]
