"""Targets on the training scale: y = shift + scale * target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import BoolArray, Float32Array, FloatArray, IntArray
from tpnn._utils.compile import compiled
from tpnn._utils.shelf import MEMORY, Shelf
from tpnn._utils.threads import Workers, split
from tpnn.loss.objectives import (
    Objective,
    mean_and_deviation,
    median_and_quartiles,
    weighted_quantiles,
)
from tpnn.model.task import both_classes
from tpnn.solvers.problem.sums import totals
from tpnn.table.columns import all_finite
from tpnn.table.encoder import TableEncoder, whole_counts
from tpnn.table.table import Table

LARGEST_NUMBER = float(np.finfo(np.float64).max)
LARGEST_TARGET = 1e30  # in standard deviations by the quartiles; single precision must hold it
LARGEST_LOG_RISK = 1e5  # of an offset
LARGEST_MEDIAN_OFFSET = 32.0  # of log risks; a larger one is taken out of them
FEW_ROWS = 30  # below which the classes of rows are not taken for certain


class Draws(NamedTuple):
    """Rows that stand for one row of the user, each with its own values where that has gaps."""

    numbers: IntArray  # (n_rows,), of the draw; -1 for a row without gaps
    rows: IntArray  # (n_rows,), place of the row that each stands for
    n_draws: int
    size: float  # rows that the user's table represents
    groups_are_given: bool  # by the user; else a group is all draws of a row


@dataclass(frozen=True)
class Targets:
    """What the user passes besides the table: y (n_rows, T), weights, offset, groups (n_rows,)."""

    y: FloatArray
    weights: FloatArray | None
    offset: FloatArray
    groups: IntArray | None = None
    held_out: FloatArray | None = None  # (n_rows,), mass of rows that no bag trains on
    draws: Draws | None = None  # where gaps are filled


@dataclass(frozen=True, kw_only=True)
class Scaled:
    """Targets as a solver sees them."""

    y: FloatArray  # (n, T), on the training scale
    offset: FloatArray  # (n, 1)
    objective: Objective  # in units of its dispersion if rescaling y only shifts the raw score
    best_constant: FloatArray  # (K,), its raw score
    shift: FloatArray  # (K,) or (1,)
    scale: FloatArray  # (K,) or (1,): raw score of the user = shift + scale * raw score


def _check_log_risks(offset: FloatArray) -> None:
    """Refuse offsets beside which single precision cannot hold the effects of features."""
    if np.abs(offset).max(initial=0.0) > LARGEST_LOG_RISK:
        raise ValueError(
            f"offset: known log risks must lie between {-LARGEST_LOG_RISK:g} and "
            f"{LARGEST_LOG_RISK:g}, found {offset.min():g} to {offset.max():g}. Subtract a "
            "constant, which changes no relative risk, or correct them."
        )


def centred_offset(
    offset: FloatArray, weights: FloatArray | None, objective: Objective
) -> FloatArray:
    """Offsets (n,); without their weighted median if it is large and a constant changes no loss.

    So the offset takes no digits from the raw scores, which are in single precision.
    """
    if not objective.couples_rows:
        return offset
    _check_log_risks(offset)
    masses = np.ones(len(offset)) if weights is None else weights
    median = float(weighted_quantiles(offset, masses, 0.5))
    return offset - median if abs(median) > LARGEST_MEDIAN_OFFSET else offset


def softened(y: FloatArray, weights: FloatArray, n_rows: float, objective: Objective) -> FloatArray:
    """Targets (n, T); of classes with few rows, probabilities in place of indicators.

    With N rows of its class, a row is of this class with the probability (N + 1) / (N + K) and of
    each of the K - 1 others with 1 / (N + K), which is Laplace's rule for the next row like it
    (Platt, 1999). A handful of rows are always separable; without this the odds have no bound.
    """
    if n_rows >= FEW_ROWS or objective.kind != "classes":
        return y
    indicators = both_classes(y[:, 0]) if y.shape[1] == 1 else y  # (n, K)
    counts = indicators @ (n_rows * (weights @ indicators))  # N of each row's class
    soft: FloatArray = (counts[:, None] * indicators + 1) / (counts + indicators.shape[1])[:, None]
    return soft[:, 1:] if y.shape[1] == 1 else soft


def scaled(
    y: FloatArray,
    offset: FloatArray,
    weights: FloatArray,
    objective: Objective,
    shelf: Shelf = MEMORY,
) -> Scaled:
    """Bring targets (n, T) with offsets (n, 1) and weights (n,) onto the training scale."""
    shift, scale = np.zeros(1), np.ones(1)
    if objective.standardised:  # the offset is subtracted from the target
        with np.errstate(over="ignore"):
            y, offset = shelf.keep(y - offset), np.zeros_like(offset)
        y, shift, scale = _standardised(y, weights, objective.predicts_means)
    elif objective.is_relative:
        shift = np.log(weights @ y)
        y, objective = y / np.exp(shift), objective.of_targets_in(float(np.exp(shift[0])))
    best = objective.start(y, offset, weights)
    if objective.is_relative:
        objective = objective.in_units_of_dispersion(y, offset + best, weights)
    return Scaled(
        y=y, offset=offset, objective=objective, best_constant=best, shift=shift, scale=scale
    )


def _standardised(
    y: FloatArray, weights: FloatArray, squared: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return targets on the training scale, in place, their shift and their scale."""
    low, high = y.min(0), y.max(0)
    measure = mean_and_deviation if squared else median_and_quartiles
    with np.errstate(over="ignore", invalid="ignore"):  # of differences that are refused below
        shift, scale = measure(y, weights)
        y -= shift
        y /= scale
        is_narrow = not squared or bool((high / 2 - low / 2 < LARGEST_NUMBER / 2).all())
    if not squared:  # the loss is linear out there, so that clipping moves no minimum
        y = np.clip(y, -LARGEST_TARGET, LARGEST_TARGET)
    if not is_narrow or not np.isfinite(scale).all() or not all_finite(y):
        raise ValueError(
            f"y: differences of targets, without their offsets, must be below {LARGEST_NUMBER:.2g},"
            f" found values from {low.min():.2g} to {high.max():.2g}. Pass them in a larger unit."
        )
    return y, shift, scale


