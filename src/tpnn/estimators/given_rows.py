"""GivenRows: the rows that ``fit`` gets, those of X and, if there are any, those of X_val."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn._utils.rules import warn
from tpnn.estimators.inputs import memory_for_tables, targets_of
from tpnn.solvers.problem.rows import Targets
from tpnn.table.columns import StoredColumns, array_of, is_in_files
from tpnn.table.encoder import TableEncoder
from tpnn.table.files.reading import read_training
from tpnn.table.table import JoinedTable, Table

Read = TypeVar("Read")


@dataclass(frozen=True, kw_only=True)
class GivenRows:
    """Arguments of ``fit`` with a value for each row.

    Weights, offsets and groups are those of the rows of X and then of X_val.
    """

    tables: tuple[Any, ...]  # X and, if it was passed, X_val
    targets: tuple[Any, ...]  # y and y_val, as the user passed them
    sample_weight: Any
    offset: Any
    groups: Any

    @classmethod
    def read(
        cls,
        X: Any,
        y: Any,
        sample_weight: Any,
        offset: Any,
        groups: Any,
        X_val: Any = None,
        y_val: Any = None,
    ) -> Self:
        """Read what is in files, by the names of its columns."""
        if X_val is None and y_val is not None:
            raise ValueError("X_val: is needed with y_val, found None. Pass both, or neither.")
        memory = memory_for_tables()
        table, target, weights, names = read_training(X, y, sample_weight, groups, memory)
        alone = cls(
            tables=(table,), targets=(target,), sample_weight=weights, offset=offset, groups=names
        )
        if X_val is None:
            return alone
        if is_in_files(X) != is_in_files(X_val):
            raise TypeError(
                "X_val: must be in files if X is, and in memory if X is, found "
                f"{type(X_val).__name__} beside {type(X).__name__}. Read or write one of the two."
            )
        if not is_in_files(X_val):
            if y_val is None:
                raise ValueError("y_val: is needed with X_val, found None. Pass its targets.")
            return replace(alone, tables=(table, X_val), targets=(target, y_val))
        y_val = y if y_val is None else y_val
        others = read_training(X_val, y_val, sample_weight, groups, memory)
        if isinstance(others[0], StoredColumns):
            raise ValueError(
                f"X_val: must fit into memory, found {others[0].shape[0]:,} rows in files. Pass "
                "fewer rows: some ten thousand are enough."
            )
        return replace(
            alone,
            tables=(table, others[0]),
            targets=(target, others[1]),
            sample_weight=_joined(weights, others[2]),
            groups=_joined(names, others[3]),
        )

    @cached_property
    def lengths(self) -> list[int]:
        """Number of targets of each table."""
        return [len(np.atleast_1d(array_of(target))) for target in self.targets]

    @property
    def n_rows(self) -> int:
        """Number of rows of X; those of X_val follow."""
        return self.lengths[0]

    def checked(self, check: Callable[[Any], Read]) -> list[Read]:
        """Targets of each table, checked and read by a function."""
        found = [check(self.targets[0])]
        for target in self.targets[1:]:
            try:
                found.append(check(target))
            except ValueError as error:
                raise ValueError(str(error).replace("y:", "y_val:", 1)) from error
        self._check_lengths()
        return found

    def _check_lengths(self) -> None:
        """Refuse weights, offsets and groups of the rows of X alone where there is X_val."""
        for argument in ("sample_weight", "offset", "groups") if len(self.tables) > 1 else ():
            values = getattr(self, argument)
            if values is not None and np.ndim(values) and len(values) != sum(self.lengths):
                one, other = self.lengths
                raise ValueError(
                    f"{argument}: with X_val, a value is needed for each row of X and then of "
                    f"X_val, {one} and {other}, found {len(values)}. Pass for example "
                    f"np.concatenate([{argument}, that of X_val])."
                )

    def weighted(self, y: FloatArray, weights: FloatArray | None) -> Targets:
        """Targets of all rows (n_rows, T); those of X_val are held out of every bag."""
        targets = targets_of(y, weights, self.offset, self.groups)
        return targets if len(self.tables) == 1 else _split(targets, self.n_rows)


def _joined(one: Any, other: Any) -> Any:
    return None if one is None else np.concatenate([one, other])


def _split(targets: Targets, n_rows: int) -> Targets:
    """Take the mass of all but the first rows from the fit: they are held out of every bag."""
    masses = np.ones(len(targets.y)) if targets.weights is None else targets.weights
    is_held_out = np.arange(len(masses)) >= n_rows
    weights, held_out = np.where(is_held_out, 0.0, masses), np.where(is_held_out, masses, 0.0)
    for argument, values in {"X": weights, "X_val": held_out}.items():
        if not values.any():
            raise ValueError(
                f"sample_weight: a row of {argument} must have a positive weight, found only "
                "zeros. Correct them."
            )
    if targets.groups is not None:
        _check_groups(targets.groups[~is_held_out], targets.groups[is_held_out])
    return replace(targets, weights=weights, held_out=held_out)


def _check_groups(training: IntArray, held_out: IntArray) -> None:
    shared = np.intersect1d(training, held_out)
    if len(shared):
        raise ValueError(
            f"groups: no group may have rows in X and in X_val, found {len(shared)} that have, so "
            "that held-out rows would not be new. Move each group to one side."
        )


def with_known_values(table: Table, targets: Targets, encoder: TableEncoder) -> Targets:
    """Leave out held-out rows with levels or missing values that have no node; a warning counts."""
    if targets.held_out is None or not isinstance(table, JoinedTable):
        return targets
    axes, first = encoder.axes[min(encoder.axes)], table.first.n_rows
    unknown = np.zeros(table.second.n_rows, bool)
    for feature, axis in enumerate(axes):
        numbers: FloatArray = encoder.numbers(table, feature)[first:]
        unknown |= np.isnan(numbers) & (not axis.has_missing)
        unknown |= np.isinf(numbers) & (not axis.has_unseen)
    if not unknown.any():
        return targets
    held_out = targets.held_out.copy()
    held_out[first:][unknown] = 0.0
    found = f"{unknown.sum()} of {len(unknown)} rows"
    if not held_out.any():
        raise ValueError(
            "X_val: rows are needed whose levels are in X, and missing values only where X has "
            f"some, found a new one in {found}. Pass other rows, or leave X_val out."
        )
    warn(
        f"X_val: rows with levels, or missing values in a column, that X does not have decide "
        f"nothing, found {found}."
    )
    return replace(targets, held_out=held_out)


def first_table(table: Table) -> Table:
    """Return the table without the rows of X_val."""
    return table.first if isinstance(table, JoinedTable) else table
