"""Packing: the arrays of a model as one short string that a page can decode.

Tables are rounded to whole multiples of a step, which is so small that the sum of all components is
off by at most ``MAX_ERROR`` standard deviations of the raw score. Neighbouring cells have similar
values, so their differences along all axes are stored: small whole numbers, with their bytes sorted
by significance, compress well and are decoded exactly.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray

MAX_ERROR = 5e-6  # of a raw score, in its standard deviations
LARGEST_UNIT = 2**30  # a difference of two such whole numbers still fits into 32 bits


class Packed(NamedTuple):
    """Arrays as text: float64 and float32 values, then the bytes of the tables' differences.

    Parameters
    ----------
    text : str
        Base64 of the deflated bytes.
    step : float
        Value of one unit of a table.
    n_doubles, n_floats, n_cells : int
        Numbers of values of each kind.
    """

    text: str
    step: float
    n_doubles: int
    n_floats: int
    n_cells: int


def pack(
    doubles: Sequence[FloatArray],
    floats: Sequence[FloatArray],
    tables: Sequence[FloatArray],
    deviation: float,
    bands: Sequence[FloatArray] = (),
) -> Packed:
    """Pack arrays, those of each kind one after the other.

    Parameters
    ----------
    doubles, floats : sequence of array
        Values to keep in double and in single precision.
    tables : sequence of array of shape (M_1, ..., M_d)
        Component tables.
    deviation : float
        Standard deviation of the raw score.
    bands : sequence of array
        Half the widths of bands, stored after ``floats`` in units of the step, which no unit of the
        target takes out of the range of single precision.
    """
    largest = max((float(np.abs(table).max()) for table in tables), default=0.0)
    step = max(2 * MAX_ERROR * deviation / max(len(tables), 1), largest / LARGEST_UNIT) or 1.0
    units = [np.rint(table / step).astype(np.int64) for table in tables]
    signed = _joined([mixed_difference(table) for table in units]).astype(np.int64)
    zigzag = ((signed << 1) ^ (signed >> 63)).astype("<u4")  # small where the difference is small
    planes = np.ascontiguousarray(zigzag.view(np.uint8).reshape(-1, 4).T)
    singles = _joined([*floats, *(width / step for width in bands)])
    parts = [_joined(doubles).astype("<f8"), singles.astype("<f4"), planes]
    data = b"".join(part.tobytes() for part in parts)
    text = base64.b64encode(zlib.compress(data, 9)).decode()
    return Packed(text, step, parts[0].size, parts[1].size, len(zigzag))


def mixed_difference(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """Difference along every axis, modulo 2^32; running sums along every axis undo it.

    >>> mixed_difference(np.array([[1, 2], [3, 5]]))
    array([[1, 1], [2, 1]])
    """
    for axis in range(table.ndim):
        table = np.diff(table, axis=axis, prepend=0)
    return (table + 2**31) % 2**32 - 2**31


def _joined(arrays: Sequence[NDArray[np.int64] | FloatArray]) -> NDArray[np.float64 | np.int64]:
    return np.concatenate([np.empty(0), *(np.ravel(array) for array in arrays)])
