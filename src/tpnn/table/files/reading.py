"""read_training: the table, the targets and the weights of a fit to rows in files.

Columns of a table larger than memory are read one at a time, and lines on the screen say how far.
"""

from __future__ import annotations

import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn._utils.compile import announcer
from tpnn._utils.shelf import MEMORY, Shelf
from tpnn.table.columns import RemoteTable, StoredColumns, is_in_files
from tpnn.table.files.paths import changed, check_unchanged, import_arrow
from tpnn.table.files.source import Source, kind_of, name_of

SECONDS_BETWEEN_LINES = 5.0


class Telling:
    """Says every few seconds how much of the ``total`` work is done and how long the rest takes."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._began = self._last = time.monotonic()

    def tell(self, words: str, done: int) -> None:
        """Say where the work is, and the remaining time, unless the last line is too recent."""
        now = time.monotonic()
        if now - self._last >= SECONDS_BETWEEN_LINES:
            self._last = now
            announcer().tell(f"{words}, about {self.seconds_left(done, now):.0f} s left.")

    def seconds_left(self, done: int, now: float) -> float:
        """Estimate the remaining time from the time that the work took so far."""
        return (now - self._began) * (self.total / max(done, 1) - 1)


Reader = Callable[[Source], RemoteTable | None]  # None for a source that others cannot read

_READER: ContextVar[Reader | None] = ContextVar("reader", default=None)


@contextmanager
def using_reader(reader: Reader) -> Iterator[None]:
    """Let other processes read the tables of fits in this thread, while in the context."""
    token = _READER.set(reader)
    try:
        yield
    finally:
        _READER.reset(token)


MOST_EXACT_BITS = 32  # doubles hold every whole number of as many bits


class SourceColumns(StoredColumns):
    """Some columns of a source.

    A fit reads every column a few times: for its nodes, for the keys of the rows, for their codes.
    Each time the files, the number of rows and the values must be the same as the first time.
    """

    def __init__(
        self,
        source: Source,
        columns: Sequence[str],
        shelf: Shelf,
        remote: RemoteTable | None = None,
    ) -> None:
        super().__init__(tuple(columns), source.n_rows, shelf, remote)
        self.source = source
        self._state, self._sums = source.state(), dict[str, int]()
        self._reading = Reading(source.n_rows, len(columns))

    def __getitem__(self, name: str) -> Any:
        """Column as an array of doubles if they hold it exactly, else as a column of Arrow."""
        self._reading.begin(name)
        self.check_files()  # a file that changed may not be readable any more
        as_doubles = _fits_doubles(self.source.dataset.schema.field(name).type)
        column, n_rows = self._doubles(name) if as_doubles else self._arrow(name)
        self.check_files()
        total = checksum(column)
        if n_rows != self.shape[0] or total != self._sums.setdefault(name, total):
            raise self.changed(
                f"column {name!r} of {self.source.words} changed ({n_rows} rows read, "
                f"{self.shape[0]} before)"
            )
        return column

    def _doubles(self, name: str) -> tuple[FloatArray, int]:
        """Column as doubles, and the number of rows that were read."""
        values, start = np.empty(self.shape[0]), 0
        for batch in self.source.batches([name]):
            numbers = batch.column(0).to_numpy(zero_copy_only=False)
            room = values[start : start + len(numbers)]
            room[:] = numbers[: len(room)]
            start += len(numbers)
            self._reading.tell(start)
        return values, start

    def _arrow(self, name: str) -> tuple[Any, int]:
        """Column as Arrow has it, text as levels, and the number of rows that were read."""
        arrow, _ = import_arrow()
        chunks: list[Any] = []
        n_rows = 0
        for batch in self.source.batches([name]):
            chunk = batch.column(0)
            chunks.append(chunk.dictionary_encode() if kind_of(chunk.type) == "text" else chunk)
            n_rows += len(chunk)
            self._reading.tell(n_rows)
        column = arrow.chunked_array(chunks)
        is_levels = arrow.types.is_dictionary(column.type)
        return column.unify_dictionaries() if is_levels else column, n_rows

    def check_files(self) -> None:
        """Refuse files whose size or age has changed since the first look."""
        check_unchanged(self.source.state(), self._state)

    changed = staticmethod(changed)


def _fits_doubles(arrow_type: Any) -> bool:
    from pyarrow import types

    is_small = types.is_integer(arrow_type) and arrow_type.bit_width <= MOST_EXACT_BITS
    return bool(is_small or types.is_floating(arrow_type))


def checksum(column: Any) -> int:
    """Return a number that tells whether a column is the same, in the same order.

    Of an Arrow column that is neither numbers nor times nor levels only the length counts.
    """
    if isinstance(column, np.ndarray):
        return zlib.crc32(np.ascontiguousarray(column).data)
    total = len(column)
    for chunk in column.chunks:
        values = getattr(chunk, "indices", chunk).to_numpy(zero_copy_only=False)
        if values.dtype.kind in "biufmM":
            total = zlib.crc32(np.ascontiguousarray(values).tobytes(), total)
    return total


class Reading:
    """Counts the rows that are read in passes over the columns of a table, and says so."""

    def __init__(self, n_rows: int, n_columns: int) -> None:
        self.n_rows, self.n_columns = n_rows, n_columns
        self._reads: Counter[str] = Counter()

    def begin(self, name: str) -> None:
        """Begin with a column; the clock starts with the first column of a pass."""
        self._reads[name] += 1
        self.number = self._reads[name]
        self.n_begun = sum(count >= self.number for count in self._reads.values())
        if self.n_begun == 1:
            self._telling = Telling(self.n_rows * self.n_columns)

    def tell(self, n_read: int) -> None:
        """Say how many rows of the column are read, and how long the rest of the pass takes."""
        done = (self.n_begun - 1) * self.n_rows + n_read
        self._telling.tell(self.words(n_read), done)

    def words(self, n_read: int) -> str:
        """Say where a pass is.

        >>> reading = Reading(n_rows=1_000, n_columns=4)
        >>> reading.begin("a")
        >>> reading.words(500)
        'Reading the table, pass 1: column 1 of 4, 500 of 1,000 rows'
        """
        return (
            f"Reading the table, pass {self.number}: column {self.n_begun} of {self.n_columns}, "
            f"{n_read:,} of {self.n_rows:,} rows"
        )


def read_training(
    X: Any, y: Any, sample_weight: Any, groups: Any, memory: float
) -> tuple[Any, Any, Any, Any]:
    """Read targets, weights and groups by the names of their columns if the table is in files.

    The table is read as a whole if a fit to it needs no more than ``memory`` bytes. Otherwise, or
    if other processes can read it, its columns stay in the files. Arguments in memory are returned
    as they are.
    """
    if not is_in_files(X):
        return X, y, sample_weight, groups
    source = Source(X)
    optional = {"sample_weight": sample_weight, "groups": groups}
    named = {
        argument: _checked_names(argument, value, source)
        for argument, value in {"y": y, **optional}.items()
        if argument == "y" or value is not None
    }
    others = list(dict.fromkeys(chain.from_iterable(named.values())))
    features = [name for name in source.names if name not in others]
    if not features:
        raise ValueError(
            f"X: a feature is needed besides the target, and {source.words} has only "
            f"{list(source.names)}. Write files with more columns."
        )
    table: Any
    is_small, reader = source.memory_bytes(source.names) <= memory, _READER.get()
    remote = None if reader is None else reader(source)
    if is_small and remote is None:
        whole = source.read(source.names)
        table, columns = whole.select(features), whole.select(others)
    else:
        shelf = MEMORY if is_small else Shelf(tempfile.gettempdir())
        table = SourceColumns(source, features, shelf, remote)
        columns = source.read(others)
    for argument, names in named.items():
        for name in names:
            _check_present(argument, name, columns.column(name), source)
    frame = columns.to_pandas(split_blocks=True)
    targets = frame[y] if isinstance(y, str) else frame[list(y)]
    weights, grouped = (frame[named[name][0]] if name in named else None for name in optional)
    return table, targets, weights, grouped


def _checked_names(argument: str, value: Any, source: Source) -> list[str]:
    """Names of columns in the value of an argument: one, or for targets several."""
    names = [value] if isinstance(value, str) else value
    is_list = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    if not is_list or not names:
        raise TypeError(
            f"{argument}: for a table in files the name of a column is needed, found "
            f"{type(value).__name__}. Pass {argument}='its name', or pass a table in memory."
        )
    for name in names:
        if name not in source.names:
            raise ValueError(
                f"{argument}: must be a column of {source.words}, found {name!r}. The columns are "
                f"{list(source.names)[:10]}."
            )
    return list(names)


def _check_present(argument: str, name: str, column: Any, source: Source) -> None:
    """Refuse missing values of a target or a weight."""
    n_missing = _n_missing(column)
    if not n_missing:
        return
    files = [name_of(file) for file in source.fragments if _n_missing(_column(file, name, source))]
    where = f", the first in {files[0]!r}" if files else ""
    raise ValueError(
        f"{argument}: every row needs a value, found {n_missing} of {len(column)} missing in "
        f"column {name!r}{where}. Leave those rows out, for example with "
        f"dataset.filter(pyarrow.dataset.field({name!r}).is_valid())."
    )


def _n_missing(column: Any) -> int:
    from pyarrow import compute

    return int(compute.sum(compute.is_null(column, nan_is_null=True)).as_py() or 0)


def _column(fragment: Any, name: str, source: Source) -> Any:
    return fragment.to_table(columns=[name], schema=source.dataset.schema).column(0)
