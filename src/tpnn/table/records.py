"""Records: rows that are dicts from the names of columns to values, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_records(X: Any) -> bool:
    """Whether X is a record or a list of them.

    >>> is_records({"age": 3}), is_records([{"age": 3}]), is_records([[3]]), is_records([])
    (True, True, False, False)
    """
    if isinstance(X, Mapping):
        return True
    return isinstance(X, list | tuple) and len(X) > 0 and isinstance(X[0], Mapping)


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
        odd = [key for key in self.columns if not isinstance(key, str)]
        if odd:
            raise TypeError(
                f"X: the keys of records must be strings, found {odd[0]!r} of type "
                f"{type(odd[0]).__name__}. Rename the keys."
            )

    def __getitem__(self, name: str) -> NDArray[Any]:
        lacking = [number for number, row in enumerate(self._rows) if name not in row]
        if lacking:
            raise ValueError(
                f"X: every record must have the key {name!r}, found {len(lacking)} of "
                f"{len(self._rows)} records without it, the first in row {lacking[0]}. Pass None "
                "where the value is missing."
            )
        return np.fromiter((row[name] for row in self._rows), object, len(self._rows))
