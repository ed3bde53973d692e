"""Columns: the values of basis functions on blocks of rows, which a screen multiplies."""

from __future__ import annotations

import numpy as np

from tpnn._utils.arrays import CodeArray, Float32Array, IntArray


class Columns:
    """Values of basis functions, one block of rows at a time.

    Parameters
    ----------
    codes : array of shape (n_features, n_rows)
        Node of every value.
    features : array of shape (q,)
        Features to screen.
    bases : array of shape (q, M, D)
        Basis functions of these features on their nodes.
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
        """Basis functions of the features from ``first`` on at some rows, (q - first, n, D)."""
        codes = self.codes[self.features[first:], rows]
        values: Float32Array = self.bases[np.arange(first, len(self.bases))[:, None], codes]
        return values
