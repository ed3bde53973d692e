"""Sigmoid widths: a step function becomes a sum of sigmoids of finite gamma.

A table on nodes u_1 < ... < u_M is a sum of steps at the middles b_k between nodes. Giving each
step the width gamma turns the table T into K T, where K has rows that sum to one:

    (K T)(u) = T_1 + sum_k (T_{k+1} - T_k) sigmoid((u - b_k) / gamma).
"""

from __future__ import annotations

import numpy as np

from tpnn._typing import FloatArray

CANDIDATE_WIDTHS = (0.004, 0.01, 0.03, 0.08)


def smoother(positions: FloatArray, width: float) -> FloatArray:
    """Matrix K of shape (M, M) that gives every step of a table the width gamma.

    >>> smoother(np.array([0.25, 0.75]), 1e-9).round(6)
    array([[1., 0.], [0., 1.]])
    """
    middles = (positions[1:] + positions[:-1]) / 2
    logits = np.clip((positions[:, None] - middles) / width, -500, 500)
    steps = 1 / (1 + np.exp(-logits))
    ones, zeros = np.ones((len(positions), 1)), np.zeros((len(positions), 1))
    return np.hstack([ones, steps]) - np.hstack([steps, zeros])
