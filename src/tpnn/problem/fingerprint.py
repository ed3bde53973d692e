"""fingerprint: a short text that tells whether two training tables are the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn.problem.bits import scrambled
from tpnn.problem.rows import KeyArray, float_bits
from tpnn.table.frame import Column, Table, read_column

MISSING_BITS = float_bits(np.array([np.nan]))[0]


def fingerprint(X: Any, y: Any) -> str:
    """Return 64 hexadecimal digits that are the same for the same training rows.

    They depend on the values and on the names of the columns, and neither on the order of the rows
    nor, where columns have names, on the order of the columns. A level counts as its label and a
    number as a double, whatever the type of the column. Equal fingerprints show that a table is the
    one of a fit, ``model_.provenance.fingerprint``, against mistakes and not against forgery.

    Parameters
    ----------
    X, y : table and targets
        As they are passed to ``fit``. Weights and an offset that are arrays are no part of it.

    Examples
    --------
    >>> X, y = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0, 1])
    >>> fingerprint(X, y) == fingerprint(X[::-1].tolist(), y[::-1])
    True
    >>> fingerprint(X, y) == fingerprint(X, y[::-1])
    False
    """
    table = X if isinstance(X, Table) else Table(X)
    keys = np.zeros(table.n_rows, np.uint64)
    for name, column in (*_columns_of(table), *_targets_of(y)):
        keys += scrambled(_bits(column) ^ np.uint64(_text_bits(name)))  # wraps around
    keys = np.sort(scrambled(keys))
    return hashlib.sha256(keys.astype("<u8").tobytes()).hexdigest()


def _columns_of(table: Table) -> Iterator[tuple[str, Column]]:
    """Yield all columns with their names, that of an offset among them."""
    for feature in range(table.n_features):
        yield f"X {table.name(feature)}", table.column(feature)
    if table.offset_column is not None:
        name, place, _ = table.offset_column
        yield f"X {f'x{place}' if name is None else name}", table.read_offset_column()


def _targets_of(y: Any) -> Iterator[tuple[str, Column]]:
    """Yield the targets, numbered: their names are no part of the rows."""
    array = np.asarray(y)
    fields = [array[name] for name in array.dtype.names or ()]
    targets = fields or list(array.T if array.ndim == 2 else [array])
    for number, target in enumerate(targets):
        yield f"y {number}", read_column(target, "y")


def _bits(column: Column) -> KeyArray:
    """64 bits for each row: those of a number, or of the label of a level."""
    if not column.levels:
        return float_bits(column.values)
    labels = [_label_bits(level) for level in column.levels]
    by_level: NDArray[np.uint64] = np.array([*labels, MISSING_BITS], np.uint64)
    present = ~np.isnan(column.values)
    return by_level[np.where(present, column.values, len(labels)).astype(np.intp)]


def _label_bits(level: Any) -> int:
    if isinstance(level, str):
        return _text_bits(level)
    return int(float_bits(np.array([float(level)]))[0])


def _text_bits(text: str) -> int:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "little")
