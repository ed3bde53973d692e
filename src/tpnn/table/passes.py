"""Passes over a table: by column or by row, by this process or by whoever reads in its place.

What is done in a pass is written once, as a function of a table. It can be sent to other processes,
which do it with the columns or the rows that they read.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from typing import Any, TypeVar

from numpy.typing import NDArray

from tpnn._utils.arrays import IntArray
from tpnn._utils.threads import Workers
from tpnn.table.frame import Table
from tpnn.table.stored import Elsewhere, StoredColumns

Result = TypeVar("Result")
Reading = AbstractContextManager[Any]


def elsewhere(table: Table) -> Elsewhere | None:
    """Return who makes passes over a table, or None if this process does."""
    other = table.source.elsewhere if isinstance(table.source, StoredColumns) else None
    return other if other is not None and other.is_there else None


def one_reader(table: Table) -> Reading:
    """Return what a thread enters while it reads a column: a lock, unless all may read at once."""
    return nullcontext() if table.is_read_in_parallel else Lock()


def by_column(
    table: Table, work: Callable[[Table, int, Reading], Result], n_threads: int | None = None
) -> list[Result]:
    """Results of ``work(table, feature, reading)`` for all features.

    Threads do the work; each enters ``reading`` while it reads its column.
    """
    other = elsewhere(table)
    if other is not None:
        return other.by_column(table, work)
    reading = one_reader(table)
    with Workers(n_threads) as workers:
        return workers.map(lambda number: work(table, number, reading), range(table.n_features))


def of_rows(
    table: Table,
    work: Callable[[Table, IntArray | None, int | None], NDArray[Any]],
    rows: IntArray | None = None,
    n_threads: int | None = None,
) -> NDArray[Any]:
    """Array of ``work(table, rows, n_threads)``, whose first axis is that of the rows.

    What is computed for a row must not depend on the rows beside it. Without ``rows``, they are all
    rows of the table.
    """
    other = elsewhere(table)
    return work(table, rows, n_threads) if other is None else other.of_rows(table, work, rows)
