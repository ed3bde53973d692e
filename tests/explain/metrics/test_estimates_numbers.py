"""Numbers: R2, RMSE, deviance and deciles by their definitions, in every unit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import mean_pinball_loss, mean_tweedie_deviance, r2_score

from tests.models import random_model
from tpnn.explain.metrics import Metrics
from tpnn.explain.metrics.curves import calibration_groups
from tpnn.explain.metrics.estimates import beside_constant
from tpnn.loss.links import LINKS
from tpnn.loss.objectives import (
    OBJECTIVES,
    SQUARED_ERROR,
    Objective,
    quantiles,
    several_targets,
    tweedie,
)
from tpnn.model.task import N_GROUPS, Task, grouped


def metrics(
    objective: Objective,
    actual: np.ndarray,
    raw: np.ndarray,
    offset: np.ndarray | None = None,
    outputs: tuple[str, ...] = (),
) -> Metrics:
    """What is measured of raw scores."""
    task, known = Task(objective, outputs), np.zeros(len(raw)) if offset is None else offset
    target = task.targets(actual, len(raw))
    return Metrics(
        scores=tuple(beside_constant(task, target, raw, known)),
        groups=calibration_groups(task, target, raw, known),
    )


def scores_of(found: Metrics) -> dict[str, tuple[float, float | None]]:
    return {score.name: (score.value, score.constant) for score in found.scores}


def test_squares_beside_those_of_the_mean() -> None:
    rng = np.random.default_rng(0)
    actual = rng.normal(size=100)
    predicted = actual + 0.5 * rng.normal(size=100)
    found = scores_of(metrics(SQUARED_ERROR, actual, predicted))
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
    expected = metrics(SQUARED_ERROR, actual, predicted)
    found = metrics(SQUARED_ERROR, unit * actual, unit * predicted)
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
    found = metrics(tweedie(power), actual, np.log(predicted), offset)
    value, constant = scores_of(found)["tweedie"]
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
    model = replace(random_model(1, 1), link=LINKS["log"])
    assert (model.task.objective.name, model.task.objective.power) == ("poisson", 1.0)


@pytest.mark.parametrize(
    ("actual", "power"), [([-1.0, 2.0], 1.0), ([0.0, 2.0], 2.0), ([0.0, 0.0], 1.0)]
)
def test_targets_without_a_deviance_have_squares_only(actual: list[float], power: float) -> None:
    objective = OBJECTIVES["gamma"] if power == 2 else tweedie(power)
    found = scores_of(metrics(objective, np.array(actual), np.zeros(2)))
    assert "Actual over expected" not in found
    assert (objective.name in found) == (actual == [0.0, 0.0])
    assert "RMSE" in found


def test_deciles_of_a_rate_are_those_of_its_rows() -> None:
    """Against plain loops over rows sorted by the prediction per unit of exposure."""
    rng = np.random.default_rng(0)
    offset, rate = rng.normal(size=200), rng.normal(size=200)
    predicted = np.exp(offset + rate)
    actual = rng.poisson(predicted).astype(float)
    (groups,) = metrics(tweedie(1.0), actual, np.log(predicted), offset).groups
    parts = np.array_split(np.argsort(rate), N_GROUPS)
    assert groups.n_rows.tolist() == [20] * N_GROUPS
    assert groups.actual == pytest.approx([np.mean([actual[i] for i in part]) for part in parts])
    assert groups.predicted == pytest.approx(
        [np.mean([predicted[i] for i in part]) for part in parts]
    )


def test_equal_predictions_stay_in_one_group() -> None:
    predicted = np.repeat([1.0, 2.0, 5.0], [60, 30, 10])
    actual = np.arange(100.0)
    found = grouped(predicted, actual, np.ones(100), predicted)
    order = np.random.default_rng(0).permutation(100)
    shuffled = grouped(predicted[order], actual[order], np.ones(100), predicted[order])
    assert found.predicted.tolist() == shuffled.predicted.tolist() == [1.0, 2.0, 5.0]
    assert found.actual == pytest.approx(shuffled.actual)
    assert found.masses.tolist() == [60, 30, 10]


def test_quantiles_have_a_loss_and_a_coverage() -> None:
    rng = np.random.default_rng(0)
    actual, predicted = rng.normal(size=300), np.tile([-1.28, 0.0, 1.28], (300, 1))
    found = scores_of(metrics(quantiles([0.1, 0.5, 0.9]), actual, predicted))
    losses = [
        mean_pinball_loss(actual, np.full(300, q), alpha=a)
        for q, a in [(-1.28, 0.1), (0, 0.5), (1.28, 0.9)]
    ]
    assert found["quantile"][0] == pytest.approx(np.mean(losses))
    grid = np.linspace(-3, 3, 601)
    best = [
        min(mean_pinball_loss(actual, np.full(300, q), alpha=a) for q in grid)
        for a in (0.1, 0.5, 0.9)
    ]
    assert found["quantile"][1] == pytest.approx(np.mean(best), abs=1e-3)
    assert found["Share of rows up to quantile 0.1"][0] == np.mean(actual <= -1.28)


def test_several_targets_have_groups_each() -> None:
    rng = np.random.default_rng(0)
    actual = rng.normal(size=(80, 2))
    found = metrics(several_targets(2), actual, actual, outputs=("a", "b"))
    assert [groups.output for groups in found.groups] == ["a", "b"]
    assert found.groups[1].actual == pytest.approx(
        grouped(actual[:, 1], actual[:, 1], np.ones(80), actual[:, 1]).actual
    )
