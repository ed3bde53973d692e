"""Data sets of the comparison, coded and split alike for every model."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tpnn import datasets

FloatArray = NDArray[np.float64]
Task = Literal["regression", "binary", "multiclass"]

REGRESSION = ("calhousing", "wine", "abalone", "online_news_subset")
FIRST_CLASS: dict[str, Any] = {  # the largest target in the first of the two classes
    "fico_heloc": 0,
    "churn": 0,
    "credit_subset": 0,
    "letter": "M",  # A to M against N to Z
    "celeba_attr": 0,
    "madelon": 0,
}
MULTICLASS = ("drybean",)
DATA = (*REGRESSION, *FIRST_CLASS, *MULTICLASS)
SHIPPED = ("calhousing", "wine", "abalone")


class Split(NamedTuple):
    """Rows to fit and rows to test.

    Models that stop early train on the first ``n_training`` rows to fit and validate on the
    others.
    """

    X: FloatArray
    y: NDArray[Any]
    n_training: int
    X_test: FloatArray
    y_test: NDArray[Any]


def task_of(name: str) -> Task:
    """Return what is predicted on a data set: a number, or which of two or more classes."""
    if name in REGRESSION:
        return "regression"
    return "multiclass" if name in MULTICLASS else "binary"


def is_here(name: str) -> bool:
    """Return whether a data set comes with the package or has a file in ``TPNN_DATA``."""
    folder = os.environ.get("TPNN_DATA")
    return name in SHIPPED or (folder is not None and (Path(folder) / f"{name}.parquet").is_file())


def split(name: str, seed: int, most_rows: int | None = None) -> Split:
    """Shuffle at most ``most_rows`` rows and cut them 70 : 10 : 20."""
    X, y = _coded(name)
    order = np.random.RandomState(seed).permutation(len(X))[:most_rows]
    n_training, n_fitted = (share * len(order) // 10 for share in (7, 8))
    fitted, test = order[:n_fitted], order[n_fitted:]
    return Split(X[fitted], y[fitted], n_training, X[test], y[test])


def common_rows(name: str, most: int) -> FloatArray:
    """Draw rows on which every model is looked at, whatever it was fitted to."""
    X, _ = _coded(name)
    return X[np.random.default_rng(0).permutation(len(X))[:most]]


def is_unseen(data: Split) -> NDArray[np.bool_]:
    """Mark the test rows whose features are those of no row to fit."""
    seen = {row.tobytes() for row in data.X}
    return np.array([row.tobytes() not in seen for row in data.X_test])


@lru_cache(maxsize=1)
def _coded(name: str) -> tuple[FloatArray, NDArray[Any]]:
    """Return features as finite floats and the target as a number or as class 0, 1, ..."""
    X, y = datasets.load(name)
    columns = [_floats(X[column]) for column in X.columns]
    target = y.to_numpy(np.float64) if name in REGRESSION else _classes(y, name)
    return np.column_stack(columns), target


def _classes(y: pd.Series, name: str) -> NDArray[np.int64]:
    if name in MULTICLASS:
        return np.asarray(y.astype("category").cat.codes, np.int64)
    return np.asarray(y > FIRST_CLASS[name], np.int64)


def _floats(column: pd.Series) -> FloatArray:
    """Return the codes of strings, or numbers, with the missing ones below all others."""
    if not pd.api.types.is_numeric_dtype(column):
        return np.asarray(column.astype("category").cat.codes, np.float64)
    return np.asarray(column.fillna(column.min() - 1), np.float64)
