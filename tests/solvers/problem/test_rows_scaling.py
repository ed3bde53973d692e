"""The training scale: y = shift + scale * target, and the way back."""

from __future__ import annotations

import numpy as np
import pytest

from tpnn.loss.objectives import (
    LOG_LOSS,
    OBJECTIVES,
    QUARTILE_RANGE,
    SQUARED_ERROR,
    mean_and_deviation,
    median_and_quartiles,
    several_classes,
)
from tpnn.solvers.problem.rows import centred_offset, scaled, softened


def columns(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    weights = rng.random(200)
    return rng.gamma(2.0, 3.0, (200, 1)), rng.normal(size=(200, 1)), weights / weights.sum()


@pytest.mark.parametrize("name", ["squared_error", "absolute_error", "huber"])
def test_standardised_targets_come_back(name: str) -> None:
    """The offset is a part of the target, which is then one unit wide."""
    y, offset, weights = columns()
    target = scaled(y, offset, weights, OBJECTIVES[name])
    assert not target.offset.any()
    assert target.shift + target.scale * target.y == pytest.approx(y - offset)
    assert 0.5 < target.y.std() < 2
    best = target.shift + target.scale * target.best_constant
    centre = weights @ (y - offset) if name == "squared_error" else np.median(y - offset)
    assert best == pytest.approx(centre, abs=0.3)


def test_mean_and_deviation_of_weighted_rows() -> None:
    y, _, weights = columns()
    whole = np.repeat(y, (weights * 1e4).astype(int), axis=0)
    mean, deviation = mean_and_deviation(y, weights)
    assert mean == pytest.approx(whole.mean(0), rel=0.01)
    assert deviation == pytest.approx(whole.std(0), rel=0.01)


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e300])
def test_no_size_of_the_targets_overflows(size: float) -> None:
    y, _, weights = columns()
    mean, deviation = mean_and_deviation(y * size, weights)
    expected = mean_and_deviation(y, weights)
    assert mean / size == pytest.approx(expected[0])
    assert deviation / size == pytest.approx(expected[1])


def test_a_constant_has_the_deviation_one() -> None:
    equal = np.full(4, 0.25)  # no rounding
    assert mean_and_deviation(np.full((4, 1), 7.0), equal)[1].tolist() == [1.0]
    assert median_and_quartiles(np.full((4, 1), 7.0), equal)[1].tolist() == [1.0]


def test_quartiles_do_not_see_outliers() -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(3.0, 2.0, (2000, 1))
    y[:20] = 1e9
    median, deviation = median_and_quartiles(y, np.full(2000, 1 / 2000))
    assert median == pytest.approx([3.0], abs=0.2)
    assert deviation == pytest.approx([2.0], rel=0.1)
    low, high = np.quantile(y, [0.25, 0.75])
    assert deviation == pytest.approx([(high - low) / QUARTILE_RANGE], rel=0.01)


@pytest.mark.parametrize("name", ["poisson", "gamma", "tweedie"])
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_positive_targets_are_relative_to_their_mean(name: str, unit: float) -> None:
    y, offset, weights = columns()
    target = scaled(y * unit, 0 * offset, weights, OBJECTIVES[name])
    assert weights @ target.y == pytest.approx([1.0])
    assert target.shift == pytest.approx(np.log(unit) + np.log(weights @ y))
    assert target.scale.tolist() == [1.0]
    assert target.best_constant == pytest.approx([0.0], abs=1e-6)


def test_labels_stay_as_they_are() -> None:
    labels = np.array([[0.0], [1.0], [1.0], [1.0]])
    target = scaled(labels, np.zeros((4, 1)), np.full(4, 0.25), OBJECTIVES["log_loss"])
    assert np.array_equal(target.y, labels)
    assert target.best_constant == pytest.approx([np.log(3.0)])


@pytest.mark.parametrize("value", [0.1, -0.3, 1e300, 7e-310])
@pytest.mark.parametrize("n_rows", [3, 10, 997])
def test_a_constant_target_has_deviation_one(value: float, n_rows: int) -> None:
    weights = np.random.default_rng(0).random(n_rows)
    y = np.column_stack([np.full(n_rows, value), np.arange(float(n_rows))])
    mean, deviation = mean_and_deviation(y, weights / weights.sum())
    assert (mean[0], deviation[0]) == (value, 1.0)
    assert deviation[1] > 0.1


@pytest.mark.parametrize("name", ["absolute_error", "huber", "quantile"])
def test_outliers_of_any_size_stay_finite_in_single_precision(name: str) -> None:
    y, offset, weights = columns()
    y[0], y[1] = 1e308, -1e308
    target = scaled(y, 0 * offset, weights, OBJECTIVES[name])
    assert np.isfinite(target.y.astype(np.float32)).all()
    assert np.argmax(target.y) == 0
    assert np.argmin(target.y) == 1


def test_a_large_median_of_log_risks_is_taken_out() -> None:
    cox, offset = OBJECTIVES["cox"], np.array([799.0, 800.0, 803.0])
    assert centred_offset(offset, None, cox).tolist() == [-1.0, 0.0, 3.0]
    assert centred_offset(offset / 100, None, cox).tolist() == (offset / 100).tolist()
    assert centred_offset(offset, None, OBJECTIVES["poisson"]).tolist() == offset.tolist()


def test_classes_of_few_rows_are_not_certain() -> None:
    """Laplace's rule: after N rows of a class, the next is of it with (N + 1) / (N + K)."""
    two = np.array([[1.0], [0.0], [0.0], [0.0]])
    even = np.full(4, 0.25)
    assert softened(two, even, 4, LOG_LOSS)[:, 0] == pytest.approx([2 / 3, 1 / 5, 1 / 5, 1 / 5])
    three = np.eye(3)[[0, 1, 1, 2]]
    found = softened(three, even, 4, several_classes(3))
    assert found[1] == pytest.approx([1 / 5, 3 / 5, 1 / 5])
    assert found.sum(1) == pytest.approx(np.ones(4))
    merged = softened(two[:2], np.array([0.25, 0.75]), 4, LOG_LOSS)
    assert merged == pytest.approx(softened(two, even, 4, LOG_LOSS)[:2])
    assert softened(two, even, 30, LOG_LOSS) is two
    assert softened(two, even, 4, SQUARED_ERROR) is two
