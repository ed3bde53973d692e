"""Sigmoid widths: steps become sigmoids, and held-out rows choose how wide."""

from __future__ import annotations

import numpy as np

from tpnn.grow.widths import smoother


def test_smoother_turns_steps_into_sigmoids() -> None:
    positions = np.array([0.1, 0.3, 0.6, 0.9])
    table = np.array([1.0, -2.0, 0.5, 3.0])
    kernel = smoother(positions, 0.07)
    assert np.allclose(kernel.sum(1), 1)
    middles = (positions[1:] + positions[:-1]) / 2
    sigmoids = 1 / (1 + np.exp(-(positions[:, None] - middles) / 0.07))
    assert np.allclose(kernel @ table, table[0] + sigmoids @ np.diff(table))
