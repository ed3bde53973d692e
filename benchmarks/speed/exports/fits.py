"""Models as users fit them, of every task, with rows that hold what a fit has not seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from tpnn import AnovaModel, Grow, TPNNClassifier, TPNNRegressor, TPNNSurvival

N_TRAINING_ROWS = 200
FITS = (
    "monotone fit", "triples fit", "Poisson fit", "quantiles fit", "two classes fit",
    "several classes fit", "survival fit",
)  # fmt: skip
QUICK: dict[str, Any] = {
    "n_bags": 2,
    "solver": Grow(max_rounds=40, patience=40),
    "interactions": [("a", "level"), ("a", "b")],
    "random_state": 0,
}
QUANTILES = {"name": "quantile", "levels": [0.1, 0.5, 0.9]}


def fitted(task: str, n_rows: int) -> tuple[AnovaModel, pd.DataFrame]:
    """Return a small fit and rows for it: some beyond the range, missing, or of a new level."""
    rng = np.random.default_rng(0)
    n = N_TRAINING_ROWS
    X = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "b": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "level": rng.choice(["x", "y", "z"], n),
            "exposure": rng.uniform(0.5, 2, n),
        }
    )
    model = _fit(task, X, rng)
    rows = X.sample(n_rows, replace=True, random_state=0, ignore_index=True)
    rows["a"] += rng.normal(size=n_rows) * (rng.random(n_rows) < 0.5)
    rows.loc[rng.random(n_rows) < 0.1, "a"] = np.nan
    rows["level"] = rng.choice(np.array(["x", "y", "z", "new", None], dtype=object), n_rows)
    rows.insert(0, "id", np.arange(n_rows))
    return model, rows


def _fit(task: str, X: pd.DataFrame, rng: np.random.Generator) -> AnovaModel:
    f = X["a"] * (X["level"] == "x") + X["b"].fillna(1)
    estimator: Any
    if task == "monotone fit":
        estimator = TPNNRegressor(shapes={"a": "increasing"}, **QUICK).fit(X, f)
    elif task == "triples fit":
        settings = {**QUICK, "interactions": [("a", "b", "level")], "order": 3}
        estimator = TPNNRegressor(**settings).fit(X, f)
    elif task == "Poisson fit":
        counts = rng.poisson(X["exposure"] * np.exp(f / 2))
        estimator = TPNNRegressor(objective="poisson", exposure="exposure", **QUICK).fit(X, counts)
    elif task == "quantiles fit":
        estimator = TPNNRegressor(objective=QUANTILES, **QUICK).fit(X, f)
    elif task == "two classes fit":
        estimator = TPNNClassifier(**QUICK).fit(X, np.where(f > 0, "*/ yes", "no"))
    elif task == "several classes fit":
        estimator = TPNNClassifier(**QUICK).fit(X, np.digitize(f, [-0.5, 0.5]))
    else:
        times = rng.exponential(np.exp(-f / 2))
        estimator = TPNNSurvival(**QUICK).fit(X, np.c_[times, rng.random(len(X)) < 0.8])
    model: AnovaModel = estimator.model_
    return model
