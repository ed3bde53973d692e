"""Rows in canonical form, and the bags drawn from them.

Training must not depend on the order of the rows, on whether a row of weight two is written twice,
or on how often the whole table is repeated. So rows are keyed by what they contain: equal rows are
merged (their weights add up), rows are sorted by their key, and the key, not the row's number,
decides on which side of a bag's split a row falls. Rows with equal features always fall on the same
side, which keeps the held-out score honest on tables with copies.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
KeyArray = NDArray[np.uint64]

HEAVY_ROWS = 10  # a group of equal rows this many times the average is divided between the sides,
HEAVY_SHARE = 0.1  # and so is one that holds this share of all mass: else it would decide the split


def _mix(keys: KeyArray) -> KeyArray:
    """Scramble 64-bit keys (the finaliser of splitmix64)."""
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))


def row_keys(columns: Iterable[FloatArray], n_rows: int) -> KeyArray:
    """One 64-bit key per row, equal for rows with equal values; it depends on the column order."""
    keys = np.zeros(n_rows, np.uint64)
    for column in columns:
        bits = (column + 0.0).view(np.uint64)  # adding zero turns -0.0 into 0.0
        keys = _mix(keys * np.uint64(0x9E3779B97F4A7C15) + _mix(bits + np.uint64(1)))
    return keys


@dataclass(frozen=True)
class DistinctRows:
    """Distinct training rows in canonical order.

    Parameters
    ----------
    rows : array of shape (n,)
        Where each distinct row stands in the user's table.
    weights : array of shape (n,)
        Total weight of its copies, divided by the weight of all rows.
    groups : array of shape (n,)
        Number of the group of rows with equal features; 0, 1, 2, ... in order.
    keys : array of shape (n_groups,)
        Key of each group.
    """

    rows: NDArray[np.intp]
    weights: FloatArray
    groups: NDArray[np.intp]
    keys: KeyArray


@dataclass(frozen=True)
class TrainingRows:
    """Targets and bag weights of the training rows.

    Parameters
    ----------
    y : array of shape (n, 1)
        Target on the training scale.
    offset : array of shape (n, 1)
        Known part of the raw score.
    training, validation : array of shape (n, n_bags)
        Weight of each row in each bag's two sums; columns sum to one.
    """

    y: NDArray[np.float32]
    offset: NDArray[np.float32]
    training: NDArray[np.float32]
    validation: NDArray[np.float32]


def distinct_rows(keys: KeyArray, targets: FloatArray, weights: FloatArray | None) -> DistinctRows:
    """Merge rows that agree in features and in every target; rows of weight zero are left out.

    ``targets`` has shape (n_targets, n_rows); without weights each row counts one.
    """
    masses = np.ones(len(keys)) if weights is None else weights
    kept = np.flatnonzero(masses > 0)
    order = kept[np.lexsort((*targets[:, kept], keys[kept]))]
    key, target = keys[order], targets[:, order]
    new_key = np.r_[True, key[1:] != key[:-1]]
    new_row = new_key | np.r_[True, (target[:, 1:] != target[:, :-1]).any(0)]
    starts = np.flatnonzero(new_row)
    merged = np.add.reduceat(masses[order], starts)
    groups = (np.cumsum(new_key) - 1)[starts]
    return DistinctRows(order[starts], merged / merged.sum(), groups, key[new_key])


def draw_bags(
    distinct: DistinctRows, n_bags: int, validation_fraction: float, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Weights of every row for training and for validation in every bag, each (n, n_bags).

    Each column sums to one. A bag holds out the groups with the smallest draws until they carry
    ``validation_fraction`` of the mass; a heavy group is divided in that proportion instead.
    """
    mass = np.bincount(distinct.groups, distinct.weights)
    heavy = mass > min(HEAVY_ROWS / len(distinct.rows), HEAVY_SHARE)
    training = np.empty((len(distinct.rows), n_bags), np.float32)
    validation = np.empty_like(training)
    for bag in range(n_bags):
        held_out = np.where(heavy, validation_fraction, 0.0)
        salt = _mix(np.array([seed, bag], np.uint64)).sum()
        light = np.flatnonzero(~heavy)
        drawn = light[np.argsort(_mix(distinct.keys[light] ^ salt))]
        before = np.cumsum(mass[drawn]) - mass[drawn]
        held_out[drawn] = before < validation_fraction * mass[drawn].sum()
        share = held_out[distinct.groups]
        training[:, bag] = _normalised(distinct.weights * (1 - share))
        validation[:, bag] = _normalised(distinct.weights * share)
    return training, validation


def _normalised(weights: FloatArray) -> FloatArray:
    return weights / float(weights.sum())
