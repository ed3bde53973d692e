"""Source: rows in files, read some at a time."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

from tpnn.table.files.files import (
    check_schemas,
    dataset_at,
    import_arrow,
    kind_of,
    name_of,
    unreadable,
)

ROWS_PER_BATCH = 1 << 17
N_BATCHES_AHEAD = 4  # read before they are needed
BYTES_PER_VALUE = 20  # of a table in memory during a fit: the value, and codes
BYTES_PER_TEXT = 80
BYTES_PER_ROW = 400  # of a fit besides: keys, weights in all bags, slopes

UNNAMED_INDEX = re.compile(r"__index_level_\d+__$")  # as pandas calls it in its files

FileState = tuple[str, int, int | None]  # path, size, and time of the last change


class Source:
    """Rows in files.

    Parameters
    ----------
    given : path or pyarrow.dataset.Dataset
        A Parquet file, a folder of them, a pattern such as ``"data/*.parquet"``, or a dataset,
        which may have a filter.

    Attributes
    ----------
    dataset : pyarrow.dataset.Dataset
        The rows.
    words : str
        What messages call it.
    """

    def __init__(self, given: Any) -> None:
        is_path = isinstance(given, str | os.PathLike)
        self.words = repr(os.fspath(given)) if is_path else "the dataset"
        self.dataset = dataset_at(os.fspath(given)) if is_path else given
        if not is_path:
            check_schemas(self.fragments, self.names)
        if self.n_rows == 0:
            raise ValueError(
                f"X: rows are needed, found none in {self.words}. Check the path, and the filter "
                "if it has one."
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns; the index that pandas wrote is none if it has no name."""
        return tuple(name for name in self.dataset.schema.names if not UNNAMED_INDEX.match(name))

    @cached_property
    def fragments(self) -> list[Any]:
        """Return the files; none where a filter hides them."""
        try:
            return list(self.dataset.get_fragments())
        except ValueError:
            return []

    @cached_property
    def n_rows(self) -> int:
        """Number of rows; of Parquet files it is known without reading them."""
        with self._explained(()):
            return int(self.dataset.count_rows())

    def state(self) -> tuple[FileState, ...]:
        """Size and age of every file, by which a change is noticed; empty where nobody knows."""
        files = getattr(self.dataset, "files", ())
        if not files:
            return ()
        found = self.dataset.filesystem.get_file_info(list(files))
        return tuple((file.path, file.size, file.mtime_ns) for file in found)

    def batches(self, names: Sequence[str], fragment: Any = None) -> Iterator[Any]:
        """Yield the rows of some columns in their order, some thousand at a time.

        They are all rows, or those of one of the ``fragments``.
        """
        options = {"columns": list(names), "batch_size": ROWS_PER_BATCH}
        ahead = {"batch_readahead": N_BATCHES_AHEAD, "fragment_readahead": 1}
        with self._explained(names):
            if fragment is None:
                scanner = self.dataset.scanner(**options, **ahead)
            else:
                scanner = fragment.scanner(self.dataset.schema, **options, **ahead)
            yield from scanner.to_batches()

    def tables(self, names: Sequence[str] | None, fragment: Any = None) -> Iterator[Any]:
        """Yield tables of Arrow with some rows each; of all columns, or of those in ``names``."""
        arrow, _ = import_arrow()
        chosen = [name for name in self.names if names is None or name in names]
        for batch in self.batches(chosen, fragment):
            if batch.num_rows:
                yield arrow.Table.from_batches([batch])

    def read(self, names: Sequence[str]) -> Any:
        """Table of Arrow with all rows of some columns."""
        with self._explained(names):
            return self.dataset.to_table(columns=list(names))

    def memory_bytes(self, names: Sequence[str]) -> float:
        """Estimate the memory of a fit to some columns if the table is read as a whole."""
        kinds = [kind_of(self.dataset.schema.field(name).type) for name in names]
        each = [BYTES_PER_TEXT if kind == "text" else BYTES_PER_VALUE for kind in kinds]
        return float(self.n_rows * (BYTES_PER_ROW + sum(each)))

    def _explained(self, names: Sequence[str]) -> _Explained:
        return _Explained(self, names)

    def damaged(self, names: Sequence[str], error: Exception) -> ValueError:
        """Find the file and the column that cannot be read."""
        arrow, _ = import_arrow()
        for fragment in self.fragments:
            for name in names:
                try:
                    for _ in fragment.to_batches(columns=[name], schema=self.dataset.schema):
                        pass
                except (arrow.ArrowException, OSError) as found:
                    return unreadable(name_of(fragment), found, name)
        return unreadable(self.words, error)


class _Explained:
    """Context in which an error of Arrow becomes one that names the file and the column."""

    def __init__(self, source: Source, names: Sequence[str]) -> None:
        self.source, self.names = source, names

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        arrow, _ = import_arrow()
        if isinstance(error, arrow.ArrowException | OSError):
            raise self.source.damaged(self.names, error) from error
