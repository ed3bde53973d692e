"""Loops over the leaves of trees with NumPy alone, as ``trees_numba`` has them compiled."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray, Int32Array, IntArray

LEAVES_AT_ONCE = 1 << 14
Block = tuple[IntArray, FloatArray, FloatArray, FloatArray]


class Leaves(NamedTuple):
    """Leaves as products of intervals."""

    starts: IntArray  # (n_leaves + 1,): slots of each leaf
    slots: Int32Array  # (n_slots,): interval of each slot
    values: FloatArray  # (n_leaves, K)
    features: Int32Array  # (n_intervals,)
    shares: FloatArray  # (n_intervals,)


def add_shapley(
    leaves: Leaves, excess: FloatArray, points: FloatArray, weights: FloatArray, phi: FloatArray
) -> None:
    """Add the Shapley values of all leaves to phi (p, K)."""
    for block in _blocks(leaves, excess):
        owners, own_shares, own_excess, own_values = block
        total = np.zeros_like(own_excess)
        for point, weight in zip(points, weights, strict=True):
            factors = own_shares + point * own_excess
            before, after = np.ones_like(factors), np.ones_like(factors)
            np.cumprod(factors[:-1], 0, out=before[1:])
            np.cumprod(factors[:0:-1], 0, out=after[-2::-1])
            total += weight * before * after
        _add_by_feature(owners, own_excess * total, own_values, phi)


def add_interactions(
    leaves: Leaves, excess: FloatArray, points: FloatArray, weights: FloatArray, found: FloatArray
) -> None:
    """Add half of the interaction index of every pair (i, j) to found[i, j] and found[j, i]."""
    n_features, _, n_outputs = found.shape
    flat = np.zeros((n_features * n_features, n_outputs))
    for block in _blocks(leaves, excess):
        owners, own_shares, own_excess, own_values = block
        for a, b in combinations(range(len(owners)), 2):
            total = np.zeros(len(own_values))
            for point, weight in zip(points, weights, strict=True):
                factors = np.delete(own_shares + point * own_excess, (a, b), 0)
                total += 0.5 * weight * factors.prod(0)
            halves = own_excess[a] * own_excess[b] * total
            for i, j in ((a, b), (b, a)):
                _add_by_feature(owners[i] * n_features + owners[j], halves, own_values, flat)
    found += flat.reshape(found.shape)


def _blocks(leaves: Leaves, excess: FloatArray) -> Iterator[Block]:
    """Features, shares and excess (d, n) of the slots of some leaves, and their values (n, K).

    Leaves with fewer slots are padded by slots with share 1 and excess 0, which change nothing.
    """
    counts, padding = np.diff(leaves.starts), len(leaves.features)
    features = np.append(leaves.features, 0).astype(np.intp)
    shares, excess = np.append(leaves.shares, 1.0), np.append(excess, 0.0)
    for first in range(0, len(counts), LEAVES_AT_ONCE):
        some = slice(first, first + LEAVES_AT_ONCE)
        depth = np.arange(counts[some].max())[:, None]
        places = np.minimum(leaves.starts[:-1][some] + depth, len(leaves.slots) - 1)
        own = np.where(depth < counts[some], leaves.slots[places], padding)
        yield features[own], shares[own], excess[own], leaves.values[some]


def _add_by_feature(
    owners: IntArray, amounts: FloatArray, values: FloatArray, found: FloatArray
) -> None:
    """Add amounts (..., n) times values (n, K) to the entries of their owners in found (m, K)."""
    for k in range(found.shape[1]):
        weighted = (amounts * values[:, k]).ravel()
        found[:, k] += np.bincount(owners.ravel(), weighted, len(found))
