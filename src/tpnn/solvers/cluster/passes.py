"""ReadByWorkers: passes over a table in files, each by all workers of a cluster.

A worker reads whole columns, or a range of the rows. It applies a function to them and returns the
result: the nodes of a column, or a number for each row. Codes stay in the storage. So the driver
reads nothing but targets and weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from threading import Lock
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import CodeArray, IntArray
from tpnn._utils.shelf import Shelf
from tpnn.solvers.cluster.storage import (
    Range,
    Storage,
    codes_folder,
    dealt,
    has_codes,
    in_ranges,
    ranges,
    read_codes,
    write_codes,
)
from tpnn.solvers.problem.fingerprint import column_sum
from tpnn.table.codes import code_rows
from tpnn.table.encoder import TableEncoder
from tpnn.table.files.paths import import_arrow
from tpnn.table.files.reading import SourceColumns
from tpnn.table.files.source import Source
from tpnn.table.table import OffsetColumn, Table, read_column


class RowGroup(NamedTuple):
    """A row group: the fragment of its file, its number there, and its rows in the source."""

    fragment: Any
    number: int
    first: int
    last: int


def row_groups(source: Source) -> list[RowGroup] | None:
    """All row groups of a source in order; None if it is not a dataset of whole Parquet files."""
    _, datasets = import_arrow()
    if not isinstance(source.dataset, datasets.FileSystemDataset):
        return None
    groups, first = list[RowGroup](), 0
    for fragment in source.fragments:
        if not isinstance(fragment, datasets.ParquetFileFragment):
            return None
        for group in fragment.row_groups:
            groups.append(RowGroup(fragment, group.id, first, first + group.num_rows))
            first += group.num_rows
    return groups if first == source.n_rows else None


class SourcePart(Source):
    """Rows of a source from ``first`` to the one before ``last``; other machines can read it."""

    def __init__(self, source: Source, groups: Sequence[RowGroup], first: int, last: int) -> None:
        _, datasets = import_arrow()
        inside = [group for group in groups if group.first < last and group.last > first]
        files = groupby(inside, key=lambda group: id(group.fragment))
        fragments = [_subset(list(of_file)) for _, of_file in files]
        whole = source.dataset
        self.words, self.n_rows = source.words, last - first
        self.dataset = datasets.FileSystemDataset(
            fragments, whole.schema, whole.format, whole.filesystem
        )
        self._n_skipped = first - inside[0].first  # rows of its first row group

    def batches(self, names: Sequence[str], fragment: Any = None) -> Iterator[Any]:
        """Yield the rows of some columns in their order, some thousand at a time."""
        n_skipped, n_left = self._n_skipped, self.n_rows
        for batch in super().batches(names, fragment):
            start = min(n_skipped, len(batch))
            rows = batch.slice(start, n_left)
            n_skipped -= start
            n_left -= len(rows)
            if len(rows):
                yield rows


def _subset(groups: Sequence[RowGroup]) -> Any:
    """Fragment with some row groups of one file."""
    return groups[0].fragment.subset(row_group_ids=[group.number for group in groups])


class Read(NamedTuple):
    """Result of a pass, and a digest of each column that it has read."""

    result: Any
    sums: Mapping[str, int]


@dataclass(frozen=True)
class Pass:
    """The part of a table that a worker reads, and the function to apply to it."""

    source: SourcePart
    columns: tuple[str, ...]  # names of the features, and of the offset column
    offset: OffsetColumn | None
    work: Callable[[Table], Any]

    def run(self, shelf: Shelf) -> Read:
        """Read and work in this process."""
        columns = SummedColumns(self.source, self.columns, shelf)
        table = Table(columns)
        if self.offset is not None:
            table = table.set_aside(self.offset.place, self.offset.is_exposure)
        return Read(self.work(table), columns.sums)


class SummedColumns(SourceColumns):
    """Columns of a part of a source, with digests that show whether a file has changed."""

    def __init__(self, source: SourcePart, columns: Sequence[str], shelf: Shelf) -> None:
        super().__init__(source, columns, shelf)
        self.sums: dict[str, int] = {}

    def __getitem__(self, name: str) -> Any:
        column = super().__getitem__(name)
        if name not in self.sums:
            self.sums[name] = column_sum(name, read_column(column, name))
        return column


class Readers(Protocol):
    """Workers that read parts of a table."""

    size: int  # number of workers
    is_open: bool

    def read(self, passes: Sequence[Pass]) -> list[Read]:
        """Let each worker, or the first few, read."""


class ReadByWorkers:
    """Lets the workers of a team make the passes over one source."""

    def __init__(
        self,
        source: Source,
        groups: Sequence[Any],  # row groups of the source
        storage: Storage,  # where codes are kept
        team: Readers,
    ) -> None:
        self.source, self.storage, self.team = source, storage, team
        self._blocks = dealt(ranges(source.n_rows, team.size), team.size)
        self.bounds = [(blocks[0][0], blocks[-1][1]) for blocks in self._blocks]
        self._parts = [SourcePart(source, groups, *bounds) for bounds in self.bounds]
        self._whole = SourcePart(source, groups, 0, source.n_rows)
        self._sums: dict[str, int] = {}  # of the columns, as they were first read

    @property
    def is_there(self) -> bool:
        """Whether the workers are there."""
        return self.team.is_open

    def by_column(self, table: Table, work: Callable[..., Any]) -> list[Any]:
        """Results of ``work(table, feature, reading)``; every worker reads one column at a time."""
        asked = [
            self._pass(table, self._whole, partial(_of_column, work, feature))
            for feature in range(table.n_features)
        ]
        results = list[Any]()
        for start in range(0, len(asked), self.team.size):
            read = self._read(table, asked[start : start + self.team.size])
            self._check(table, [one.sums for one in read])
            results += [one.result for one in read]
        return results

    def of_rows(
        self, table: Table, work: Callable[..., Any], rows: IntArray | None
    ) -> NDArray[Any]:
        """Array of ``work(table, rows, n_threads)``; every worker reads its range of the rows."""
        if rows is None:
            read = self._by_part(table, len(self._parts) * [partial(_of_rows, work, None)])
            return np.concatenate([one.result for one in read])
        owned = list(in_ranges(rows, self.bounds, self.source.n_rows))
        read = self._by_part(table, [partial(_of_rows, work, inside) for inside, _ in owned])
        first = read[0].result
        values = table.shelf.empty((len(rows), *first.shape[1:]), first.dtype)
        for (_, places), one in zip(owned, read, strict=True):
            values[places] = one.result
        return values

    def codes(self, table: Table, encoder: TableEncoder, rows: IntArray) -> dict[int, CodeArray]:
        """Nearest nodes of the given rows, in their order; workers write those of all rows."""
        folder = codes_folder(encoder)
        blocks = [block for some in self._blocks for block in some]
        if not all(has_codes(self.storage, folder, block) for block in blocks):
            self.storage.sign()
            work = partial(_write_codes, self.storage, folder, encoder)
            self._by_part(table, [partial(work, some) for some in self._blocks])
        owned = in_ranges(rows, blocks, self.source.n_rows)
        codes: dict[int, CodeArray] = {}
        for block, (inside, places) in zip(blocks, owned, strict=True):
            for order, part in read_codes(self.storage, folder, block, encoder.axes).items():
                if order not in codes:
                    codes[order] = table.shelf.empty((len(part), len(rows)), part.dtype)
                for feature, nodes in enumerate(part):
                    codes[order][feature, places] = nodes[inside]
        return codes

    def _pass(self, table: Table, part: SourcePart, work: Callable[[Table], Any]) -> Pass:
        return Pass(part, table.source.columns, table.offset_column, work)

    def _by_part(self, table: Table, works: Iterable[Callable[[Table], Any]]) -> list[Read]:
        """Let every worker do its work with its range of the rows."""
        parts = zip(self._parts, works, strict=True)
        read = self._read(table, [self._pass(table, part, work) for part, work in parts])
        names = read[0].sums
        self._check(table, [{n: sum(one.sums[n] for one in read) % 2**64 for n in names}])
        return read

    def _read(self, table: Table, passes: Sequence[Pass]) -> list[Read]:
        table.source.check_files()
        read = self.team.read(passes)
        table.source.check_files()
        return read

    def _check(self, table: Table, sums: Iterable[Mapping[str, int]]) -> None:
        """Refuse columns whose values are not those of an earlier pass."""
        for name, value in (item for by_name in sums for item in by_name.items()):
            if self._sums.setdefault(name, value) != value:
                raise table.source.changed(f"column {name!r} of {self.source.words} changed")


def read_by(storage: Storage, team: Readers, source: Source) -> ReadByWorkers | None:
    """Let a team read a source; None if it has no row groups, such as a dataset with a filter."""
    groups = row_groups(source)
    return None if groups is None else ReadByWorkers(source, groups, storage, team)


def _of_column(work: Callable[..., Any], feature: int, table: Table) -> Any:
    return work(table, feature, Lock())


def _of_rows(work: Callable[..., Any], rows: IntArray | None, table: Table) -> Any:
    return work(table, rows, 1)


def _write_codes(
    storage: Storage,
    folder: str,
    encoder: TableEncoder,
    blocks: Sequence[Range],
    table: Table,
) -> None:
    """Code all rows of a table, and write them in blocks."""
    codes = code_rows(table, encoder, np.arange(table.n_rows), n_threads=1)
    start = blocks[0][0]
    for block in blocks:
        some = slice(block[0] - start, block[1] - start)
        write_codes(storage, folder, block, {d: part[:, some] for d, part in codes.items()})
