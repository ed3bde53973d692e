"""Objectives: the best constant, dispersion, and which loss a name stands for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loss.cases import EVERY, OF_ROWS, targets
from tpnn.loss.objectives import (
    OBJECTIVES,
    custom,
    quantiles,
    resolve,
    several_targets,
    tweedie,
    weighted_quantiles,
)


@pytest.mark.parametrize("name", OF_ROWS)
def test_start_is_the_best_constant(name: str) -> None:
    objective, rng = EVERY[name], np.random.default_rng(0)
    y, weights = targets(name, 400, rng), rng.random(400)
    offset = rng.normal(size=(400, 1)) * 0.2
    start = objective.start(y, offset, weights)

    def loss(constant: np.ndarray) -> float:
        return float(np.average(objective.losses(y, offset + constant)[:, 0], weights=weights))

    for output in range(objective.n_outputs):
        for shift in (-0.05, 0.05):
            moved = start.copy()
            moved[output] += shift
            assert loss(start) < loss(moved)


@pytest.mark.parametrize("name", ["squared_error", "poisson", "gamma", "log_loss"])
def test_start_without_offset_predicts_the_mean(name: str) -> None:
    objective, rng = EVERY[name], np.random.default_rng(0)
    y, weights = targets(name, 200, rng), rng.random(200)
    start = objective.start(y, np.zeros((200, 1)), weights)
    assert objective.link.inverse(start) == pytest.approx(np.average(y[:, 0], weights=weights))


def test_survival_starts_at_zero() -> None:
    y = targets("cox", 10, np.random.default_rng(0))
    assert OBJECTIVES["cox"].start(y, np.zeros((10, 1)), np.ones(10)).tolist() == [0.0]


def test_losses_that_are_not_finite_are_refused() -> None:
    y = np.array([[1.0], [np.nan], [3.0]])
    with pytest.raises(ValueError, match=r"^objective: the loss of every row, .* in 3 of 3 rows\."):
        OBJECTIVES["squared_error"].start(y, np.zeros((3, 1)), np.ones(3))


def test_outputs_of_a_bag_stand_together() -> None:
    """Columns of the raw scores are (bag 0: outputs), (bag 1: outputs), and so on."""
    rng = np.random.default_rng(0)
    objective = several_targets(2)
    y, raw = rng.normal(size=(9, 2)), rng.normal(size=(9, 6))
    losses = objective.losses(y, raw)
    gradient, _ = objective.slopes(y, raw)
    assert losses.shape == (9, 3)
    for bag in range(3):
        own = raw[:, 2 * bag : 2 * bag + 2]
        assert np.allclose(losses[:, bag], 0.5 * ((own - y) ** 2).sum(1))
        assert np.allclose(gradient[:, 2 * bag : 2 * bag + 2], own - y)


# Dispersion


@pytest.mark.parametrize(("shape", "scale"), [(2.0, 1.0), (2.0, 50.0), (0.5, 0.01)])
def test_dispersion_of_amounts_has_no_unit(shape: float, scale: float) -> None:
    """Gamma targets of any unit have the same loss in units of their dispersion, 1 / shape."""
    rng = np.random.default_rng(0)
    y = rng.gamma(shape, size=(100_000, 1)) * scale
    raw = np.full_like(y, np.log(shape * scale))
    weights = np.ones(len(y))
    objective = OBJECTIVES["gamma"]
    unit = objective.in_units_of_dispersion(y, raw, weights)
    ratio = objective.losses(y, raw)[0] / unit.losses(y, raw)[0]
    assert ratio == pytest.approx(1 / shape, rel=0.05)
    for plain, divided in zip(objective.slopes(y, raw), unit.slopes(y, raw), strict=True):
        assert np.allclose(divided * ratio, plain)


def test_dispersion_of_counts_is_about_one() -> None:
    y = np.random.default_rng(0).poisson(3.0, size=(100_000, 1)).astype(float)
    raw = np.full_like(y, np.log(3.0))
    objective = OBJECTIVES["poisson"]
    unit = objective.in_units_of_dispersion(y, raw, np.ones(len(y)))
    ratio = objective.losses(y, raw)[0] / unit.losses(y, raw)[0]
    assert ratio == pytest.approx(1.0, rel=0.03)


def test_one_huge_value_does_not_set_the_dispersion() -> None:
    y = np.r_[np.full(999, 1.0), 1e6][:, None]
    raw = np.zeros_like(y)
    objective = OBJECTIVES["poisson"]
    unit = objective.in_units_of_dispersion(y, raw, np.ones(1000))
    ratio = objective.losses(y, raw)[0] / unit.losses(y, raw)[0]
    assert 1e3 < ratio < 1e6  # Pearson's statistic is 1e9


def test_constant_targets_have_no_dispersion() -> None:
    y = np.ones((5, 1))
    objective = OBJECTIVES["gamma"]
    unit = objective.in_units_of_dispersion(y, np.zeros((5, 1)), np.ones(5))
    assert np.array_equal(unit.losses(y, y), objective.losses(y, y))


def test_which_losses_are_relative() -> None:
    relative = {name for name, objective in OBJECTIVES.items() if objective.is_relative}
    assert relative == {"poisson", "negative_binomial", "gamma", "tweedie"}


# Quantiles


values = st.lists(st.integers(-5, 5), min_size=1, max_size=20)


@given(values, st.floats(0.0, 1.0), st.integers(0, 2**32 - 1))
def test_weighted_quantiles_by_definition(given: list[int], level: float, seed: int) -> None:
    x = np.array(given, float)
    weights = np.random.default_rng(seed).random(len(x)) + 0.1
    found = weighted_quantiles(x, weights, level)
    share = weights[x <= found].sum() / weights.sum()
    below = weights[x < found].sum() / weights.sum()
    assert share >= level - 1e-12
    assert below <= level + 1e-12 or found == x.min()


@given(values)
def test_equal_weights_give_the_usual_quantiles(given: list[int]) -> None:
    levels = [0.1, 0.25, 0.5, 0.9]
    found = weighted_quantiles(np.array(given, float), np.ones(len(given)), levels)
    expected = np.quantile(given, levels, method="inverted_cdf")
    assert np.array_equal(found, expected)


# Names


@pytest.mark.parametrize("name", OBJECTIVES)
def test_names_stand_for_objectives(name: str) -> None:
    assert resolve(name, n_targets=1) is OBJECTIVES[name]
    assert OBJECTIVES[name].name == name


@pytest.mark.parametrize(
    ("given", "same"),
    [
        ({"name": "huber", "threshold": 2.0}, EVERY["huber 2"]),
        ({"name": "tweedie", "power": 1.2}, EVERY["tweedie 1.2"]),
        ({"name": "quantile", "levels": [0.1, 0.5, 0.9]}, EVERY["three quantiles"]),
        ({"name": "quantile", "levels": [0.5]}, OBJECTIVES["quantile"]),
        ({"name": "quantile", "levels": 0.5}, OBJECTIVES["quantile"]),
        ({"name": "poisson"}, OBJECTIVES["poisson"]),
    ],
)
def test_parameters_of_objectives(given: dict[str, Any], same: Any) -> None:
    found, rng = resolve(given, n_targets=1), np.random.default_rng(0)
    y, raw = rng.gamma(2.0, size=(20, 1)), rng.normal(size=(20, same.n_outputs))
    assert (found.name, found.link, found.levels) == (same.name, same.link, same.levels)
    assert np.array_equal(found.losses(y, raw), same.losses(y, raw))


def test_several_targets_are_fitted_by_squared_error() -> None:
    assert resolve("squared_error", n_targets=3).n_outputs == 3
    with pytest.raises(ValueError, match=r"^objective: several targets .* 'poisson' for 2 targets"):
        resolve("poisson", n_targets=2)


def test_functions_are_custom_losses() -> None:
    pytest.importorskip("torch")
    assert resolve(lambda y, raw: (raw - y) ** 2, n_targets=1).name == "custom"


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("poisson", [0.0, 2.0], [0.0, 0.0]),
        ("poisson", [0.5], [-1.0, 2.0]),
        ("gamma", [0.1], [0.0, 1.0]),
        ("tweedie", [0.0, 1.0], [0.0]),
    ],
)
def test_targets_that_are_accepted(name: str, good: list[float], bad: list[float]) -> None:
    assert OBJECTIVES[name].accepts(np.array(good))
    assert not OBJECTIVES[name].accepts(np.array(bad))


def test_levels_are_kept_as_given() -> None:
    assert quantiles(0.1).levels == (0.1,)
    assert quantiles([0.1, 0.7]).levels == (0.1, 0.7)
    assert tweedie(1.5).levels is None


@pytest.mark.parametrize("outlier", [10.0, 100.0, 1e4, 1e8])
def test_the_start_of_a_custom_loss_is_its_best_constant(outlier: float) -> None:
    """Undamped Newton steps of the log-cosh loss go astray from the mean of outliers."""
    torch: Any = pytest.importorskip("torch")

    def log_cosh(y: Any, raw: Any) -> Any:
        size = (raw - y).abs()
        return size + torch.nn.functional.softplus(-2 * size)

    rng = np.random.default_rng(0)
    y = rng.normal(size=(400, 1))
    y[:20] += outlier
    weights = np.full(400, 1 / 400)
    start = custom(log_cosh).start(y, np.zeros((400, 1)), weights)
    assert np.tanh(start - y).mean() == pytest.approx(0, abs=1e-6)  # the derivative
