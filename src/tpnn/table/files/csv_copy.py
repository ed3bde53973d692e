"""copy_of_csv: CSV files become Parquet files, a block of lines at a time.

All files are read twice: all of its values decide what a column holds, then they are written.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tpnn.table.files.paths import (
    check_unchanged,
    find_files,
    find_remote,
    import_arrow,
    is_csv,
    is_hidden,
    of_one_kind,
    states_of,
    unreadable,
)

HEAD_BYTES = 1 << 20  # in which the header must end
BLOCK_BYTES = 1 << 24  # in memory at a time, and some copies of it
SEPARATORS = ",;\t|"
MISSING = ("", "#N/A", "#NA", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null")


def copy_of_csv(path: str) -> str | None:
    """Folder of Parquet files with the rows of CSV files; None where a path stands for others."""
    store, files = csv_files(path)
    if not files:
        return None
    arrow, _ = import_arrow()
    from pyarrow import parquet

    before, types = states_of(store, files), _types(store, files)
    folder = tempfile.mkdtemp(prefix="tpnn-csv-")
    try:
        for file, target in zip(files, _targets(folder, files), strict=True):
            target.parent.mkdir(parents=True)
            schema = arrow.schema([(name, types[name]) for name in _header(store, file)[0]])
            with parquet.ParquetWriter(target, schema) as writer:
                for batch in _batches(store, file):
                    columns = [_cast(batch.column(k), field.type) for k, field in enumerate(schema)]
                    writer.write_table(arrow.Table.from_arrays(columns, schema=schema))
        check_unchanged(states_of(store, files), before)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def _targets(folder: str, files: list[str]) -> list[Path]:
    """Place the copies in the order of the files, each in the folders that are columns."""
    base = os.path.commonpath([os.path.dirname(file) for file in files])
    inside = [Path(os.path.relpath(file, base)).parts[:-1] for file in files]
    columns = [[part for part in parts if "=" in part] for parts in inside]
    return [Path(folder, f"{k:09d}", *parts, "rows.parquet") for k, parts in enumerate(columns)]


def csv_files(path: str) -> tuple[Any, list[str]]:
    """Store and CSV files of a path; no files where it stands for others."""
    if "://" not in path:
        found = find_files(path)
        if not all(map(is_csv, found)):
            return None, []
        import_arrow()
        from pyarrow import fs

        return fs.LocalFileSystem(), found
    store, place = find_remote(path)
    from pyarrow import fs

    if isinstance(place, str):
        if store.get_file_info(place).type == fs.FileType.Directory:
            inside = store.get_file_info(fs.FileSelector(place, recursive=True))
            files = [Path(file.path) for file in inside if file.is_file]
            seen = [file for file in files if not is_hidden(file.relative_to(place))]
            place = sorted(of_one_kind([file.as_posix() for file in seen]))
        else:
            place = [place]
    return store, place if all(map(is_csv, place)) else []


def _types(store: Any, files: list[str]) -> dict[str, Any]:
    """Type of every column: the first that all of its values in all files can be read as."""
    arrow, _ = import_arrow()
    times = [arrow.timestamp("us"), arrow.timestamp("us", "UTC")]
    every = [arrow.int64(), arrow.float64(), arrow.bool_(), *times]
    possible: dict[str, list[Any]] = {}
    for file in files:
        for name in _header(store, file)[0]:
            possible.setdefault(name, every)
        for batch in _batches(store, file):
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                possible[name] = [kind for kind in possible[name] if _can_be(column, kind)]
    return {name: (kinds or [arrow.string()])[0] for name, kinds in possible.items()}


def _can_be(column: Any, kind: Any) -> bool:
    arrow, _ = import_arrow()
    try:
        _cast(column, kind)
    except arrow.ArrowInvalid:
        return False
    return True


def _cast(column: Any, kind: Any) -> Any:
    """Text as values of a type; blanks beside a value do not count unless it is text itself."""
    from pyarrow import compute, types

    if types.is_string(kind):
        return column
    return compute.cast(compute.utf8_trim_whitespace(column), kind)


def _header(store: Any, file: str) -> tuple[list[str], str]:
    """Names of the columns of a file, and its separator: the one that makes most of them."""
    with store.open_input_stream(file) as stream:
        text = stream.read(HEAD_BYTES).decode("utf-8-sig", "replace")
    rows = [next(csv.reader(io.StringIO(text), delimiter=mark), []) for mark in SEPARATORS]
    names = max(rows, key=len)
    if len(set(names)) < len(names) or not names:
        raise ValueError(
            f"X: a CSV file needs a first line with a different name for each column, found "
            f"{names[:10]} in {file!r}. Correct the line."
        )
    return names, SEPARATORS[rows.index(names)]


def _batches(store: Any, file: str) -> Iterator[Any]:
    """Yield the rows of a file as text, some megabytes at a time."""
    arrow, _ = import_arrow()
    from pyarrow import csv as reader

    names, separator = _header(store, file)
    try:
        with (
            store.open_input_stream(file) as stream,
            reader.open_csv(
                stream,
                reader.ReadOptions(block_size=BLOCK_BYTES),
                reader.ParseOptions(delimiter=separator, newlines_in_values=True),
                reader.ConvertOptions(
                    column_types=dict.fromkeys(names, arrow.string()),
                    null_values=MISSING,
                    strings_can_be_null=True,
                ),
            ) as batches,
        ):
            yield from batches
    except (arrow.ArrowException, OSError) as error:
        raise unreadable(file, error) from error
