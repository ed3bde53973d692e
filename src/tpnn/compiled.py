"""The two inner loops of prediction, compiled: for tables long enough to be worth loading numba.

They compute what ``Axis.locate`` and the interpolation of ``AnovaModel`` compute, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

from tpnn.encoding import Axis

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

N_BUCKETS = 1024
TINIEST_RANGE = 1e-300  # buckets of a smaller range would divide by zero


@nb.njit(nogil=True, cache=True)
def _locate(values: Any, guesses: Any, x: Any, lower: Any, fraction: Any) -> None:
    n_buckets, last = len(guesses) - 1, len(values) - 2
    scale = n_buckets / (values[-1] / 2 - values[0] / 2)
    for i in range(len(x)):
        point = min(max(x[i], values[0]), values[-1])
        bucket = min(int((point / 2 - values[0] / 2) * scale), n_buckets - 1)
        low, size = guesses[bucket], guesses[bucket + 1] - guesses[bucket] + 1
        while size > 1:
            half = size // 2
            low = low + half if values[low + half] <= point else low
            size -= half
        while low > 0 and values[low] > point:  # rounding put the point into the next bucket
            low -= 1
        while low < last and values[low + 1] <= point:
            low += 1
        low = min(low, last)
        left = values[low] / 2
        step = values[low + 1] / 2 - left
        lower[i] = low
        fraction[i] = (point / 2 - left) / step if step > 0 else 0.0


@nb.njit(nogil=True, cache=True)
def _interpolate_main(cells: Any, nodes: Any, fractions: Any, stride: int, values: Any) -> None:
    for i in range(len(values)):
        lower = cells[nodes[i]]
        values[i] = lower + fractions[i] * (cells[nodes[i] + stride] - lower)


@nb.njit(nogil=True, cache=True)
def _interpolate_pair(cells: Any, nodes: Any, fractions: Any, strides: Any, values: Any) -> None:
    first, second = nodes
    along_first, along_second = fractions
    down, right = strides
    for i in range(len(values)):
        base = first[i] * down + second[i] * right
        lower = cells[base]
        lower += along_second[i] * (cells[base + right] - lower)
        upper = cells[base + down]
        upper += along_second[i] * (cells[base + down + right] - upper)
        values[i] = lower + along_first[i] * (upper - lower)


class Locator:
    """Finds the lower node and the fraction of values on one axis, as ``Axis.locate``.

    Buckets of equal width narrow the search down to a node or two.

    Parameters
    ----------
    values : array of shape (M,)
        Nodes, at least two.
    """

    def __init__(self, values: FloatArray) -> None:
        self.values = values
        self.axis = Axis(values, np.empty(0))
        self.is_tiny = values[-1] / 2 - values[0] / 2 < TINIEST_RANGE
        edges = np.linspace(values[0] / 2, values[-1] / 2, N_BUCKETS + 1)
        self.guesses = np.searchsorted(values / 2, edges, side="right") - 1

    def locate(self, x: FloatArray) -> tuple[IntArray, FloatArray]:
        """Lower node and fraction of each value."""
        if self.is_tiny:
            return self.axis.locate(x)
        lower, fraction = np.empty(len(x), np.intp), np.empty(len(x))
        _locate(self.values, self.guesses, x, lower, fraction)
        return lower, fraction


def interpolate(
    cells: FloatArray,
    nodes: Sequence[IntArray],
    fractions: Sequence[FloatArray],
    strides: Sequence[int],
) -> FloatArray:
    """Linear or bilinear interpolation in a table of one or two axes."""
    values = np.empty(len(nodes[0]))
    if len(nodes) == 1:
        _interpolate_main(cells, nodes[0], fractions[0], strides[0], values)
    else:
        _interpolate_pair(cells, tuple(nodes), tuple(fractions), tuple(strides), values)
    return values
