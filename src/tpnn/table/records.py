"""Records and columns: tables that are dicts, or lists of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_of_dicts(X: Any) -> bool:
    """Whether X is a dict, or a list of dicts.

    >>> is_of_dicts({"age": 3}), is_of_dicts([{"age": 3}]), is_of_dicts([[3]]), is_of_dicts([])
    (True, True, False, False)
    """
    if isinstance(X, Mapping):
        return not hasattr(X, "toarray")  # a sparse matrix may be a dict of its entries
    return isinstance(X, list | tuple) and len(X) > 0 and isinstance(X[0], Mapping)


def frame_of_dicts(X: Any) -> Records | Columns:
    """Return a table of records, or of columns where a dict holds arrays."""
    if not isinstance(X, Mapping):
        return Records(X)
    if X and all(isinstance(values, np.ndarray) and values.ndim == 1 for values in X.values()):
        return Columns(X)
    return Records([X])


class Columns:
    """A dict from the names of columns to arrays of one length.

    Parameters
    ----------
    columns : dict from str to array of shape (n_rows,)
        The columns.

    Attributes
    ----------
    columns : tuple of str
        Their names.
    shape : tuple of int
        Number of rows and of columns.
    """

    def __init__(self, columns: Mapping[str, NDArray[Any]]) -> None:
        lengths = {len(values) for values in columns.values()}
        if len(lengths) > 1:
            raise ValueError(
                f"X: the columns of a dict must have one length, found {sorted(lengths)[:5]}. "
                "Pass arrays of the same length."
            )
        _check_keys(columns)
        self._columns = columns
        self.columns = tuple(columns)
        self.shape = (lengths.pop(), len(columns))

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._columns[name]


class Records:
    """A list of records, read column by column.

    A column that is asked for must be a key of every record; a missing value is None. So the
    prediction of a record does not depend on the other ones, and a misspelt key is noticed. Keys
    that nobody asks for may be anywhere.

    Parameters
    ----------
    rows : sequence of dict
        The records.

    Attributes
    ----------
    columns : tuple of str
        All keys, in the order in which they appear.
    shape : tuple of int
        Number of records, and of keys.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        for number, row in enumerate(rows):
            if not isinstance(row, Mapping):
                raise TypeError(
                    f"X: every record must be a dict, found {type(row).__name__} in row {number}. "
                    "Pass dicts from column names to values, or no dict at all."
                )
        self._rows = rows
        self.columns = tuple(dict.fromkeys(chain.from_iterable(rows)))
        self.shape = (len(rows), len(self.columns))
        _check_keys(self.columns)

    def __getitem__(self, name: str) -> NDArray[Any]:
        lacking = [number for number, row in enumerate(self._rows) if name not in row]
        if lacking:
            raise ValueError(
                f"X: every record must have the key {name!r}, found {len(lacking)} of "
                f"{len(self._rows)} records without it, the first in row {lacking[0]}. Pass None "
                "where the value is missing."
            )
        return np.fromiter((_plain(row[name]) for row in self._rows), object, len(self._rows))


def _plain(value: Any) -> Any:
    """Value as Python has it.

    >>> _plain(np.datetime64("2020-01-01", "ns")), _plain(np.True_), _plain("text")
    (datetime.datetime(2020, 1, 1, 0, 0), True, 'text')
    """
    if not isinstance(value, np.generic):
        return value
    is_time = value.dtype.kind in "mM"
    return value.astype(f"{value.dtype.kind}8[us]").item() if is_time else value.item()


def _check_keys(names: Iterable[Any]) -> None:
    odd = [key for key in names if not isinstance(key, str)]
    if odd:
        raise TypeError(
            f"X: the keys of dicts must be strings, found {odd[0]!r} of type "
            f"{type(odd[0]).__name__}. Rename the keys."
        )
