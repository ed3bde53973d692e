"""Speed of the frozen model, and what has to be loaded for it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.common.bars import Plan, Row, child_output, row
from benchmarks.common.data import california, random_table
from benchmarks.common.environment import seconds
from tpnn import AnovaModel, TPNNRegressor
from tpnn._utils.arrays import FloatArray

JITTER = 0.01  # standard deviations
REPEATS, SHORT_REPEATS = 12, 500  # of which the fastest counts: others may use the cores too
N_WIDE_FEATURES = 23  # with all their pairs 276 components


def measure_prediction(plan: Plan) -> list[Row]:
    """Measure rows per second with and without triples, single rows, files and modules loaded."""
    data = california(0, plan.training_rows)
    pairs = TPNNRegressor(order=2, random_state=0).fit(data.fitted.X, data.fitted.y).model_
    triples = TPNNRegressor(random_state=0).fit(data.fitted.X, data.fitted.y).model_
    loaded = _loaded(pairs)
    return [
        *_rates(pairs, triples, _tiled(data.fitted.X.to_numpy(), plan.predicted_rows)),
        *_single_rows(pairs, data.fitted.X[:1], "<= 0.15"),
        *_single_rows(*_wide_model(plan.training_rows), "<= 0.5"),
        row(
            "prediction",
            "file with triples over file without",
            _file_ratio(triples, pairs),
            "",
            "<= 3",
        ),
        row("prediction", "torch and numba, loaded by a saved model", loaded, "", "<= 0"),
    ]


def _rates(pairs: AnovaModel, triples: AnovaModel, X: FloatArray) -> list[Row]:
    """Rows per second of two models, and what the triples of the second cost."""
    rates = [_rate(model, X) for model in (pairs, triples)]
    words = [f"{len(model.components)} components, {len(X):,} rows" for model in (pairs, triples)]
    ratio = rates[1] / rates[0]
    return [
        row("prediction", f"rows per second, order 2, {words[0]}", rates[0], "1/s", ">= 1e6"),
        row("prediction", f"rows per second, triples too, {words[1]}", rates[1], "1/s", ">= 2e6"),
        row("prediction", "rate with triples over rate without", ratio, ""),
    ]


def _rate(model: AnovaModel, X: FloatArray) -> float:
    return len(X) / _fastest(lambda: model.raw_scores(X), REPEATS)


def _single_rows(model: AnovaModel, frame: pd.DataFrame, bar: str) -> list[Row]:
    """Milliseconds to predict one row, held by an array or by a data frame."""
    matrix = frame.to_numpy()
    what = f"one row, {len(model.components)} components"
    times = {
        "an array": _fastest(lambda: model.predict(matrix), SHORT_REPEATS),
        "a data frame": _fastest(lambda: model.predict(frame), SHORT_REPEATS),
    }
    return [row("prediction", f"{what}, {held} holds it", 1e3 * time, "ms", bar)
            for held, time in times.items()]  # fmt: skip


def _wide_model(n_rows: int) -> tuple[AnovaModel, pd.DataFrame]:
    """Fit a model with all pairs of many features, and return a row of its table."""
    X, y = random_table(n_rows, N_WIDE_FEATURES)
    frame = pd.DataFrame(X, columns=[f"feature {j}" for j in range(N_WIDE_FEATURES)])
    model = TPNNRegressor(order=2, interactions="all", n_bags=1, random_state=0).fit(frame, y)
    return model.model_, frame[:1]


def _fastest(work: Callable[[], object], repeats: int) -> float:
    return min(seconds(work) for _ in range(repeats))


def _file_ratio(one: AnovaModel, other: AnovaModel) -> float:
    """How many times as large the file of one model is."""
    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder) / "one.tpnn", Path(folder) / "other.tpnn"
        one.save(paths[0])
        other.save(paths[1])
        return paths[0].stat().st_size / paths[1].stat().st_size


def _tiled(X: FloatArray, n_rows: int) -> FloatArray:
    """Repeat the rows, each copy a little different."""
    rng = np.random.default_rng(0)
    tiled = X[np.arange(n_rows) % len(X)]
    tiled += JITTER * X.std(0) * rng.standard_normal(tiled.shape)
    return tiled


def _loaded(model: AnovaModel) -> int:
    """Return how many of torch and numba a fresh interpreter loads to apply the model."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tpnn"
        model.save(path)
        return int(child_output("load_and_predict", path, len(model.feature_names)))
