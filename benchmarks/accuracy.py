"""Error and time on California housing, with one bag and with the default number of bags."""

from __future__ import annotations

import math
import tempfile

import numpy as np

from benchmarks.data import Split, california
from benchmarks.measure import Plan, Row, child_output, row, seconds
from tpnn import TPNNRegressor


def measure_pairs(plan: Plan) -> list[Row]:
    """Measure main effects and pairs with one bag, and the compilation before the first fit."""
    rows = _error_and_time("california", plan, 2, "<= 0.485", "<= 4")
    return [*rows, row("california", "first-use compilation", _compilation_seconds(), "s")]


def measure_mains(plan: Plan) -> list[Row]:
    """Measure main effects with one bag."""
    return _error_and_time("california-mains", plan, 1, "<= 0.565", "<= 3")


def measure_bags(plan: Plan) -> list[Row]:
    """Compare eight bags with eight fits of one bag, and measure the default estimator."""
    warm_up(2, n_bags=8)
    data = california(0, plan.training_rows)
    one, eight = (steady_fit_seconds(data, n_bags, plan.timed_steps) for n_bags in (1, 8))
    rows = [row("bags", "time of 8 bags / 8 times that of 1 bag", eight / (8 * one), "", "< 1")]
    for seed in range(plan.bag_splits):
        model = TPNNRegressor(max_steps=plan.steps, random_state=seed)
        error, time = _fit_and_test(model, california(seed, plan.training_rows))
        rows.append(row("bags", f"RMSE of 8 bags, split {seed}", error, ""))
        rows.append(row("bags", f"fit of 8 bags, split {seed}", time, "s"))
    return rows


def warm_up(order: int, n_bags: int) -> None:
    """Fit for two steps, so that compilation is not part of what follows."""
    data = california(0, most_rows=200)
    TPNNRegressor(order=order, n_bags=n_bags, max_steps=2, random_state=0).fit(data.X, data.y)


def steady_fit_seconds(data: Split, n_bags: int, n_steps: int) -> float:
    """Time a fit of main effects and pairs that cannot stop before its last step."""
    model = TPNNRegressor(n_bags=n_bags, max_steps=n_steps, patience=n_steps, random_state=0)
    return seconds(lambda: model.fit(data.X, data.y))


def _error_and_time(name: str, plan: Plan, order: int, error_bar: str, time_bar: str) -> list[Row]:
    warm_up(order, n_bags=1)
    results = []
    for seed in range(plan.splits):
        model = TPNNRegressor(order=order, n_bags=1, max_steps=plan.steps, random_state=seed)
        results.append(_fit_and_test(model, california(seed, plan.training_rows)))
    errors, times = np.transpose(results)
    splits = f"of {plan.splits} splits"
    return [
        row(name, f"RMSE, mean {splits}", errors.mean(), "", error_bar),
        row(name, f"RMSE, worst {splits}", errors.max(), "", error_bar),
        row(name, f"fit, mean {splits}", times.mean(), "s", time_bar),
        row(name, f"fit, worst {splits}", times.max(), "s", time_bar),
    ]


def _fit_and_test(model: TPNNRegressor, data: Split) -> tuple[float, float]:
    """Return the root mean squared error on the test rows, and the seconds of the fit."""
    time = seconds(lambda: model.fit(data.X, data.y))
    residuals = data.y_test - model.predict(data.X_test)
    return math.sqrt((residuals**2).mean()), time


def _compilation_seconds() -> float:
    """Return by how much a first fit is longer with an empty cache than with a filled one."""
    with tempfile.TemporaryDirectory() as cache:
        empty, filled = (float(child_output("first_fit", NUMBA_CACHE_DIR=cache)) for _ in range(2))
    return empty - filled
