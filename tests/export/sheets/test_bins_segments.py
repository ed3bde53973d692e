"""Segments: the dynamic programme finds what an exhaustive search finds."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tpnn.export.sheets.bins import MAX_POINTS, best_segments


def segment_loss(values: np.ndarray, masses: np.ndarray, segments: np.ndarray) -> float:
    """Sum of w_i |v_i - mean of its segment|^2."""
    total = 0.0
    for segment in np.unique(segments):
        inside, weights = values[segments == segment], masses[segments == segment]
        if weights.sum() > 0:
            mean = weights @ inside / weights.sum()
            total += float(weights @ ((inside - mean) ** 2).sum(1))
    return total


def least_loss(values: np.ndarray, masses: np.ndarray, max_segments: int) -> float:
    """Smallest loss of all ways to cut, tried one by one."""
    n_points = len(values)
    return min(
        segment_loss(values, masses, np.searchsorted(cuts, np.arange(n_points), side="right"))
        for n_cuts in range(min(max_segments, n_points))
        for cuts in map(np.array, combinations(range(1, n_points), n_cuts))
    )


@given(st.integers(1, 8), st.integers(1, 3), st.integers(1, 5), st.integers(0, 2**31))
def test_no_other_segments_lose_less(
    n_points: int, n_values: int, max_segments: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(-3, 4, (n_points, n_values)).astype(float) + 0.1 * rng.integers(0, 2)
    masses = rng.random(n_points) * (rng.random(n_points) < 0.8)
    segments = best_segments(values, masses, max_segments)
    assert segments[0] == 0
    assert set(np.diff(segments)) <= {0, 1}
    assert segments.max() < max_segments
    found = segment_loss(values, masses, segments)
    assert found <= least_loss(values, masses, max_segments) + 1e-12


@given(st.integers(1, 8), st.integers(1, 4), st.floats(0.05, 0.5), st.integers(0, 2**31))
def test_no_other_segments_with_enough_mass_lose_less(
    n_points: int, max_segments: int, share: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    values, masses = rng.integers(-3, 4, (n_points, 1)).astype(float), rng.random(n_points)
    segments = best_segments(values, masses, max_segments, share)
    tried = [
        np.searchsorted(cuts, np.arange(n_points), side="right")
        for n_cuts in range(min(max_segments, n_points))
        for cuts in map(np.array, combinations(range(1, n_points), n_cuts))
    ]
    large = [
        segment_loss(values, masses, one) for one in tried
        if (one.max() == 0 or np.bincount(one, masses).min() >= share * masses.sum())
        and (np.diff(one)[np.diff(values[:, 0]) == 0] == 0).all()  # equal points stay together
    ]  # fmt: skip
    assert np.bincount(segments, masses).min() >= share * masses.sum() - 1e-8 or not segments.any()
    assert segment_loss(values, masses, segments) <= min(large) + 1e-12


def test_equal_neighbours_need_no_segment_of_their_own() -> None:
    values = np.repeat([[1.0], [2.0]], 3, axis=0)
    assert np.array_equal(best_segments(values, np.ones(6), 4), np.repeat([0, 1], 3))


def test_more_points_than_the_programme_takes() -> None:
    values = np.linspace(0, 1, 3 * MAX_POINTS)[:, None]
    masses = np.ones(len(values))
    segments = best_segments(values, masses, 4)
    assert segments.max() == 3
    even = np.repeat(np.arange(4), len(values) // 4)
    assert segment_loss(values, masses, segments) <= 1.001 * segment_loss(values, masses, even)
