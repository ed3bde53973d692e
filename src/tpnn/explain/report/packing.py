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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray

MAX_ERROR = 5e-6  # of a raw score, in its standard deviations
LARGEST_UNIT = 2**30  # a difference of two such whole numbers still fits into 32 bits


class Packed(NamedTuple):
    """Arrays as text: float64 and float32 values, then the bytes of the tables' differences."""

    text: str  # base64 of the deflated bytes
    step: float  # value of one unit of a table
    n_doubles: int
    n_floats: int
    n_cells: int


def pack(
    doubles: Sequence[FloatArray],
    floats: Sequence[FloatArray],
    tables: Sequence[FloatArray],  # (M_1, ..., M_d) each
    deviation: float,  # standard deviation of the raw score
    bands: Sequence[FloatArray] = (),  # half widths
    numbers: Sequence[NDArray[Any]] = (),  # whole numbers, (n,) each
    n_summed: int | None = None,  # values of tables in one raw score; by default one of each
) -> Packed:
    """Pack values in double and in single precision, bands and tables, then whole numbers.

    Bands follow the floats, in units of the step: so they are in the range of single precision,
    whatever the unit of the target is.
    """
    n_summed = max(len(tables) if n_summed is None else n_summed, 1)
    largest = max((float(np.abs(table).max()) for table in tables), default=0.0)
    step = max(2 * MAX_ERROR * deviation / n_summed, largest / LARGEST_UNIT) or 1.0
    units = [np.rint(table / step).astype(np.int64) for table in tables]
    units.extend(each.astype(np.int64) for each in numbers)
    signed = _joined([mixed_difference(table) for table in units]).astype(np.int64)
    zigzag = ((signed << 1) ^ (signed >> 63)).astype("<u4")  # small where the difference is small
    planes = np.ascontiguousarray(zigzag.view(np.uint8).reshape(-1, 4).T)
    singles = _joined([*floats, *(width / step for width in bands)])
    arrays = [_joined(doubles).astype("<f8"), singles.astype("<f4"), planes]
    data = b"".join(array.tobytes() for array in arrays)
    text = base64.b64encode(zlib.compress(data, 9)).decode()
    return Packed(text, step, arrays[0].size, arrays[1].size, len(zigzag))


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
