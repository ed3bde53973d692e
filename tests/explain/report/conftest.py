"""Tables and models that the tests of the report share, and a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.explain.report.browser import chromium
from tests.models import random_model
from tpnn import AnovaModel, TPNNClassifier, TPNNRegressor
from tpnn.explain.report import write_report


@pytest.fixture(scope="package")
def fast(quick: dict[str, Any]) -> dict[str, Any]:
    """Settings of a quick fit with all pairs."""
    return {**quick, "interactions": "all"}


@pytest.fixture(scope="package")
def mixed() -> tuple[pd.DataFrame, pd.Series]:
    """500 rows with numbers, whole numbers, labels, an ordered category, a date, missing values."""
    rng = np.random.default_rng(5)
    X = pd.DataFrame(
        {
            "income": rng.lognormal(size=500),
            "age": rng.integers(18, 90, 500),
            "town </script>": rng.choice(["Ulm", 'quoted "X"', "Zürich"], 500),
            "grade": pd.Categorical(rng.choice(["low", "mid", "top"], 500), ordered=True),
            "since": pd.Timestamp("2020-03-01") + pd.to_timedelta(rng.integers(0, 999, 500), "D"),
        }
    )
    X.loc[::11, "income"] = np.nan
    X.loc[::13, "town </script>"] = None
    signal = np.log(X["income"]).fillna(1) * (X["age"] - 50) / 20 + (X["grade"] == "top")
    return X, signal + 0.2 * rng.normal(size=500)


@pytest.fixture(scope="package")
def models(mixed: Any, fast: Any) -> dict[str, AnovaModel]:
    X, y = mixed
    three = pd.cut(y, [-np.inf, -0.5, 0.7, np.inf], labels=["a", "b", "c"]).astype(str)
    levels = {"name": "quantile", "levels": [0.1, 0.5, 0.9]}
    quantiles = TPNNRegressor(**fast, objective=levels)
    return {
        "regression": TPNNRegressor(**fast).fit(X, y).model_,
        "two classes": TPNNClassifier(**fast).fit(X, y > 0).model_,
        "three classes": TPNNClassifier(**fast).fit(X, three).model_,
        "quantiles": quantiles.fit(X, y).model_,
        "order 3": random_model(3, 3),
    }


@pytest.fixture(scope="package")
def exposed(fast: Any) -> tuple[TPNNRegressor, pd.DataFrame, np.ndarray, np.ndarray]:
    """Counts whose logarithm is mostly that of a known exposure."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=300)})
    offset = rng.uniform(0, 4, 300)
    y = rng.poisson(np.exp(offset + 0.3 * X["x"])).astype(float)
    model = TPNNRegressor(**{**fast, "objective": "poisson"}).fit(X, y, offset=offset)
    return model, X, y, offset


@pytest.fixture(scope="package")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="package")
def driver(downloads: Path) -> Iterator[Any]:
    with chromium(downloads) as opened:
        yield opened


@pytest.fixture(scope="package")
def page(models: dict[str, AnovaModel], mixed: Any, tmp_path_factory: Any) -> Path:
    path: Path = tmp_path_factory.mktemp("report") / "page.html"
    write_report(models["regression"], path, *mixed)
    return path
