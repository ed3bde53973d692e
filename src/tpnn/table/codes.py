"""Codes of a table: the node of every value at every order, from one search for each value.

The values of a feature fall into places: two values are in one place if their nearest node is the
same at every order. A value is searched once among the places, and a small table holds the node of
each place at each order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tpnn._utils.arrays import CodeArray, FloatArray, Int32Array, IntArray
from tpnn._utils.compile import compiled
from tpnn._utils.threads import Workers
from tpnn.table.axis import Axis
from tpnn.table.encoder import TableEncoder, one_reader, remote_table
from tpnn.table.table import Table

MAX_NODES_PER_BYTE = 256
N_BUCKETS = 1024  # buckets of equal width, in which a search begins
SMALLEST_RANGE = 1e-300  # buckets of a smaller range would divide by zero
ROWS_PER_BLOCK = 2048  # values and places of one block stay in the L1 cache


class Places(NamedTuple):
    """Where the values of one feature fall."""

    # (n_places - 1 + padding,): largest value of each place but the last, then inf
    ends: FloatArray
    first: float  # smallest end
    last: float  # largest end
    scale: float  # number of buckets, divided by half the distance from first to last
    # (N_BUCKETS + 1,): a place at or below the place of every value of a bucket
    guesses: Int32Array
    halvings: int  # how often the interval above a guess must be halved to find the place


@compiled()
def _find_places(x: Any, places: Any, missing: int, numbers: Any) -> None:
    """Count the ends below each value, by bucket, then by halving; NaN is at ``missing``."""
    ends, first, last = places.ends, places.first, places.last
    for low in range(0, len(x), ROWS_PER_BLOCK):
        high = min(low + ROWS_PER_BLOCK, len(x))
        for i in range(low, high):
            point = min(x[i], last) if x[i] > first else first
            numbers[i] = places.guesses[np.int32((point / 2 - first / 2) * places.scale)]
        for step in range(places.halvings):
            half = np.int32(1 << (places.halvings - 1 - step))
            for i in range(low, high):  # a product, because a condition would become a branch
                numbers[i] += half * np.int32(ends[numbers[i] + half - 1] < x[i])
        for i in range(low, high):
            numbers[i] = missing if np.isnan(x[i]) else numbers[i]


@compiled()
def _take(table: Any, places: Any, codes: Any) -> None:
    for i in range(len(places)):
        codes[i] = table[places[i]]


def lay_out(ends: FloatArray) -> Places:
    """Places between increasing ends (n_places - 1,).

    Rounding keeps the order of buckets: an end in a lower bucket than a value is below that value.
    So the ends in lower buckets are a guess from below, however unequal the gaps are.
    """
    first, last = (float(ends[0]), float(ends[-1])) if len(ends) else (0.0, 0.0)
    half_range = last / 2 - first / 2
    scale = N_BUCKETS / half_range if half_range > SMALLEST_RANGE else 0.0
    buckets = ((ends / 2 - first / 2) * scale).astype(np.int32)
    guesses = np.searchsorted(buckets, np.arange(N_BUCKETS + 2))
    halvings = int(np.diff(guesses).max()).bit_length()
    padded = np.append(ends, np.full(1 << halvings, np.inf))
    return Places(
        ends=padded,
        first=first,
        last=last,
        scale=scale,
        guesses=guesses[:-1].astype(np.int32),
        halvings=halvings,
    )


def _placed(x: FloatArray, axes: Sequence[Axis]) -> tuple[Int32Array, list[IntArray]]:
    """Place of each value (n,), and the node of each place at the orders of the axes.

    Missing values are in the last place.
    """
    groups = axes[0].groups
    if groups is not None:
        values = np.arange(float(len(groups)))
        whole = np.where(np.isfinite(x), x, 0.0).astype(np.int32)
        numbers = np.where(np.isnan(x), np.int32(len(values)), whole)
    else:
        ends = np.unique(np.concatenate([axis.ends for axis in axes]))
        values = np.append(ends, np.inf)  # the largest value of each place stands for it
        numbers = np.empty(len(x), np.int32)
        _find_places(np.ascontiguousarray(x), lay_out(ends), len(values), numbers)
    values = np.append(values, np.nan)
    return numbers, [axis.codes(values) for axis in axes]


def code_rows(
    table: Table, encoder: TableEncoder, rows: IntArray, n_threads: int | None = None
) -> dict[int, CodeArray]:
    """Nearest nodes of the given rows at each order, (n_features, len(rows)), in few bytes.

    Columns are coded by several threads.
    """
    remote = remote_table(table)
    if remote is not None:
        return remote.codes(table, encoder, rows)
    codes: dict[int, CodeArray] = {
        order: table.shelf.empty((len(axes), len(rows)), _code_type(axes))
        for order, axes in encoder.axes.items()
    }
    reading = one_reader(table)

    def code(feature: int) -> None:
        with reading:
            x = encoder.numbers(table, feature)
        places, nodes = _placed(x, [axes[feature] for axes in encoder.axes.values()])
        chosen = places[rows]
        for by_feature, of_place in zip(codes.values(), nodes, strict=True):
            _take(of_place.astype(by_feature.dtype), chosen, by_feature[feature])

    with Workers(n_threads) as workers:
        workers.map(code, range(encoder.n_features))
    return codes


def _code_type(axes: Sequence[Axis]) -> type[np.unsignedinteger[Any]]:
    return np.uint16 if max(axis.n_nodes for axis in axes) > MAX_NODES_PER_BYTE else np.uint8
