"""The measure: padded nodes, centring as a projection, and how far a table is from the law."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.anova.tables import random_axes
from tpnn.anova.measure import Marginal, centre, worst_mean

seeds = st.integers(0, 2**32 - 1)
shapes = st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple)


def random_table(seed: int, shape: tuple[int, ...]) -> tuple[np.ndarray, list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape), [rng.dirichlet(np.ones(size)) for size in shape]


def inner(one: np.ndarray, other: np.ndarray, weights: list[np.ndarray]) -> float:
    """Mean of a product under the product of the weights."""
    cells = one * other
    for mass in weights:
        cells = np.tensordot(mass, cells, axes=(0, 0))
    return float(cells)


@pytest.mark.parametrize("shape", [(5,), (4, 6), (3, 4, 5)])
def test_centred_tables_average_to_zero(shape: tuple[int, ...]) -> None:
    table, weights = random_table(0, shape)
    assert worst_mean(centre(table, weights), weights) < 1e-14
    assert worst_mean(table, weights) > 0.01


def test_centring_a_pair_is_the_textbook_double_centring() -> None:
    table, (rows, columns) = random_table(1, (4, 6))
    expected = table - rows @ table - (table @ columns)[:, None] + rows @ table @ columns
    assert np.allclose(centre(table, [rows, columns]), expected)


@given(seeds, shapes)
def test_centring_is_an_orthogonal_projection(seed: int, shape: tuple[int, ...]) -> None:
    """It changes nothing the second time, and what it removes is orthogonal to what it leaves."""
    table, weights = random_table(seed, shape)
    centred = centre(table, weights)
    assert np.allclose(centre(centred, weights), centred, atol=1e-12)
    assert inner(centred, table - centred, weights) == pytest.approx(0.0, abs=1e-10)


def test_worst_mean_by_hand() -> None:
    table = np.array([[1.0, -1.0], [3.0, -3.0]])
    half = np.array([0.5, 0.5])
    assert worst_mean(table, [half, half]) == pytest.approx(2 / np.sqrt(5))
    assert worst_mean(np.zeros(3), [np.full(3, 1 / 3)]) == 0


@given(seeds, shapes, st.sampled_from([1e-300, 1e-9, 3.0, 1e200]))
def test_worst_mean_has_no_unit(seed: int, shape: tuple[int, ...], unit: float) -> None:
    table, weights = random_table(seed, shape)
    assert worst_mean(table * unit, weights) == pytest.approx(worst_mean(table, weights))


def test_rounding_is_not_judged_by_itself() -> None:
    third = np.full(3, 1 / 3)
    rounding = np.array([1.0, 0.0, 0.5]) * 1e-16
    assert worst_mean(rounding, [third]) > 0.5
    assert worst_mean(rounding, [third], scale=1.0) < 1e-9
    faint = np.array([1.0, 0.0, 0.5]) * 1e-5
    assert worst_mean(faint, [third], scale=1.0) == pytest.approx(worst_mean(faint, [third]))


def test_padding_changes_no_average() -> None:
    rng = np.random.default_rng(0)
    axes = random_axes(rng, nominal=[1], missing=[1, 2])[1]
    marginal = Marginal.of(axes)
    assert marginal.n_nodes == max(axis.n_nodes for axis in axes)
    for feature, axis in enumerate(axes):
        padded = rng.normal(size=marginal.n_nodes)
        assert marginal.weights[feature] @ padded == pytest.approx(
            axis.weights @ padded[: axis.n_nodes]
        )
        assert np.array_equal(marginal.positions[feature, : axis.n_nodes], axis.positions)
        assert (marginal.positions[feature, axis.n_nodes :] == axis.positions[-1]).all()
    assert np.allclose(marginal.weights.sum(1), 1.0)


def test_levels_and_missing_values_are_free() -> None:
    """They have a logit of their own; numbers share those of the sigmoids."""
    axes = random_axes(np.random.default_rng(1), nominal=[1], missing=[1, 2])[1]
    marginal = Marginal.of(axes)
    free = [marginal.free[feature, : axis.n_nodes].tolist() for feature, axis in enumerate(axes)]
    assert free[0] == [False] * axes[0].n_nodes
    assert free[1] == [True] * axes[1].n_nodes
    assert free[2] == [False] * len(axes[2].values) + [True]
    sizes = [axis.n_nodes for axis in axes]
    assert marginal.free.sum() == sizes[1] + 1  # none of the padding
