"""Explanations that several tests of this room share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tpnn import Explanation, TPNNRegressor


@pytest.fixture(scope="session")
def explanation(table: Any, quick: Any) -> Explanation:
    """A fit of the common table with all pairs, explained as a whole."""
    return TPNNRegressor(**{**quick, "interactions": "all"}).fit(*table).explain()


@pytest.fixture(scope="session")
def local(explanation: Explanation, table: Any) -> Explanation:
    """The same fit, explained on its rows."""
    return Explanation(explanation.model, table[0])


@pytest.fixture(scope="session")
def mixed(table: Any) -> pd.DataFrame:
    """The common table with labels, a date and missing values beside its numbers."""
    X, _ = table
    rng = np.random.default_rng(9)
    days = pd.to_timedelta(rng.integers(0, 500, len(X)), "D")
    town = rng.choice(["Ulm", "Bonn", "Trier"], len(X))
    mixed = X[["smooth", "skewed"]].assign(town=town, since=pd.Timestamp("2021-01-01") + days)
    mixed.loc[::8, "skewed"] = np.nan
    return mixed


@pytest.fixture(scope="session")
def mixed_local(mixed: pd.DataFrame, table: Any, quick: Any) -> Explanation:
    """A fit of the mixed table with all pairs, explained on its rows."""
    return TPNNRegressor(**{**quick, "interactions": "all"}).fit(mixed, table[1]).explain(mixed)
