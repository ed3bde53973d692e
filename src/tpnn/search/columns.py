"""Columns: the functions that a screen multiplies, on blocks of rows."""

from __future__ import annotations

import numpy as np

from tpnn._typing import CodeArray, Float32Array, IntArray


class Columns:
    """Values of the bases, one block of rows at a time.

    Parameters
    ----------
    codes : array of shape (n_features, n_rows)
        Node of every value.
    features : array of shape (q,)
        The features considered.
    bases : array of shape (q, M, D)
        Their functions.
    """

    def __init__(
        self,
        codes: CodeArray,
        features: IntArray,
        bases: Float32Array,
    ) -> None:
        self.codes, self.features, self.bases = codes, features, bases
        self.n_rows = codes.shape[1]

    def values(self, rows: slice, first: int) -> Float32Array:
        """Functions of the features from ``first`` on at some rows, (q - first, n, D)."""
        codes = self.codes[self.features[first:], rows]
        values: Float32Array = self.bases[np.arange(first, len(self.bases))[:, None], codes]
        return values
