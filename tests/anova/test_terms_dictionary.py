"""The dictionary: centred sigmoids of numbers, indicators of levels and of missing values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from tests.anova.tables import random_axes
from tpnn.anova.measure import Marginal
from tpnn.anova.terms import N_SIGMOIDS, SIGMOID_WIDTHS, dictionary


@pytest.fixture(scope="module")
def marginal() -> Marginal:
    """A number, a nominal feature, and a number with missing values."""
    rng = np.random.default_rng(0)
    return Marginal.of(random_axes(rng, nominal=[1], missing=[2])[1])


@pytest.mark.parametrize("order", [1, 2])
def test_bases_average_to_zero(marginal: Marginal, order: int) -> None:
    bases = dictionary(marginal, order)
    assert bases.shape == (3, marginal.n_nodes, N_SIGMOIDS[order] + 1)
    assert np.abs(np.einsum("fm,fmd->fd", marginal.weights, bases)).max() < 1e-6


@pytest.mark.parametrize("order", [1, 2])
def test_numbers_have_sigmoids(marginal: Marginal, order: int) -> None:
    count = N_SIGMOIDS[order]
    for place in (0, count // 2, count - 1):
        centre = (place + 0.5) / count
        sigmoid = expit((marginal.positions[0] - centre) / SIGMOID_WIDTHS[order])
        expected = sigmoid - marginal.weights[0] @ sigmoid
        assert np.allclose(dictionary(marginal, order)[0, :, place], expected, atol=1e-6)


def test_levels_have_indicators(marginal: Marginal) -> None:
    size = int(marginal.sizes[1])
    bases = dictionary(marginal, 1)[1]
    for level in range(size):
        expected = (np.arange(size) == level) - marginal.weights[1, level]
        assert np.allclose(bases[:size, level], expected, atol=1e-6)


def test_sigmoids_are_zero_at_missing_values(marginal: Marginal) -> None:
    """Only the indicator tells missing values apart, and only where there are any."""
    last = int(marginal.sizes[2]) - 1
    bases = dictionary(marginal, 1)
    assert np.abs(bases[2, last, :-1]).max() < 1e-6
    assert bases[2, last, -1] == pytest.approx(1 - marginal.weights[2, last])
    assert not bases[0, : marginal.sizes[0], -1].any()


def test_without_missing_values_there_is_no_indicator() -> None:
    marginal = Marginal.of(random_axes(np.random.default_rng(0))[1])
    assert dictionary(marginal, 2).shape[2] == N_SIGMOIDS[2]


def test_a_feature_that_is_always_missing_has_no_basis() -> None:
    one = np.array([1.0])
    marginal = Marginal(one[:, None], one[:, None], np.array([1]), one < 0, one > 0)
    assert not dictionary(marginal, 1).any()
