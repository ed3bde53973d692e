"""Data sets, coded and split alike for every model."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from evaluation.data import cut, load, ordinal
from evaluation.interface import Rows, Split
from tpnn._utils.arrays import FloatArray


def split(name: str, seed: int, most_rows: int | None = None) -> Split:
    """Shuffle at most ``most_rows`` rows and cut them 70 : 10 : 20."""
    return cut(_coded(name), seed, most_rows)


def common_rows(name: str, most: int) -> FloatArray:
    """Draw rows on which every model is looked at, whatever it was fitted to."""
    X = _coded(name).X
    return X[np.random.default_rng(0).permutation(len(X))[:most]]


@lru_cache(maxsize=1)
def _coded(name: str) -> Rows:
    """Return features as finite floats and the target as a number or as class 0, 1, ..."""
    features, target = load(name)
    return Rows(ordinal(features), target)
