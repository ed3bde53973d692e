"""Sums of whole numbers, which do not depend on the order in which rows are added.

A value v becomes the whole number round(scale * v), and whole numbers are added in 64 bits. So a
sum has the same bits for any order of the rows, any blocks and any number of threads, and a large
sum still sees small values; a sum in single precision no longer does from 2^24 on. The scale is a
power of two that depends on the number of rows and on the largest value alone: no sum overflows
and, of a million rows, values down to a 256th of the largest lose nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray, Int32Array, RealArray
from tpnn._utils.compile import compiled

SUM_BITS = 52  # of a sum over all rows; 11 spare bits for rows that outgrow the largest value
NUMBER_BITS = 30  # of a single number in 32 bits
ROWS_PER_BLOCK = 1024  # of all lanes; they stay in the L1 cache
LARGEST_EXPONENT = 126  # of a scale, so that single precision holds it and its inverse


def sum_scale(largest: float, n_rows: int) -> float:
    """Power of two that turns values into whole numbers whose sums fit into 64 bits.

    It is NaN if the largest absolute value is NaN or infinite: so is every sum then.

    >>> sum_scale(largest=1.0, n_rows=2**20) == 2.0**30, sum_scale(math.inf, 3)
    (True, nan)
    """
    return _power(SUM_BITS - math.frexp(n_rows)[1], largest)


def _power(bits: int, largest: float) -> float:
    """Largest power of two that brings an absolute value below 2^bits, within limits."""
    if not math.isfinite(largest):
        return math.nan
    exponent = bits - math.frexp(largest)[1]
    return math.ldexp(1.0, max(min(exponent, LARGEST_EXPONENT), -LARGEST_EXPONENT))


@compiled()
def _largest(values: Any, largest: Any) -> None:
    """Set the largest absolute value of every lane; infinity where a value is NaN."""
    for low in range(0, len(values), ROWS_PER_BLOCK):
        high = min(low + ROWS_PER_BLOCK, len(values))
        for lane in range(values.shape[1]):
            size, n_odd = largest[lane], 0
            for i in range(low, high):
                size = max(size, abs(values[i, lane]))
                n_odd += np.isnan(values[i, lane])
            largest[lane] = np.inf if n_odd else size


def largest_of(values: RealArray) -> FloatArray:
    """Largest absolute value of every column of values (n_rows, n_lanes); infinity for NaN."""
    largest = np.zeros(values.shape[1])
    _largest(values, largest)
    return largest


@compiled()
def whole_total(values: Any, scale: Any) -> Any:
    """Sum of values as whole numbers, int64."""
    total = np.int64(0)
    for i in range(len(values)):
        total += np.int64(np.rint(values[i] * scale))
    return total


@compiled()
def _column_totals(values: Any, scales: Any, totals: Any) -> None:
    for low in range(0, len(values), ROWS_PER_BLOCK):
        high = min(low + ROWS_PER_BLOCK, len(values))
        for lane in range(values.shape[1]):
            scale = scales[lane]
            for i in range(low, high):
                totals[lane] += np.int64(np.rint(values[i, lane] * scale))


@compiled()
def _round(values: Any, scales: Any, numbers: Any) -> None:
    for low in range(0, len(values), ROWS_PER_BLOCK):
        high = min(low + ROWS_PER_BLOCK, len(values))
        for lane in range(values.shape[1]):
            scale = scales[lane]
            for i in range(low, high):
                numbers[i, lane] = np.int32(np.rint(values[i, lane] * scale))


def totals(values: RealArray) -> FloatArray:
    """Sum of every column of values (n_rows, n_lanes); NaN for a column that is not finite.

    >>> totals(np.array([[2.0**24], [1.0], [1.0]], np.float32))
    array([16777218.])
    """
    scales = np.array([sum_scale(float(size), len(values)) for size in largest_of(values)])
    return np.asarray(whole_totals(values, scales) / scales)


def whole_totals(values: RealArray, scales: FloatArray) -> NDArray[np.int64]:
    """Sum of every column of values (n_rows, n_lanes) as whole numbers, on given scales."""
    sums = np.zeros(len(scales), np.int64)
    _column_totals(values, scales.astype(values.dtype), sums)
    return sums


def whole_numbers(values: RealArray) -> tuple[Int32Array, FloatArray]:
    """Values (n_rows, n_lanes) as whole numbers of 32 bits, and the unit of each lane (n_lanes,).

    The unit is a power of two, or NaN for a lane that is not finite.
    """
    scales = np.array([_power(NUMBER_BITS, float(size)) for size in largest_of(values)])
    numbers: NDArray[np.int32] = np.empty(values.shape, np.int32)
    _round(values, scales.astype(values.dtype), numbers)
    return numbers, 1 / scales