KeyArray = NDArray[np.uint64]

# A group of rows with equal features is heavy if it has the mass of so many average rows, or this
# share of all mass. It may fall on both sides of a split.
HEAVY_ROWS, HEAVY_SHARE = 10, 0.1
ROWS_PER_BLOCK = 32_768  # of a few columns, which stay in the L2 cache
COLUMNS_AT_A_TIME = 8  # doubles in a cache line
BYTES_AT_A_TIME = 1 << 28  # of columns; fewer columns of a long table
NEGATIVE_ZERO, NOT_THE_SIGN = np.uint64(1 << 63), np.uint64((1 << 63) - 1)  # bits of doubles
INFINITY, NOT_A_NUMBER = (np.float64(value).view(np.uint64) for value in (np.inf, np.nan))
COMMON_TARGET_SHARE = 0.02  # a target with a larger share of a heavy group falls on both sides


@compiled()
def scrambled(bits: Any) -> Any:
    """Scramble 64 bits, or an array of them (the finaliser of splitmix64).

    >>> hex(scrambled(np.uint64(0x9E3779B97F4A7C15)))
    '0xe220a8397b1dcdaf'
    """
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def canonical_features(encoder: TableEncoder, table: Table, targets: Targets) -> list[int]:
    """Sort the features in a way that does not depend on the order of rows and columns."""
    keys = [encoder.canonical_key(feature) for feature in range(encoder.n_features)]
    counts = Counter(keys)
    alike = [feature for feature, key in enumerate(keys) if counts[key] > 1]
    tie_breaks = dict.fromkeys(range(encoder.n_features), 0)
    if alike:
        ranks = {key: rank for rank, key in enumerate(sorted(counts))}
        rows = _whole_rows(encoder, table, targets, [ranks[key] for key in keys])
        counted = np.ones(table.n_rows, bool) if targets.weights is None else targets.weights > 0
        tie_breaks |= {j: _column_key(encoder, table, j, rows, counted) for j in alike}
    return sorted(range(encoder.n_features), key=lambda j: (keys[j], tie_breaks[j]))


def _whole_rows(
    encoder: TableEncoder, table: Table, targets: Targets, ranks: list[int]
) -> KeyArray:
    """One key per row, made from its values, targets and offset in any order of the columns."""
    salts = scrambled(np.arange(1, len(ranks) + 1).astype(np.uint64))
    rows = row_keys([*targets.y.T, targets.offset], table.n_rows)
    for feature, rank in enumerate(ranks):
        rows = rows + scrambled(float_bits(encoder.numbers(table, feature)) ^ salts[rank])
    return rows


