"""Rows with gaps and levels, and rows that are unlike those of training."""

from __future__ import annotations

import numpy as np
import pandas as pd

LEVELS = list("uvwxyz")


def training(n_rows: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=n_rows),
            "b": rng.normal(size=n_rows).round(1),
            "c": pd.Categorical(rng.choice(LEVELS, n_rows), LEVELS),
            "d": rng.exponential(size=n_rows),
        }
    )
    X.loc[::7, "a"] = np.nan
    return X


def target(X: pd.DataFrame) -> np.ndarray:
    rng = np.random.default_rng(1)
    effect = X["b"] + 2 * (X["c"] == "x") + X["a"].fillna(1) * X["d"] * (X["c"] != "u")
    return np.asarray(effect + 0.1 * rng.normal(size=len(X)))


def unlike(n_rows: int = 300) -> pd.DataFrame:
    """Rows beyond the range of training, with gaps in other columns."""
    rng = np.random.default_rng(2)
    X = pd.DataFrame(
        {
            "a": 3 * rng.normal(size=n_rows),
            "b": rng.normal(size=n_rows).round(1),
            "c": pd.Categorical(rng.choice(LEVELS, n_rows), LEVELS),
            "d": 2 * rng.normal(size=n_rows),
        }
    )
    X.loc[::3, "d"] = np.nan
    X.loc[::5, "b"] = np.nan
    return X


def near(ends: np.ndarray, template: pd.DataFrame, column: str) -> pd.DataFrame:
    """Rows whose values of a column lie on the ends of intervals, and next to them."""
    values = np.concatenate([ends, np.nextafter(ends, np.inf), np.nextafter(ends, -np.inf)])
    rows = template.iloc[np.arange(len(values)) % len(template)].reset_index(drop=True)
    return rows.assign(**{column: values})


def gap(expected: np.ndarray, found: np.ndarray) -> float:
    """Largest difference, relative to the spread."""
    return float(np.abs(found - expected).max() / np.std(expected))
