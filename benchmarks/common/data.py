"""Data sets by name: features and target as numbers, and the same splits for every model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.common.environment import say
from benchmarks.common.interface import Halves, Rows, Split, Task
from tpnn import datasets
from tpnn._utils.arrays import FloatArray

SHIPPED = ("calhousing", "wine", "abalone")  # with the package
N_FEATURES = 50  # of the random table, unless said
NUMBER, TWO_CLASSES = Task("regression"), Task("binary")
TASKS = {  # by the name of the file
    "calhousing": NUMBER,
    "wine": NUMBER,
    "abalone": NUMBER,
    "online_news_subset": NUMBER,
    "fico_heloc": TWO_CLASSES,
    "churn": TWO_CLASSES,
    "credit_subset": TWO_CLASSES,
    "letter": TWO_CLASSES,
    "celeba_attr": TWO_CLASSES,
    "madelon": TWO_CLASSES,
    "drybean": Task("multiclass", 7),
}


def load(name: str) -> tuple[pd.DataFrame, NDArray[Any]]:
    """Return the features of a data set as they are, and its target: numbers, or classes from 0."""
    features, target = datasets.load(name)
    if TASKS[name] == NUMBER:
        return features, target.to_numpy(np.float64)
    if name == "letter":  # A to M against N to Z
        return features, np.asarray(target > "M", np.int64)
    return features, np.asarray(pd.factorize(target, sort=True)[0], np.int64)


def is_available(name: str) -> bool:
    """Whether a data set comes with the package or has a file in ``TPNN_DATA``."""
    folder = os.environ.get("TPNN_DATA")
    return name in SHIPPED or (folder is not None and (Path(folder) / f"{name}.parquet").is_file())


def available(name: str) -> bool:
    """Whether a data set can be read; where not, say so."""
    if not is_available(name):
        say(f"skipping {name}: the folder TPNN_DATA has no file {name}.parquet")
    return is_available(name)


def ordinal(features: pd.DataFrame) -> FloatArray:
    """Numbers as they are and codes of the others, (n, p); missing values below all others."""
    return np.column_stack([_ordinal(features[column]) for column in features.columns])


def _ordinal(column: pd.Series) -> FloatArray:
    if not pd.api.types.is_numeric_dtype(column):
        return np.asarray(column.astype("category").cat.codes, np.float64)
    return np.asarray(column.fillna(column.min() - 1), np.float64)


def one_hot(features: pd.DataFrame) -> pd.DataFrame:
    """Numbers as they are, missing ones the median; a column for each level of the others."""
    numeric = features.select_dtypes("number").columns
    filled = features.fillna(features[numeric].median())
    others = [column for column in features.columns if column not in numeric]
    return pd.get_dummies(filled, columns=others, dtype=float)


def cut(rows: Rows, seed: int, most_rows: int | None = None) -> Split:
    """Shuffle the rows, keep at most ``most_rows`` of them, and cut them 70 : 10 : 20.

    >>> parts = cut(Rows(np.zeros((100, 1)), np.arange(100)), seed=0)
    >>> [len(part.y) for part in parts], len(parts.fitted.y)
    ([70, 10, 20], 80)
    """
    order = np.random.RandomState(seed).permutation(len(rows.X))[:most_rows]
    first, second = (share * len(order) // 10 for share in (7, 8))
    parts = order[:first], order[first:second], order[second:]
    return Split(*(Rows(rows.X[part], rows.y[part]) for part in parts))


def in_two(rows: Rows, order: NDArray[np.intp], most_fitted: int | None = None) -> Halves:
    """Cut the rows of a table, taken in this order, 80 : 20; keep at most so many to fit."""
    n_fitted = 8 * len(order) // 10
    parts = order[:n_fitted][:most_fitted], order[n_fitted:]
    return Halves(*(Rows(rows.X.iloc[part], rows.y[part]) for part in parts))


def california(seed: int, most_rows: int) -> Halves:
    """Cut California housing at random, keeping at most ``most_rows`` rows to fit."""
    rows = Rows(*load("calhousing"))
    return in_two(rows, np.random.RandomState(seed).permutation(len(rows.y)), most_rows)


def random_table(n_rows: int, n_features: int = N_FEATURES) -> tuple[FloatArray, FloatArray]:
    """Draw normal features, in place so that nothing is left beside them, and a target."""
    rng = np.random.default_rng(0)
    X = np.empty((n_rows, n_features))
    rng.standard_normal(out=X)
    y = rng.standard_normal(n_rows)
    y += np.sin(X[:, 0])
    return X, y