def _column_key(
    encoder: TableEncoder, table: Table, feature: int, rows: KeyArray, counted: BoolArray
) -> int:
    """Key of a column, given whole rows; repeated rows and rows of weight zero change nothing."""
    bits = float_bits(encoder.numbers(table, feature))
    pairs = scrambled(scrambled(bits) + rows)[counted]
    return int(np.unique(pairs).sum())  # overflow wraps around


def float_bits(values: FloatArray) -> KeyArray:
    """Bits of numbers, identical for equal numbers: there is one NaN, and -0.0 becomes 0.0."""
    return np.where(np.isnan(values), np.nan, values + 0.0).view(np.uint64)


@compiled()
def _mix(bits: Any, keys: Any) -> None:
    """Mix the bits of one column, made equal for equal numbers, into the keys of its rows."""
    for i in range(len(bits)):
        value = bits[i]
        if value == NEGATIVE_ZERO:
            value = np.uint64(0)
        elif value & NOT_THE_SIGN > INFINITY:
            value = NOT_A_NUMBER
        value = scrambled(value + np.uint64(1))
        keys[i] = scrambled(keys[i] * np.uint64(0x9E3779B97F4A7C15) + value)


def columns_at_a_time(n_rows: int, most: int) -> int:
    """Return how many columns of so many rows may be in memory at a time.

    >>> columns_at_a_time(1000, 8), columns_at_a_time(10**8, 8)
    (8, 1)
    """
    return min(max(BYTES_AT_A_TIME // (8 * max(n_rows, 1)), 1), most)


def read_columns(
    read: Callable[[int], FloatArray],
    features: Sequence[int],
    table: Table,
    n_threads: int | None = None,
) -> Iterator[FloatArray]:
    """Yield the columns of features in their order; threads read several long ones at a time.

    A table on disk has fewer of them in memory at a time.
    """
    are_few = table.n_rows <= ROWS_PER_BLOCK or not table.is_read_in_parallel
    with Workers(1 if are_few else n_threads) as workers:
        at_a_time = workers.n_threads
        if table.shelf.is_on_disk:
            at_a_time = columns_at_a_time(table.n_rows, at_a_time)
        for start in range(0, len(features), at_a_time):
            yield from workers.map(read, features[start : start + at_a_time])


def row_keys(columns: Iterable[FloatArray], n_rows: int, n_threads: int | None = None) -> KeyArray:
    """One 64-bit key per row, equal for equal rows; it depends on the order of the columns.

    Threads take blocks of rows; a few columns are read at a time.
    """
    keys, remaining = np.zeros(n_rows, np.uint64), iter(columns)
    at_a_time = columns_at_a_time(n_rows, COLUMNS_AT_A_TIME)
    blocks = [slice(*block) for block in split(n_rows, ROWS_PER_BLOCK)]
    with Workers(n_threads) as workers:
        while some := list(islice(remaining, at_a_time)):

            def mix(block: slice, some: list[FloatArray] = some) -> None:
                for column in some:
                    _mix(np.ascontiguousarray(column[block]).view(np.uint64), keys[block])

            workers.map(mix, blocks)
    return keys


@dataclass(frozen=True)
class DistinctRows:
    """Distinct training rows in canonical order."""

    rows: IntArray  # (n,), places in the user's table
    weights: FloatArray  # (n,), total of the copies of a row, as a share of all rows
    groups: IntArray  # (n,), 0, 1, 2, ...: rows with equal features, or groups of the user
    group_keys: KeyArray  # (n,)
    keys: KeyArray  # (n,), of features and targets
    size: float  # rows that the table represents; copies of the whole table do not count
    are_named: bool = False  # whether the groups are the user's, so that none is divided
    held_out: FloatArray | None = None  # (n,), shares of rows of weight zero that all bags hold out

    @property
    def masses(self) -> FloatArray:
        """Weights of the rows, and shares of those that all bags hold out."""
        return self.weights if self.held_out is None else self.weights + self.held_out

    def take(self, some: IntArray) -> DistinctRows:
        """Return some of the rows, with their weights among all rows."""
        return replace(
            self,
            held_out=None if self.held_out is None else self.held_out[some],
            rows=self.rows[some],
            weights=self.weights[some],
            groups=self.groups[some],
            group_keys=self.group_keys[some],
            keys=self.keys[some],
        )


@dataclass(frozen=True)
class TrainingRows:
    """Targets and bag weights of the training rows."""

    y: Float32Array  # (n, T), on the training scale
    offset: Float32Array  # (n, 1)
    training: Float32Array  # (n, n_bags), weights in the training loss; columns sum to one
    validation: Float32Array  # (n, n_bags), weights in the held-out loss; columns sum to one
    sizes: Float32Array  # (n_bags,): rows that the training side represents

    def take(self, some: IntArray) -> TrainingRows:
        """Return some of the rows, whose weights sum to one again on both sides of every bag."""
        training, validation = self.training[some], self.validation[some]
        shares, held_out = (totals(side).astype(np.float32) for side in (training, validation))
        return TrainingRows(
            y=self.y[some],
            offset=self.offset[some],
            training=training / shares,
            validation=validation / held_out,
            sizes=self.sizes * shares,
        )


def in_lanes(offset: Float32Array, n_lanes: int) -> Float32Array:
    """Offsets (n, 1) as they are, and offsets (n, K) of the outputs for all lanes (n, n_lanes)."""
    n_columns = offset.shape[1]
    return offset if n_columns == 1 else np.tile(offset, n_lanes // n_columns)


def distinct_rows(
    keys: KeyArray,
    targets: FloatArray,
    weights: FloatArray | None,
    groups: IntArray | None = None,
    shelf: Shelf = MEMORY,
    held_out: FloatArray | None = None,
) -> DistinctRows:
    """Merge rows of one group that agree in all features and targets; drop rows of weight zero.

    ``targets`` has shape (n_targets, n_rows); by default each row has weight one. ``groups``
    (n_rows,) are those of the user; by default rows with equal features are a group. Arrays as long
    as the table are kept on the shelf. Rows with a mass in ``held_out`` (n_rows,) have no weight,
    and are merged among themselves.
    """
    masses = np.broadcast_to(1.0, len(keys)) if weights is None else weights
    if held_out is not None:
        masses, targets = masses + held_out, np.vstack([targets, held_out > 0])
    group_keys = keys if groups is None else scrambled(groups.astype(np.uint64) + np.uint64(1))
    further = [masses, *targets] if groups is None else [masses, *targets, keys]
    order = shelf.keep(_in_order(group_keys, further))  # fixes all sums
    key, target = shelf.keep(keys[order]), shelf.keep(targets[:, order])
    group = key if groups is None else shelf.keep(group_keys[order])
    new_group = np.r_[True, group[1:] != group[:-1]]
    is_other = (key[1:] != key[:-1]) | (target[:, 1:] != target[:, :-1]).any(0)
    starts = shelf.keep(np.flatnonzero(new_group | np.r_[True, is_other]))
    merged, n_rows, aside = shelf.keep(np.add.reduceat(masses[order], starts)), len(order), None
    if held_out is not None:
        is_aside = target[-1, starts] > 0
        aside, merged = np.where(is_aside, merged, 0.0), np.where(is_aside, 0.0, merged)
        aside, n_rows = aside / aside.sum(), n_rows - int(target[-1].sum())
    return DistinctRows(
        rows=shelf.keep(order[starts]),
        weights=shelf.keep(merged / merged.sum()),
        groups=shelf.keep((np.cumsum(new_group) - 1)[starts]),
        group_keys=shelf.keep(group[starts]),
        keys=shelf.keep(scrambled(key[starts] + row_keys(target[:, starts], len(starts)))),
        size=_size(merged, n_rows),
        are_named=groups is not None,
        held_out=aside,
    )


def _in_order(keys: KeyArray, further: Sequence[FloatArray]) -> IntArray:
    """Sort rows by their keys; rows with equal keys by the last of ``further``, and so on.

    The first of ``further`` are the masses; rows without mass are left out.
    """
    rows = np.flatnonzero(further[0] > 0)
    order: IntArray = rows[np.argsort(keys[rows])]
    in_order = keys[order]
    same = in_order[1:] == in_order[:-1]
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    some = order[tied]
    order[tied] = some[np.lexsort((some, *(values[some] for values in further), keys[some]))]
    return order


def _size(merged: FloatArray, n_rows: int) -> float:
    """Count the rows that integer weights represent, in units of their common divisor."""
    counts = whole_counts(merged)
    return float(n_rows if counts is None else counts.sum())


def draw_bags(
    distinct: DistinctRows,
    n_bags: int,
    validation_fraction: float,
    seed: int,
    n_threads: int | None = None,
    shelf: Shelf = MEMORY,
) -> tuple[Float32Array, Float32Array, Float32Array]:
    """Training and held-out weights of every row in every bag, (n, n_bags), and the bag sizes.

    A bag holds out random units until they carry ``validation_fraction`` of the mass. A unit is a
    group of rows with equal features or, if the group is heavy, a single distinct row. A unit that
    is heavy by itself, or has a common target of a heavy group, is not drawn: its mass is divided
    between the two sides in that proportion. So are all units if there are too few to draw from.
    Groups that the user named are units that are never divided. Where the user passed the rows to
    hold out, every bag trains on all others.
    """
    if distinct.held_out is not None:
        sides = distinct.weights, distinct.held_out
        lanes = (np.repeat(side.astype(np.float32)[:, None], n_bags, 1) for side in sides)
        training, validation = map(shelf.keep, lanes)
        return training, validation, np.full(n_bags, distinct.size, np.float32)
    units, keys, divided = _units(distinct, validation_fraction, shelf)
    mass = shelf.keep(np.bincount(units, distinct.weights))
    light = shelf.keep(np.flatnonzero(~divided))
    training, validation = (shelf.empty((len(units), n_bags), np.float32) for _ in range(2))
    sizes = np.empty(n_bags, np.float32)

    def draw(bag: int) -> None:
        salt = scrambled(scrambled(np.array([seed], np.uint64) + np.uint64(1)) + np.uint64(bag))
        drawn = _drawn(shelf.keep(scrambled(keys[light] ^ salt)), mass[light], validation_fraction)
        held_out = np.where(divided, validation_fraction, 0.0)
        held_out[light[drawn]] = 1.0
        share = held_out[units]
        left = distinct.weights * share
        validation[:, bag] = np.divide(left, left.sum(), out=left)
        np.subtract(1, share, out=share)
        kept = np.multiply(distinct.weights, share, out=share)
        sizes[bag] = distinct.size * kept.sum()
        training[:, bag] = np.divide(kept, kept.sum(), out=kept)

    with Workers(1 if shelf.is_on_disk else n_threads) as workers:  # memory for one bag
        workers.map(draw, range(n_bags))
    return training, validation, sizes


def _drawn(keys: KeyArray, mass: FloatArray, share: float) -> IntArray:
    """Return the first units by their keys that carry a share of the mass: at least one, not all.

    ``keys`` and ``mass`` have shape (n_units,). Only unequal masses need all keys in order.
    """
    if (mass == mass[:1]).all():
        most = int((np.cumsum(mass) <= share * mass.sum()).sum())
        count = max(min(max(most, 1), len(keys) - 1), 0)
        return np.argpartition(keys, count)[:count] if count else np.zeros(0, np.intp)
    order = np.argsort(keys)
    in_order = mass[order]
    limit = share * in_order.sum()
    most = int((np.cumsum(in_order, out=in_order) <= limit).sum())
    return order[: min(max(most, 1), len(order) - 1)]


def _units(
    distinct: DistinctRows, validation_fraction: float, shelf: Shelf
) -> tuple[IntArray, KeyArray, BoolArray]:
    """Return the unit of every row (n,), and for every unit its key and whether it is divided."""
    if distinct.are_named:
        firsts = np.unique(distinct.groups, return_index=True)[1]
        return distinct.groups, distinct.group_keys[firsts], np.zeros(len(firsts), bool)
    limit = min(HEAVY_ROWS / len(distinct.rows), HEAVY_SHARE)
    group_mass = shelf.keep(np.bincount(distinct.groups, distinct.weights)[distinct.groups])
    heavy = group_mass > limit
    first = np.r_[True, distinct.groups[1:] != distinct.groups[:-1]]
    starts = shelf.keep(np.flatnonzero(first | heavy))
    units = shelf.keep(np.cumsum(first | heavy) - 1)
    mass = np.bincount(units, distinct.weights)
    common = heavy[starts] & (mass > COMMON_TARGET_SHARE * group_mass[starts])
    divided = (mass > limit) | common
    if (~divided).sum() * validation_fraction < 1:
        divided[:] = True
    keys = np.where(heavy, distinct.keys, distinct.group_keys)
    return units, shelf.keep(keys[starts]), divided
