r"""Theorem 3.3: how fast the error of the proof's own TPNN falls with its number of bases.

For a Lipschitz g on the unit cube with sum-to-zero there is a TPNN with K bases and

.. math:: \| g - f \|_\infty < C |S| / (K^{1/|S|} + 1).

The proof cuts every axis into m cells, takes the mean of g in each product of cells and replaces
the indicators by differences of narrow sigmoids; that is a TPNN with (m - 1)^|S| bases.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from tpnn._utils.arrays import FloatArray

CELLS = (4, 8, 16, 32, 64)
GRID = {1: 4000, 2: 600}  # points of an axis on which the error is taken


def measure(name: str, model: str, split: int, quick: bool) -> dict[str, Any]:
    """Return number of bases, error and bound / C for each number of cells; model is the order."""
    order = int(model[-1])
    axis = (np.arange(GRID[order]) + 0.5) / GRID[order]
    target = _target(axis, order)
    rows = []
    for cells in CELLS[: 3 if quick else None]:
        n_bases = (cells - 1) ** order
        error = float(np.abs(target - construction(target, axis, cells)).max())
        rows.append([n_bases, error, order / (n_bases ** (1 / order) + 1)])
    _, errors, bounds = np.array(rows).T
    slope = float(np.polyfit(np.log(bounds), np.log(errors), 1)[0])
    constant = float((errors / bounds).max())
    return {"scores": {"slope": slope, "constant": constant}, "rows": rows}


def _target(axis: FloatArray, order: int) -> FloatArray:
    """Return a Lipschitz function with a kink that averages to zero along each axis."""
    one = np.abs(axis - 0.37) + 0.3 * np.sin(7 * axis)
    two = np.maximum(axis, 0.6) - 0.5 * axis
    one, two = one - one.mean(), two - two.mean()
    return one if order == 1 else np.outer(one, two)


def construction(target: FloatArray, axis: FloatArray, cells: int) -> FloatArray:
    """Return the proof's TPNN for a target on a grid, of the target's shape."""
    ends = np.arange(1, cells) / cells
    steps = expit(np.clip((axis[:, None] - ends) * cells**3, -500, 500))  # (n, m - 1)
    ones, zeros = np.ones((len(axis), 1)), np.zeros((len(axis), 1))
    parts = np.hstack([ones, steps]) - np.hstack([steps, zeros])  # soft indicators, (n, m)
    share = parts / parts.sum(0)
    for _ in range(target.ndim):  # the mean in each cell, then back, along each axis in turn
        target = np.moveaxis(np.tensordot(parts @ share.T, target, axes=(1, 0)), 0, -1)
    return np.asarray(target - target.mean())
