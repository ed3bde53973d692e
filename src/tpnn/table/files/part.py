"""SourcePart: some consecutive rows of Parquet files, of which only their row groups are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from tpnn.table.files.source import Source, import_arrow


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
