"""Paths: the files that a path, a folder, a pattern or an address stands for."""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SUFFIXES = (".parquet", ".pq")
CSV_SUFFIXES = (".csv", ".csv.gz", ".csv.bz2", ".csv.zst")
HIDDEN = (".", "_")  # beginnings of the names of files without data, such as _SUCCESS

FileState = tuple[str, int, int | None]  # path, size, and time of the last change


def import_arrow() -> tuple[Any, Any]:
    """Return pyarrow and its datasets, which only tables in files need."""
    try:
        import pyarrow
        import pyarrow.dataset
    except ImportError as error:
        raise ImportError(
            f'X: tables in files are read by pyarrow ({error}). Run: pip install "tpnn[data]", or '
            "pass a table in memory."
        ) from error
    return pyarrow, pyarrow.dataset


def find_remote(address: str) -> tuple[Any, str | list[str]]:
    """Store of an address such as ``s3://bucket/table/``, and the path or files in it."""
    arrow, _ = import_arrow()
    from pyarrow import fs

    folder, pattern = _without_pattern(address)
    try:
        store, path = _store_of(folder)
        is_there = store.get_file_info(path).type != fs.FileType.NotFound
        if pattern is not None and is_there:
            inside = store.get_file_info(fs.FileSelector(path, recursive=True))
            wanted = f"{path.rstrip('/')}/{pattern}"
            files = [file.path for file in inside if file.is_file]
            matching = sorted(file for file in files if _matches(file, wanted))
    except (arrow.ArrowException, OSError, ImportError, ValueError) as error:
        raise ValueError(
            f"X: the store of {address!r} cannot be reached ({_reason(error)}). Check the address, "
            "the network and the credentials, or copy the files to this machine."
        ) from error
    if not is_there or (pattern is not None and not matching):
        raise ValueError(f"X: there is nothing at {address!r}. Check the address.")
    return store, path if pattern is None else matching


def _without_pattern(address: str) -> tuple[str, str | None]:
    """Split the address of a pattern into a folder without one and the rest, else None.

    >>> _without_pattern("s3://bucket/table/*.parquet?region=eu")
    ('s3://bucket/table?region=eu', '*.parquet')
    """
    place, mark, options = address.partition("?")
    scheme, _, path = place.partition("://")
    parts = path.split("/")
    first = next((n for n, part in enumerate(parts) if any(c in part for c in "*[")), None)
    if first is None:
        return address, None
    return f"{scheme}://{'/'.join(parts[:first])}{mark}{options}", "/".join(parts[first:])


def _matches(path: str, pattern: str) -> bool:
    """Whether a path matches a pattern, in which ``*`` stays within a folder and ``**`` does not.

    >>> _matches("a/b.pq", "a/*.pq"), _matches("a/c/b.pq", "a/*.pq"), _matches("a/b", "a/**/b")
    (True, False, True)
    """
    parts, wanted = path.split("/"), pattern.split("/")
    if wanted[0] == "**":
        rest = "/".join(wanted[1:])
        return any(_matches("/".join(parts[n:]), rest) for n in range(len(parts)))
    is_first = fnmatch.fnmatchcase(parts[0], wanted[0])
    if len(parts) == 1 or len(wanted) == 1:
        return is_first and len(parts) == len(wanted)
    return is_first and _matches("/".join(parts[1:]), "/".join(wanted[1:]))


def _store_of(address: str) -> tuple[Any, str]:
    """Store and path of an address; those that pyarrow does not know are left to fsspec."""
    arrow, _ = import_arrow()
    from pyarrow import fs

    try:
        store, path = fs.FileSystem.from_uri(address)
        return store, str(path)
    except arrow.ArrowInvalid:
        import fsspec

        store, path = fsspec.core.url_to_fs(address)
        return fs.PyFileSystem(fs.FSSpecHandler(store)), str(path)


def find_files(path: str) -> list[str]:
    """Files at a path of this machine, sorted by name.

    A folder stands for all Parquet files in it and in its folders or, if there are none, for all
    CSV files; a pattern has ``*``, ``?`` or ``[]``, and ``**`` for any folders.
    """
    if os.path.isfile(path):
        return [path]
    if os.path.isdir(path):
        inside = [file for file in Path(path).rglob("*") if not is_hidden(file.relative_to(path))]
        files = of_one_kind([str(file) for file in inside if file.is_file()])
    else:
        files = [file for file in glob.glob(path, recursive=True) if os.path.isfile(file)]
    if not files:
        raise ValueError(
            f"X: there are no Parquet or CSV files at {path!r}. Check the path, and that the names "
            f"of the files end with {', '.join(SUFFIXES)} or .csv."
        )
    return sorted(files)


def is_hidden(file: Path) -> bool:
    """Whether a file, relative to the folder that was passed, is without data by its name."""
    return any(part.startswith(HIDDEN) for part in file.parts)


def of_one_kind(files: list[str]) -> list[str]:
    """Those of some files that are Parquet or, if none is, those that are CSV."""
    parquet = [file for file in files if file.lower().endswith(SUFFIXES)]
    return parquet or [file for file in files if is_csv(file)]


def is_csv(file: str) -> bool:
    """Whether a file is CSV, by its name."""
    return file.lower().endswith(CSV_SUFFIXES)


def states_of(store: Any, files: list[str]) -> tuple[FileState, ...]:
    """Size and age of every file, by which a change is noticed."""
    return tuple((f.path, f.size, f.mtime_ns) for f in store.get_file_info(files))


def changed(what: str) -> ValueError:
    """Return the error that says what changed."""
    return ValueError(
        f"X: the files must not change during a fit, found {what}. Fit again when nothing "
        "writes to them."
    )


def check_unchanged(now: Iterable[FileState], before: Iterable[FileState]) -> None:
    """Refuse files whose size or age has changed since the first look."""
    differ = set(now) ^ set(before)
    if differ:
        raise changed(f"{min(file[0] for file in differ)!r} changed")


def unreadable(file: str, error: Exception, column: str = "") -> ValueError:
    """Return the error that says which file, and which column of it, cannot be read."""
    where = f" in column {column!r}" if column else ""
    return ValueError(
        f"X: every file must be readable, found {file!r} damaged or of another format{where} "
        f"({_reason(error)}). Write it again, or leave it out."
    )


def _reason(error: Exception) -> str:
    """First line of an error, or its type."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
