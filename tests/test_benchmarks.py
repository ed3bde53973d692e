"""Tests of what the benchmarks compute themselves."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.growth import exponent
from benchmarks.stability.cells import align
from benchmarks.stability.models import purified
from benchmarks.stability.score import centred_scores


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_score_of_independent_noise_is_its_share_of_the_second_moment(rng):
    """With f^j = signal + noise the ratio is near s^2 (J - 1) / (J m^2 + J s^2), row by row."""
    signal = np.where(np.arange(4_000) % 2, 1.0, -1.0)
    values = signal[:, None] + 0.5 * rng.standard_normal((10, 4_000, 1))
    assert centred_scores(values)[0] == pytest.approx(0.25 * 0.9 / 1.25, rel=0.05)


def test_score_does_not_depend_on_scale_or_constant(rng):
    values = rng.standard_normal((3, 50, 2))
    moved = 7 * values + rng.standard_normal((3, 1, 2))
    np.testing.assert_allclose(centred_scores(moved), centred_scores(values))


def test_a_component_that_nobody_has_is_stable():
    assert centred_scores(np.zeros((2, 5, 1))).tolist() == [0.0]


def test_purified_pairs_have_no_means_and_the_sum_keeps_its_differences(rng):
    terms = [(0,), (1,), (0, 1)]
    tables = [rng.standard_normal(shape) for shape in ((4,), (3,), (4, 3))]
    first, second = rng.integers(4, size=200), rng.integers(3, size=200)
    training = np.column_stack([first, second, 3 * first + second])
    a, b = np.divmod(np.arange(12), 3)
    grid = np.column_stack([a, b, np.arange(12)])
    values = purified(terms, tables, training, grid)
    before = sum(table.ravel()[grid[:, t]] for t, table in enumerate(tables))
    assert np.ptp(values.sum(1) - before) == pytest.approx(0, abs=1e-12)
    pair = values[:, 2].reshape(4, 3)
    masses = [np.bincount(first, minlength=4) / 200, np.bincount(second, minlength=3) / 200]
    assert np.ptp(pair @ masses[1]) == pytest.approx(0, abs=1e-12)
    assert np.ptp(masses[0] @ pair) == pytest.approx(0, abs=1e-12)


def test_components_that_a_fit_has_not_chosen_are_zero():
    union, aligned = align(
        [[[0], [1]], [[1], [1, 0]]], [np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]])]
    )
    assert union == [(0,), (1,), (0, 1)]
    assert aligned[:, 0].tolist() == [[1, 2, 0], [0, 3, 4]]


def test_exponent_of_a_power():
    assert exponent([10, 100, 1_000], [5e2, 5e4, 5e6]) == pytest.approx(2)
