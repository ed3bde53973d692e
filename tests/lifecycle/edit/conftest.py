"""A table with every kind of column, and models of it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.models import table_model, with_bands
from tpnn import AnovaModel


@pytest.fixture(scope="package", name="X")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 300
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "income": rng.lognormal(size=n),
            "town": rng.choice(list("aaaaabbbbccdefghijklm"), n),
            "grade": pd.Categorical(rng.choice(["low", "mid", "top"], n), ordered=True),
            "since": pd.Timestamp("2020-03-01") + pd.to_timedelta(rng.integers(0, 999, n), "D"),
        }
    )  # fmt: skip
    frame.loc[::9, "income"] = np.nan
    return frame


@pytest.fixture(scope="package")
def models(X: pd.DataFrame) -> dict[int, AnovaModel]:
    """Models of orders 1, 2 and 3 with bands; levels share nodes in the higher ones."""
    return {order: with_bands(table_model(X, order)) for order in (1, 2, 3)}
