"""Files: a path, a folder or a pattern becomes one dataset, whose files agree in their columns."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SUFFIXES = (".parquet", ".pq")
HIDDEN = (".", "_")  # how names begin of what is no data, such as _SUCCESS


def dataset_at(path: str) -> Any:
    """Dataset of pyarrow of all Parquet files at a path, which may be a folder or a pattern.

    Folders with names such as ``year=2024`` are a column. A column of whole numbers in one file and
    of any numbers in another is one of any numbers.
    """
    arrow, datasets = import_arrow()
    files = path if "://" in path else find_files(path)
    by_folder = datasets.partitioning(flavor="hive")

    def opened(schema: Any = None) -> Any:
        return datasets.dataset(files, schema, format="parquet", partitioning=by_folder)

    try:
        dataset = opened()
    except (arrow.ArrowException, OSError) as error:  # from the first file, which was looked at
        raise unreadable(path if files is path else files[0], error) from error
    schemas = check_schemas(list(dataset.get_fragments()), None)
    return opened(arrow.unify_schemas([dataset.schema, *schemas], promote_options="permissive"))


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


def find_files(path: str) -> list[str]:
    """Parquet files at a path of this machine, sorted by name.

    A folder stands for all Parquet files in it and in its folders; a pattern has ``*``, ``?`` or
    ``[]``, and ``**`` for any folders.
    """
    if os.path.isfile(path):
        return [path]
    if os.path.isdir(path):
        inside = [file for file in Path(path).rglob("*") if file.suffix.lower() in SUFFIXES]
        files = [str(file) for file in inside if not _is_hidden(file.relative_to(path))]
    else:
        files = [file for file in glob.glob(path, recursive=True) if os.path.isfile(file)]
    if not files:
        raise ValueError(
            f"X: Parquet files are needed, found none at {path!r}. Check the path, and that the "
            f"names of the files end with {' or '.join(SUFFIXES)}."
        )
    return sorted(files)


def _is_hidden(file: Path) -> bool:
    return any(part.startswith(HIDDEN) for part in file.parts)


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
        if len({kind_of(known) for known in types} - {"nothing"}) > 1:
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


def unreadable(file: str, error: Exception, column: str = "") -> ValueError:
    """Return the error that says which file, and which column of it, cannot be read."""
    where = f" in column {column!r}" if column else ""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return ValueError(
        f"X: every file must be readable, found {file!r} damaged or of another format{where} "
        f"({reason}). Write it again, or leave it out."
    )
