"""Error and time on California housing, of either solver."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np

from benchmarks.common.bars import Plan, Row, child_output, row
from benchmarks.common.data import california
from benchmarks.common.environment import seconds
from benchmarks.common.interface import Halves
from benchmarks.common.scores import rmse
from benchmarks.common.settings import as_parameters, described
from tpnn import TPNNRegressor

ONE_BAG: dict[str, Any] = {"solver": "gradient", "n_bags": 1}
EIGHT_BAGS: dict[str, Any] = {"solver": "gradient", "n_bags": 8}


def measure_pairs(plan: Plan) -> list[Row]:
    """Measure main effects and pairs by gradient descent, with one bag."""
    return _error_and_time("california", plan, ONE_BAG, "<= 0.485", "<= 4")


def measure_mains(plan: Plan) -> list[Row]:
    """Measure main effects by gradient descent, with one bag."""
    settings = {**ONE_BAG, "order": 1}
    return _error_and_time("california-mains", plan, settings, "<= 0.565", "<= 3")


def measure_grown(plan: Plan) -> list[Row]:
    """Measure the default estimator, its main effects alone, and compilation before a first fit."""
    rows = [
        *_error_and_time("california-grow", plan, {"order": 2}),
        *_error_and_time("california-grow", plan, {"order": 1}),
    ]
    what = "first-use compilation, default solver"
    return [*rows, row("california-grow", what, _compilation_seconds(), "s", "<= 15")]


def measure_bags(plan: Plan) -> list[Row]:
    """Compare eight bags with eight fits of one bag, by gradient descent of fixed length."""
    warm_up(EIGHT_BAGS)
    data = california(0, plan.training_rows)
    one, eight = (
        steady_fit_seconds(data, settings, plan.timed_steps) for settings in (ONE_BAG, EIGHT_BAGS)
    )
    what = "time of 8 bags / 8 times that of 1 bag, solver='gradient'"
    return [row("bags", what, eight / (8 * one), "", "< 1")]


def warm_up(settings: dict[str, Any]) -> None:
    """Fit a few rows, so that compilation is not part of what follows."""
    data = california(0, most_rows=200)
    TPNNRegressor(**as_parameters(settings, 2), random_state=0).fit(data.fitted.X, data.fitted.y)


def steady_fit_seconds(data: Halves, settings: dict[str, Any], n_steps: int) -> float:
    """Time a fit that, by gradient descent, cannot stop before its last step."""
    parameters = as_parameters(settings, n_steps, patience=n_steps)
    model = TPNNRegressor(**parameters, random_state=0)
    return seconds(lambda: model.fit(data.fitted.X, data.fitted.y))


def _error_and_time(
    name: str, plan: Plan, settings: dict[str, Any], error_bar: str = "", time_bar: str = ""
) -> list[Row]:
    warm_up(settings)
    results = []
    for seed in range(plan.splits):
        model = TPNNRegressor(**as_parameters(settings, plan.steps), random_state=seed)
        results.append(_fit_and_test(model, california(seed, plan.training_rows)))
    errors, times = np.transpose(results)
    mean, worst = (
        f"{which} of {plan.splits} splits, {described(settings)}" for which in ("mean", "worst")
    )
    return [
        row(name, f"RMSE, {mean}", errors.mean(), "", error_bar),
        row(name, f"RMSE, {worst}", errors.max(), "", error_bar),
        row(name, f"fit, {mean}", times.mean(), "s", time_bar),
        row(name, f"fit, {worst}", times.max(), "s", time_bar),
    ]


def _fit_and_test(model: TPNNRegressor, data: Halves) -> tuple[float, float]:
    """Return the root mean squared error on the test rows, and the seconds of the fit."""
    time = seconds(lambda: model.fit(data.fitted.X, data.fitted.y))
    return rmse(data.test.y, model.predict(data.test.X)), time


def _compilation_seconds() -> float:
    """Return by how much a first fit is longer with an empty cache than with a filled one."""
    with tempfile.TemporaryDirectory() as cache:
        empty, filled = (float(child_output("first_fit", NUMBA_CACHE_DIR=cache)) for _ in range(2))
    return empty - filled
