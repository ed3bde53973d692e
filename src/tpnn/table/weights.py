"""Weights of rows that stand for whole numbers of rows."""

from __future__ import annotations

import numpy as np

from tpnn._utils.arrays import FloatArray

LARGEST_WHOLE_WEIGHT = 2**52  # beyond it not every whole number is a double


def whole_counts(weights: FloatArray) -> FloatArray | None:
    """Integer weights in units of their greatest common divisor; None where some are not integer.

    >>> whole_counts(np.array([2.0, 6.0])), whole_counts(np.array([0.5, 2.0]))
    (array([1., 3.]), None)
    """
    whole = np.floor(weights)
    if (whole != weights).any() or weights.max() > LARGEST_WHOLE_WEIGHT:
        return None
    return np.asarray(weights / np.gcd.reduce(whole.astype(np.int64)))
