"""Speed of the frozen model, and what has to be loaded for it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from benchmarks.data import california
from benchmarks.measure import Plan, Row, child_output, row
from evaluation.environment import seconds
from tpnn import AnovaModel, TPNNRegressor
from tpnn._typing import FloatArray

JITTER = 0.01  # standard deviations
REPEATS = 3


def measure_prediction(plan: Plan) -> list[Row]:
    """Measure rows per second of the default model, and the modules loaded."""
    data = california(0, plan.training_rows)
    model = TPNNRegressor(random_state=0).fit(data.X, data.y)
    X = _tiled(data.X.to_numpy(), plan.predicted_rows)
    time = np.median([seconds(lambda: model.model_.raw_scores(X)) for _ in range(REPEATS)])
    what = f"rows per second, {len(model.components_)} components, {len(X):,} rows"
    rate, loaded = len(X) / float(time), _loaded(model.model_)
    return [
        row("prediction", what, rate, "1/s", ">= 1e6"),
        row("prediction", "torch and numba, loaded by a saved model", loaded, "", "<= 0"),
    ]


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
