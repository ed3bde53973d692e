"""Passes over the sorted values of a column, compiled: they place nodes and share out masses."""

from __future__ import annotations

from typing import Any

import numpy as np

from tpnn._utils.compile import compiled
from tpnn.table.columns import SMALLEST_SIZE

SIGN = np.uint64(1 << 63)
N_DIGITS, N_DIGIT_VALUES = 8, 256  # a key of 64 bits is eight digits of a byte


@compiled(inline="always")
def _sort_keys(keys: Any, spare: Any) -> Any:
    """Sort keys by their digits, the lowest first; the answer is one of the two arrays."""
    counts = np.zeros((N_DIGITS, N_DIGIT_VALUES), np.uint64)
    one, last = np.uint64(1), np.uint64(N_DIGIT_VALUES - 1)
    for i in range(len(keys)):
        for digit in range(N_DIGITS):
            counts[digit, (keys[i] >> np.uint64(8 * digit)) & last] += one
    for digit in range(N_DIGITS):
        shift, starts = np.uint64(8 * digit), counts[digit]
        if len(keys) and starts[(keys[0] >> shift) & last] == np.uint64(len(keys)):
            continue  # all keys have the same digit
        begin = np.uint64(0)
        for value in range(N_DIGIT_VALUES):
            begin, starts[value] = begin + starts[value], begin
        for i in range(len(keys)):
            key = keys[i]
            value = (key >> shift) & last
            spare[starts[value]] = key
            starts[value] += one
        keys, spare = spare, keys
    return keys


@compiled()
def sort_column(x: Any) -> Any:
    """Sort doubles, NaN last, with -0.0 and numbers below the smallest size as 0.0.

    The bits of a positive number increase with the number, the bits of a negative one decrease.
    Turned around accordingly, they are keys that sort like the numbers.
    """
    values = np.empty(len(x))
    for i in range(len(x)):
        if np.isnan(x[i]):
            values[i] = np.nan
        else:
            values[i] = 0.0 if abs(x[i]) < SMALLEST_SIZE else x[i]
    keys = values.view(np.uint64)
    for i in range(len(x)):
        keys[i] = ~keys[i] if keys[i] & SIGN else keys[i] | SIGN
    keys = _sort_keys(keys, np.empty_like(keys))
    for i in range(len(x)):
        keys[i] = keys[i] ^ SIGN if keys[i] & SIGN else ~keys[i]
    return keys.view(np.float64)


@compiled()
def run_lengths(ordered: Any) -> Any:
    """Distinct values of a sorted column, NaN last, and how often each occurs.

    The values are moved to the front of the array that is passed.
    """
    n_present = len(ordered)
    while n_present > 0 and np.isnan(ordered[n_present - 1]):
        n_present -= 1
    n_missing, n_runs = len(ordered) - n_present, min(n_present, 1)
    for i in range(1, n_present):
        n_runs += ordered[i] != ordered[i - 1]
    counts = np.zeros(n_runs + (n_missing > 0))
    run = 0
    for i in range(n_present):
        run += i > 0 and ordered[i] != ordered[run]
        ordered[run] = ordered[i]
        counts[run] += 1.0
    if n_missing > 0:
        ordered[n_runs], counts[n_runs] = np.nan, n_missing
    return ordered[: len(counts)], counts


@compiled()
def _fraction(x: float, nodes: Any, lower: int) -> Any:
    """How far a value lies from its lower node towards the next one, in [0, 1)."""
    if lower == len(nodes) - 1:
        return 0.0
    half = nodes[lower] / 2  # the difference of two huge values must not overflow
    step = nodes[lower + 1] / 2 - half
    inside = min(max(x, nodes[0]), nodes[-1])
    return (inside / 2 - half) / step if step > 0 else 0.0


@compiled()
def share_masses(values: Any, masses: Any, total: float, nodes: Any, weights: Any) -> None:
    """Add the share of each of the increasing values to the weights of its two neighbours.

    First all values give to their lower nodes, then all to their upper ones: the order in which
    numbers are added decides their last bit.
    """
    for upper in range(2):
        lower = 0
        for i in range(len(values)):
            while lower + 1 < len(nodes) and nodes[lower + 1] <= values[i]:
                lower += 1
            share, fraction = masses[i] / total, _fraction(values[i], nodes, lower)
            if upper == 0:
                weights[lower] += share * (1 - fraction)
            else:
                weights[lower + 1] += share * fraction
