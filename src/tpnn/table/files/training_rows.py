"""read_training: the table, the targets and the weights of a fit to rows in files."""

from __future__ import annotations

import tempfile
from itertools import chain
from typing import Any

from tpnn._utils.shelf import MEMORY, Shelf
from tpnn.table.columns import is_in_files
from tpnn.table.files.reading import SourceColumns, current_reader
from tpnn.table.files.source import Source, name_of


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
    is_small, reader = source.memory_bytes(source.names) <= memory, current_reader()
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
