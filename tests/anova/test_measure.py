from __future__ import annotations

import numpy as np
import pytest

from tpnn.anova.measure import centre, worst_mean


def random_table(seed: int, shape: tuple[int, ...]) -> tuple[np.ndarray, list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape), [rng.dirichlet(np.ones(size)) for size in shape]


@pytest.mark.parametrize("shape", [(5,), (4, 6), (3, 4, 5)])
def test_centred_tables_average_to_zero(shape: tuple[int, ...]) -> None:
    table, weights = random_table(0, shape)
    assert worst_mean(centre(table, weights), weights) < 1e-14
    assert worst_mean(table, weights) > 0.01


def test_centring_a_pair_is_the_textbook_double_centring() -> None:
    table, (rows, columns) = random_table(1, (4, 6))
    expected = table - rows @ table - (table @ columns)[:, None] + rows @ table @ columns
    assert np.allclose(centre(table, [rows, columns]), expected)


def test_worst_mean_by_hand() -> None:
    table = np.array([[1.0, -1.0], [3.0, -3.0]])
    half = np.array([0.5, 0.5])
    assert worst_mean(table, [half, half]) == pytest.approx(2 / np.sqrt(5))
    assert worst_mean(np.zeros(3), [np.full(3, 1 / 3)]) == 0


def test_rounding_is_not_judged_by_itself() -> None:
    third = np.full(3, 1 / 3)
    rounding = np.array([1.0, 0.0, 0.5]) * 1e-16
    assert worst_mean(rounding, [third]) > 0.5
    assert worst_mean(rounding, [third], scale=1.0) < 1e-9
    faint = np.array([1.0, 0.0, 0.5]) * 1e-5
    assert worst_mean(faint, [third], scale=1.0) == pytest.approx(worst_mean(faint, [third]))
