"""Where the values of rows lie among the nodes of many axes at once, in NumPy.

It is what ``Axis.locate`` computes for one axis, bit for bit. A call of NumPy on one value costs as
much as one on hundreds, so all but the search itself is done for all axes together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.table.axis import Axis


class Locator:
    """Nodes of several axes, one axis after the other; ``features`` are their columns."""

    def __init__(self, features: Sequence[int], axes: Sequence[Axis]) -> None:
        self.features = sorted(set(features))
        self.rows = np.array([self.features.index(feature) for feature in features], np.intp)
        self.groups = [axis.groups for axis in axes]
        self.inner = [axis.values[1:] for axis in axes]  # all nodes but the first
        self.halves = np.concatenate([_padded(axis.values / 2) for axis in axes])
        self.steps = np.concatenate([_half_steps(axis) for axis in axes])
        self.starts = _upright(np.cumsum([0, *(max(len(axis.values), 1) for axis in axes[:-1])]))
        self.firsts = _upright([ends_of(axis)[0] for axis in axes])
        self.lasts = _upright([ends_of(axis)[1] for axis in axes])
        self.missing = _upright([axis.missing_node for axis in axes])
        self.unseen = _upright([axis.unseen_node for axis in axes])

    def locate(self, columns: Sequence[FloatArray]) -> tuple[IntArray, FloatArray]:
        """Lower node of each value and how far it lies towards the next, (n_axes, n_rows) each."""
        x = np.array([columns[feature] for feature in self.features])
        finite = np.isfinite(x)
        is_odd = not finite.all()
        filled = np.where(finite, x, 0.0) if is_odd else x
        point = np.minimum(np.maximum(filled[self.rows], self.firsts), self.lasts)
        lower = np.empty(point.shape, np.intp)
        for axis, groups in enumerate(self.groups):
            if groups is None:
                lower[axis] = self.inner[axis].searchsorted(point[axis], "right")
            else:
                lower[axis] = groups[point[axis].astype(np.intp)]
        cells = self.starts + lower
        fraction = (point / 2 - self.halves.take(cells)) / self.steps.take(cells)
        if is_odd:
            odd, missing = ~finite[self.rows], np.isnan(x)[self.rows]
            lower = np.where(odd, np.where(missing, self.missing, self.unseen), lower)
            fraction[odd] = 0.0
        return lower, fraction


def _padded(values: FloatArray) -> FloatArray:
    """Values of the nodes of an axis; one without nodes gets one, which all its values lie on."""
    return values if len(values) else np.zeros(1)


def _half_steps(axis: Axis) -> FloatArray:
    """Half of the distance from each node to the next, infinite where there is none."""
    steps = np.full(max(len(axis.values), 1), np.inf)
    if axis.groups is None and len(axis.values) > 1:
        gaps = np.diff(axis.values / 2)
        steps[: len(gaps)] = np.where(gaps > 0, gaps, np.inf)
    return steps


def ends_of(axis: Axis) -> tuple[float, float]:
    """Outer nodes of an axis, between which values are searched; levels are not searched."""
    if axis.groups is not None:
        return -np.inf, np.inf
    return (axis.values[0], axis.values[-1]) if len(axis.values) else (0.0, 0.0)


def _upright(values: Any) -> NDArray[Any]:
    """One value for each axis, (n_axes, 1)."""
    return np.array(values)[:, None]
