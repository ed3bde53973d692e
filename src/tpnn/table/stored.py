"""StoredColumns: a table in files, whose columns are read one at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from tpnn._shelf import Shelf


class StoredColumns(ABC):
    """A table that is not in memory; a column is read from files whenever it is asked for.

    Parameters
    ----------
    columns : tuple of str
        Names of the columns.
    n_rows : int
        Number of rows.
    shelf : Shelf
        Where large arrays that are made of the columns are kept.

    Attributes
    ----------
    shape : tuple of int
        Number of rows and of columns.
    """

    def __init__(self, columns: tuple[str, ...], n_rows: int, shelf: Shelf) -> None:
        self.columns, self.shelf = columns, shelf
        self.shape = (n_rows, len(columns))

    @abstractmethod
    def __getitem__(self, name: str) -> Any:
        """Column of a name, as an array or an Arrow column."""
