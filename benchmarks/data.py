"""Tables that the measurements fit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from tpnn import datasets
from tpnn._utils.arrays import FloatArray

TRAINING_SHARE = 0.8
N_FEATURES = 50  # of the random table, unless said


class Split(NamedTuple):
    """Training and test rows of a data set."""

    X: pd.DataFrame
    y: pd.Series
    X_test: pd.DataFrame
    y_test: pd.Series


def california(seed: int, most_rows: int) -> Split:
    """Split California housing at random, keeping at most ``most_rows`` rows for training."""
    X, y = datasets.load("calhousing")
    order = np.random.RandomState(seed).permutation(len(X))
    n_training = int(TRAINING_SHARE * len(X))
    training, test = order[:n_training][:most_rows], order[n_training:]
    return Split(X.iloc[training], y.iloc[training], X.iloc[test], y.iloc[test])


def random_table(n_rows: int, n_features: int = N_FEATURES) -> tuple[FloatArray, FloatArray]:
    """Draw normal features, in place so that nothing is left beside them, and a target."""
    rng = np.random.default_rng(0)
    X = np.empty((n_rows, n_features))
    rng.standard_normal(out=X)
    y = rng.standard_normal(n_rows)
    y += np.sin(X[:, 0])
    return X, y
