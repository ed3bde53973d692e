"""fingerprint: a short text that tells whether two training tables are the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn._utils.compile import compiled
from tpnn.loss.row_values import refuse_masked
from tpnn.solvers.problem.rows import scrambled
from tpnn.table.columns import array_of
from tpnn.table.encoder import of_rows
from tpnn.table.table import Column, Table, read_column

ZERO_BITS, MISSING_BITS = np.array([0.0, np.nan]).view(np.uint64)


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
    rows = RowSums(X if isinstance(X, Table) else Table(X))
    return rows.digest(target_columns(y))


class RowSums:
    """One number for each row of a table, a sum over its columns, to which others can be added."""

    def __init__(self, table: Table) -> None:
        self.sums: NDArray[np.uint64] = of_rows(table, _row_sums)

    def digest(self, further: Iterable[tuple[str, Column]]) -> str:
        """Return the fingerprint of the table with further columns, whatever the order of rows."""
        sums = self.sums.copy()
        _add_columns(sums, further)
        in_order = np.sort(scrambled(sums))
        return hashlib.sha256(in_order.astype("<u8").tobytes()).hexdigest()


def _row_sums(table: Table, rows: IntArray | None, n_threads: int | None) -> NDArray[np.uint64]:
    sums = np.zeros(table.n_rows, np.uint64)
    _add_columns(sums, _columns_of(table))
    return sums


def column_sum(name: str, column: Column) -> int:
    """Digest of a column that does not depend on the order of rows, a sum modulo 2^64.

    The sums of the parts of a column add up to the sum of the column.
    """
    sums = np.zeros(len(column.values), np.uint64)
    _add_columns(sums, [(name, column)])
    return int(sums.sum())


def _add_columns(sums: NDArray[np.uint64], columns: Iterable[tuple[str, Column]]) -> None:
    for name, column in columns:
        numbers = _numbers(column)
        assert len(numbers) == len(sums)  # what is compiled reads past the end
        _add(sums, numbers, np.uint64(_text_bits(name)))


def _columns_of(table: Table) -> Iterator[tuple[str, Column]]:
    """Yield all columns with their names, also the column of an offset."""
    for feature in range(table.n_features):
        yield f"X {table.name(feature)}", table.column(feature)
    if table.offset_column is not None:
        name, place, _ = table.offset_column
        yield f"X {f'x{place}' if name is None else name}", table.read_offset_column()


def target_columns(y: Any) -> Iterator[tuple[str, Column]]:
    """Yield the targets, numbered: their names are no part of the rows."""
    refuse_masked("y", y)
    array = array_of(y)
    fields = [array[name] for name in array.dtype.names or ()]
    targets = fields or list(array.T if array.ndim == 2 else [array])
    for number, target in enumerate(targets):
        yield f"y {number}", read_column(target, "y")


@compiled()
def _add(keys: Any, numbers: Any, salt: Any) -> None:
    """Add the scrambled bits of each row's number to its key; there is one NaN and one zero."""
    bits = numbers.view(np.uint64)
    for i in range(len(keys)):
        value = bits[i]
        if np.isnan(numbers[i]):
            value = MISSING_BITS
        elif numbers[i] == 0.0:
            value = ZERO_BITS
        keys[i] += scrambled(value ^ salt)  # wraps around


def _numbers(column: Column) -> FloatArray:
    """Return a number for each row: its value, or one for the label of its level."""
    if not column.levels:
        return np.ascontiguousarray(column.values)
    labels = np.array([*map(_label_number, column.levels), np.nan])
    present = ~np.isnan(column.values)
    return labels[np.where(present, column.values, len(labels) - 1).astype(np.intp)]


def _label_number(level: Any) -> float:
    if not isinstance(level, str):
        return float(level)
    bits = np.array([_text_bits(level)], np.uint64)
    return float((scrambled(bits) >> np.uint64(2)).view(np.float64)[0])  # finite and not negative


def _text_bits(text: str) -> int:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "little")
