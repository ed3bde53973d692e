"""Source: a path, a folder or a pattern becomes one dataset, whose files agree in their columns."""

from __future__ import annotations

import os
import re
import shutil
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from tpnn.table.files.csv_copy import copy_of_csv
from tpnn.table.files.paths import (
    FileState,
    find_files,
    find_remote,
    import_arrow,
    states_of,
    unreadable,
)


def dataset_at(path: str) -> Any:
    """Dataset of pyarrow of all Parquet files at a path, which may be a folder or a pattern.

    Folders with names such as ``year=2024`` are a column. A column of whole numbers in one file and
    of any numbers in another is one of any numbers.
    """
    arrow, datasets = import_arrow()
    store, files = find_remote(path) if "://" in path else (None, find_files(path))
    by_folder = datasets.partitioning(flavor="hive")

    def opened(schema: Any = None) -> Any:
        return datasets.dataset(files, schema, "parquet", store, partitioning=by_folder)

    try:
        dataset = opened()
    except (arrow.ArrowException, OSError) as error:  # from the first file, which was looked at
        raise unreadable(files[0] if store is None else path, error) from error
    schemas = check_schemas(list(dataset.get_fragments()), None)
    return opened(arrow.unify_schemas([dataset.schema, *schemas], promote_options="permissive"))


def check_schemas(fragments: Sequence[Any], needed: Sequence[str] | None) -> list[Any]:
    """Schemas of all files; refuse files that differ in their columns or in what these hold.

    Where columns are ``needed``, other ones do not count.
    """
    files = [(name_of(fragment), _schema(fragment)) for fragment in fragments]
    for file in files[1:]:
        _check_columns(needed, files[0], file)
    return [schema for _, schema in files]


def _check_columns(
    needed: Sequence[str] | None, one: tuple[str, Any], other: tuple[str, Any]
) -> None:
    """Refuse two files, by name and schema, with different columns or kinds of values."""
    names = [set(schema.names) for _, schema in (one, other)]
    counted = names[0] | names[1] if needed is None else set(needed)
    for name in sorted((names[0] ^ names[1]) & counted):
        with_it, without = (one, other) if name in names[0] else (other, one)
        raise ValueError(
            f"X: every file must have the same columns, found {name!r} in {with_it[0]!r} but not "
            f"in {without[0]!r}. Write the files again with the same columns, or pass only files "
            "that agree."
        )
    for name in sorted(names[0] & counted):
        types = [schema.field(name).type for _, schema in (one, other)]
        if len({*map(kind_of, types)} - {"nothing"}) > 1:
            raise ValueError(
                f"X: a column must hold the same kind of values in every file, found {name!r} as "
                f"{types[0]} in {one[0]!r} and as {types[1]} in {other[0]!r}. Convert it in one of "
                "the two, and write that file again."
            )


def kind_of(arrow_type: Any) -> str:
    """Kind of values of a type of Arrow; types of one kind can be converted into each other."""
    from pyarrow import types

    if types.is_dictionary(arrow_type):
        return kind_of(arrow_type.value_type)
    kinds = {
        "nothing": types.is_null,
        "numbers": lambda t: types.is_integer(t) or types.is_floating(t) or types.is_decimal(t),
        "text": lambda t: types.is_string(t) or types.is_large_string(t) or types.is_string_view(t),
        "dates": lambda t: types.is_timestamp(t) or types.is_date(t),
    }
    return next((kind for kind, holds in kinds.items() if holds(arrow_type)), str(arrow_type))


def _schema(fragment: Any) -> Any:
    arrow, _ = import_arrow()
    try:
        return fragment.physical_schema
    except (arrow.ArrowException, OSError) as error:
        raise unreadable(name_of(fragment), error) from error


def name_of(fragment: Any) -> str:
    """Path of the file of a fragment of a dataset; some have none."""
    return getattr(fragment, "path", "") or "a part in memory"


ROWS_PER_BATCH = 1 << 17
N_BATCHES_AHEAD = 4  # read before they are needed
BYTES_PER_VALUE = 20  # of a table in memory during a fit: the value, and codes
BYTES_PER_TEXT = 80
BYTES_PER_ROW = 400  # of a fit besides: keys, weights in all bags, slopes

UNNAMED_INDEX = re.compile(r"__index_level_\d+__$")  # as pandas calls it in its files


class Source:
    """Rows in files.

    They are a Parquet file, a folder of them, a pattern such as ``"data/*.parquet"``, or a dataset
    of pyarrow, which may have a filter. CSV files are copied to Parquet files first, which vanish
    with the source; a change of theirs is noticed until then.
    """

    def __init__(self, rows: Any) -> None:
        is_path = isinstance(rows, str | os.PathLike)
        self.words = repr(os.fspath(rows)) if is_path else "the dataset"  # for messages
        self.copy = copy_of_csv(os.fspath(rows)) if is_path else None
        if self.copy is not None:
            weakref.finalize(self, shutil.rmtree, self.copy, ignore_errors=True)
        self.dataset = dataset_at(self.copy or os.fspath(rows)) if is_path else rows
        if not is_path:
            check_schemas(self.fragments, self.names)
        if self.n_rows == 0:
            raise ValueError(
                f"X: there are no rows in {self.words}. Check the path, and the filter if it has "
                "one."
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns, without the nameless index that pandas may have written."""
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
        """Size and age of every file, by which a change is noticed; empty for data not in files."""
        files = getattr(self.dataset, "files", ())
        if not files:
            return ()
        return states_of(self.dataset.filesystem, list(files))

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

    @contextmanager
    def _explained(self, names: Sequence[str]) -> Iterator[None]:
        """Context in which an error of Arrow becomes one that names the file and the column."""
        arrow, _ = import_arrow()
        try:
            yield
        except (arrow.ArrowException, OSError) as error:
            raise self.damaged(names, error) from error

    def damaged(self, names: Sequence[str], error: Exception) -> ValueError:
        """Find the file and the column that cannot be read."""
        arrow, _ = import_arrow()
        for fragment in self.fragments:
            for name in names:
                try:
                    for _ in fragment.to_batches(columns=[name], schema=self.dataset.schema):
                        pass
                except (arrow.ArrowException, OSError) as reason:
                    return unreadable(name_of(fragment), reason, name)
        return unreadable(self.words, error)
