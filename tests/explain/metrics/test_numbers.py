"""Numbers: R2, RMSE, deviance and deciles by their definitions, in every unit."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import mean_pinball_loss, mean_tweedie_deviance, r2_score

from tpnn.explain.metrics import Metrics
from tpnn.explain.metrics.by_task import number_metrics, quantile_metrics, rate_metrics
from tpnn.explain.metrics.records import N_GROUPS, grouped


def scores_of(found: Metrics) -> dict[str, tuple[float, float | None]]:
    return {score.name: (score.value, score.constant) for score in found.scores}


def test_squares_beside_those_of_the_mean() -> None:
    rng = np.random.default_rng(0)
    actual = rng.normal(size=100)
    predicted = actual + 0.5 * rng.normal(size=100)
    found = scores_of(number_metrics(actual, predicted, np.zeros(100), ()))
    assert found["R2"] == pytest.approx((r2_score(actual, predicted), 0.0))
    assert found["RMSE"] == pytest.approx(
        (np.sqrt(np.mean((actual - predicted) ** 2)), actual.std())
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("unit", [1e-300, 1e-20, 1e20, 1e154, 1e300])
def test_the_unit_of_the_target_does_not_matter(unit: float) -> None:
    rng = np.random.default_rng(0)
    actual = rng.normal(size=50)
    predicted = actual + 0.5 * rng.normal(size=50)
    expected = number_metrics(actual, predicted, np.zeros(50), ())
    found = number_metrics(unit * actual, unit * predicted, np.zeros(50), ())
    assert scores_of(found)["R2"] == pytest.approx(scores_of(expected)["R2"])
    assert scores_of(found)["RMSE"] == pytest.approx(
        [unit * x for x in scores_of(expected)["RMSE"]]
    )
    assert found.groups[0].actual == pytest.approx(unit * expected.groups[0].actual)


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0])
def test_deviance_beside_the_best_rate(power: float) -> None:
    rng = np.random.default_rng(0)
    offset = rng.normal(size=400)
    predicted = np.exp(offset + rng.normal(size=400))
    actual = rng.gamma(2.0, predicted / 2) if power == 2 else rng.poisson(predicted).astype(float)
    found = rate_metrics(actual, predicted, offset, power)
    name = {1.0: "Poisson", 1.5: "Tweedie (power 1.5)", 2.0: "gamma"}[power]
    value, constant = scores_of(found)[f"Mean {name} deviance"]
    assert value == pytest.approx(mean_tweedie_deviance(actual, predicted, power=power))
    rates = np.exp(offset) * np.exp(np.linspace(-3, 3, 2001))[:, None]
    deviances = [mean_tweedie_deviance(actual, rate, power=power) for rate in rates]
    assert constant == pytest.approx(min(deviances), rel=1e-4)
    assert scores_of(found)["Share of the deviance explained"] == pytest.approx(
        (1 - value / constant, 0)
    )
    assert scores_of(found)["Actual over expected"][0] == pytest.approx(
        actual.sum() / predicted.sum()
    )


def test_an_unknown_power_is_that_of_poisson() -> None:
    actual, predicted = np.array([0.0, 1.0, 3.0]), np.array([0.5, 1.0, 2.0])
    found = scores_of(rate_metrics(actual, predicted, np.zeros(3), None))
    assert found["Mean Poisson deviance"][0] == pytest.approx(
        mean_tweedie_deviance(actual, predicted, power=1)
    )


@pytest.mark.parametrize(
    ("actual", "power"), [([-1.0, 2.0], 1.0), ([0.0, 2.0], 2.0), ([0.0, 0.0], 1.0)]
)
def test_targets_without_a_deviance_have_squares_only(actual: list[float], power: float) -> None:
    found = scores_of(rate_metrics(np.array(actual), np.ones(2), np.zeros(2), power))
    assert set(found) == {"R2", "RMSE"}


def test_deciles_of_a_rate_are_those_of_its_rows() -> None:
    """Against plain loops over rows sorted by the prediction per unit of exposure."""
    rng = np.random.default_rng(0)
    offset, rate = rng.normal(size=200), rng.normal(size=200)
    predicted = np.exp(offset + rate)
    actual = rng.poisson(predicted).astype(float)
    (groups,) = rate_metrics(actual, predicted, offset, 1.0).groups
    parts = np.array_split(np.argsort(rate), N_GROUPS)
    assert groups.n_rows.tolist() == [20] * N_GROUPS
    assert groups.actual == pytest.approx([np.mean([actual[i] for i in part]) for part in parts])
    assert groups.predicted == pytest.approx(
        [np.mean([predicted[i] for i in part]) for part in parts]
    )


def test_equal_predictions_stay_in_one_group() -> None:
    predicted = np.repeat([1.0, 2.0, 5.0], [60, 30, 10])
    actual = np.arange(100.0)
    found = grouped("", actual, predicted)
    order = np.random.default_rng(0).permutation(100)
    shuffled = grouped("", actual[order], predicted[order])
    assert found.predicted.tolist() == shuffled.predicted.tolist() == [1.0, 2.0, 5.0]
    assert found.actual == pytest.approx(shuffled.actual)
    assert found.n_rows.tolist() == [60, 30, 10]


def test_quantiles_have_a_loss_and_a_coverage() -> None:
    rng = np.random.default_rng(0)
    actual, predicted = rng.normal(size=300), np.tile([-1.28, 0.0, 1.28], (300, 1))
    found = scores_of(quantile_metrics(actual, predicted, np.zeros(300), [0.1, 0.5, 0.9]))
    losses = [
        mean_pinball_loss(actual, np.full(300, q), alpha=a)
        for q, a in [(-1.28, 0.1), (0, 0.5), (1.28, 0.9)]
    ]
    assert found["Mean pinball loss"][0] == pytest.approx(np.mean(losses))
    grid = np.linspace(-3, 3, 601)
    best = [
        min(mean_pinball_loss(actual, np.full(300, q), alpha=a) for q in grid)
        for a in (0.1, 0.5, 0.9)
    ]
    assert found["Mean pinball loss"][1] == pytest.approx(np.mean(best), abs=1e-3)
    assert found["Share of rows up to quantile 0.1"][0] == np.mean(actual <= -1.28)


def test_several_targets_have_groups_each() -> None:
    rng = np.random.default_rng(0)
    actual = rng.normal(size=(80, 2))
    found = number_metrics(actual, actual, np.zeros(80), ("a", "b"))
    assert [groups.output for groups in found.groups] == ["a", "b"]
    assert found.groups[1].actual == pytest.approx(grouped("b", actual[:, 1], actual[:, 1]).actual)
