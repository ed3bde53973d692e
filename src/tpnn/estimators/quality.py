"""Quality: columns of a training table that deserve a second look, named once.

They are constant, nearly empty, copies of each other, identifiers, or say by themselves nearly all
that the target is. None of them is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn._utils.rules import warn
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Event
from tpnn.table.axis import Axis
from tpnn.table.encoder import Feature, TableEncoder, remote_table
from tpnn.table.table import NUMBER, Table

NEARLY_EMPTY = 0.99  # share of missing values
FEWEST_ROWS = 50  # from which on a number may be a row's name, and a column a leak
LEAK, MOST_SAID = 0.99, 99.99  # share of the variance of the target; most that is said of it, in %
FEWEST_GAPS, RELATED = 0.05, 0.3  # share of the rows, and correlation, from which gaps matter
ROWS_OF_GAPS, MOST_INDICATORS, MOST_NAMED = 5_000, 5, 5
MOST_ROWS = 50_000  # on which leaks are sought; rows are sorted by a random key


def gaps_event(problem: Problem) -> list[Event]:
    """Warn where effects that are read would be those of other columns with gaps."""
    words = list(_related_gaps(problem))
    if not words:
        return []
    more = f"; and {len(words) - MOST_NAMED} more" if len(words) > MOST_NAMED else ""
    warn(
        f"X: missing values bias the effects of columns that depend on each other; found that "
        f"{'; '.join(words[:MOST_NAMED])}{more}. Predictions are right. For effects of the "
        'complete table pass missing="impute".'
    )
    return [Event(stage="table", note=text, seconds=0.0) for text in words]


def _related_gaps(problem: Problem) -> Iterator[str]:
    """Name columns with gaps, and the column to which each is most closely related.

    Numbers count by their order, and levels by indicators of the most frequent ones.
    """
    codes, axes = problem.codes.by_order[1][:, :ROWS_OF_GAPS], problem.encoder.axes[1]
    names, gaps = problem.encoder.feature_names, [axis.weights[axis.missing].sum() for axis in axes]
    if max(gaps) < FEWEST_GAPS or codes.shape[1] < FEWEST_ROWS or problem.base is not None:
        return
    columns, masks, owners = list[FloatArray](), list[FloatArray](), list[int]()
    for j, axis in enumerate(axes):
        here = codes[j].astype(np.float64)
        present = ~np.isin(here, np.arange(axis.n_nodes)[axis.missing])
        numbers = [here]
        if axis.is_nominal:
            frequent = np.argsort(-axis.weights[axis.regular], kind="stable")[:MOST_INDICATORS]
            numbers = [(here == level).astype(np.float64) for level in frequent]
        for x in numbers if present.any() else ():
            columns.append(np.where(present, x - x.mean(where=present), 0.0))
            masks.append(present.astype(np.float64))
            owners.append(j)
    x, mask, owner = np.transpose(columns), np.transpose(masks), np.array(owners)
    for j in (j for j in set(owners) if gaps[j] >= FEWEST_GAPS):
        related = _correlations(x, mask, np.flatnonzero(owner == j)) * (owner != j)
        if related.max() >= RELATED:
            yield (
                f"{names[j]!r} is missing in {100 * gaps[j]:.3g} % of the rows and has a "
                f"correlation of {related.max():.2f} with {names[owner[related.argmax()]]!r}"
            )


def _correlations(x: FloatArray, mask: FloatArray, own: IntArray) -> FloatArray:
    """Return the largest correlation of some columns of x (n, k) with each, where both are seen."""
    one, seen = x[:, own], mask[:, own]
    counts, sums, others = seen.T @ mask, one.T @ mask, seen.T @ x
    with np.errstate(all="ignore"):
        product = one.T @ x - sums * others / counts
        squares = (one**2).T @ mask - sums**2 / counts, seen.T @ x**2 - others**2 / counts
        found = np.abs(product) / np.sqrt(squares[0] * squares[1])
    return np.asarray(np.where((counts >= FEWEST_ROWS) & (found <= 1.001), found, 0.0).max(0))


def quality_event(problem: Problem, table: Table, identifiers: Sequence[int]) -> list[Event]:
    """Warn of the columns that deserve a second look, and note them in the history."""
    words = [
        *_of_each(problem.encoder, table, identifiers),
        *_copies(problem.encoder, table),
        *_leaks(problem, identifiers),
    ]
    if not words:
        return []
    warn(
        f"X: look at these columns again: {'; '.join(words)}. They are used as they are. Leave out "
        "what says nothing about new rows."
    )
    return [Event(stage="table", note=text, seconds=0.0) for text in words]


def _of_each(encoder: TableEncoder, table: Table, identifiers: Sequence[int]) -> Iterator[str]:
    for j, (name, axis) in enumerate(zip(encoder.feature_names, encoder.axes[1], strict=True)):
        missing = float(axis.weights[axis.missing].sum())
        if j in identifiers:
            yield (
                f"{name!r} looks like an identifier, with {len(encoder.features[j].levels):,} "
                f"levels in {table.n_rows:,} rows (levels of a single row share one effect, and it "
                "has no interactions unless they are listed)"
            )
        elif _n_values(encoder.features[j], axis) + axis.has_missing == 1:
            yield f"{name!r} has one value"
        elif missing >= NEARLY_EMPTY:
            yield f"{name!r} is missing in {100 * missing:.3g} % of the rows"
        elif _counts_rows(encoder, table, j):
            yield f"{name!r} looks like the number of a row"


def _n_values(feature: Feature, axis: Axis) -> int:
    """Count distinct values, at most 2 of a column of numbers; nodes do not tell them.

    Rare levels share a node, and a period has a node at each end.
    """
    return len(feature.levels or set(feature.ends)) or len(axis.values)


def _counts_rows(encoder: TableEncoder, table: Table, feature: int) -> bool:
    """Whether a column has another whole number in every row, and leaves few numbers out."""
    kind, _, _, ends = encoder.features[feature]
    if kind != NUMBER or not ends or table.n_rows < FEWEST_ROWS or remote_table(table) is not None:
        return False
    spread = ends[1] - ends[0] + 1
    if not (all(end.is_integer() for end in ends) and table.n_rows <= spread < 2 * table.n_rows):
        return False
    numbers = encoder.numbers(table, feature)
    return len(np.unique(numbers)) == len(numbers) and not (numbers % 1).any()


def _copies(encoder: TableEncoder, table: Table) -> Iterator[str]:
    """Name columns that have the values of an earlier one in all rows."""
    alike: dict[tuple[bytes, ...], list[int]] = {}
    for j, (axis, feature) in enumerate(zip(encoder.axes[1], encoder.features, strict=True)):
        if axis.n_nodes > 1 and remote_table(table) is None:
            labels = repr((feature.kind, feature.levels)).encode()
            alike.setdefault((axis.values.tobytes(), axis.weights.tobytes(), labels), []).append(j)
    names, found = encoder.feature_names, set[int]()
    for first, second in (pair for group in alike.values() for pair in combinations(group, 2)):
        if not found.intersection((first, second)):
            one, two = (encoder.numbers(table, j) for j in (first, second))
            if np.array_equal(one, two, equal_nan=True):
                found.add(second)
                yield f"{names[second]!r} is a copy of {names[first]!r}"


def _leaks(problem: Problem, identifiers: Sequence[int]) -> Iterator[str]:
    """Name columns whose values, one by one, tell nearly all of the target."""
    encoder, rows = problem.encoder, slice(0, MOST_ROWS)
    y = problem.rows.y[rows].astype(np.float64)
    is_comparable = encoder.n_features > 1 and not problem.objective.couples_rows
    if len(y) < FEWEST_ROWS or not is_comparable or problem.has_offset or problem.base is not None:
        return
    codes = problem.codes.by_order[1]
    for j, name in enumerate(encoder.feature_names):
        share = 0.0 if j in identifiers else explained(codes[j, rows], y)
        if share >= LEAK:
            yield f"{name!r} alone explains {min(100 * share, MOST_SAID):.4g} % of the target"


def explained(codes: NDArray[Any], y: FloatArray) -> float:
    """Share of the variance of every target (n, T) that one feature explains, by Rice's estimate.

    Half the mean square of the differences between neighbours is the variance of what is left.

    >>> x = np.repeat(np.arange(50), 4)
    >>> explained(x, x[:, None] + np.tile([0.0, 2.0], 100)[:, None]) > 0.99
    True
    """
    total = y.var(axis=0)
    rest = (np.diff(y[np.argsort(codes, kind="stable")], axis=0) ** 2).mean(axis=0) / 2
    return float(np.min(1 - np.divide(rest, total, out=np.ones_like(total), where=total > 0)))
