"""StoredColumns: a table in files, whose columns are read one at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

from tpnn._utils.arrays import CodeArray, IntArray
from tpnn._utils.shelf import Shelf


class Elsewhere(Protocol):
    """Whoever makes passes over a stored table in place of this process; tables are ``Table``s."""

    @property
    def is_there(self) -> bool:
        """Whether passes can be made there at present."""

    def by_column(self, table: Any, work: Callable[..., Any]) -> list[Any]:
        """Results of ``work(table, feature, reading)`` for all features."""

    def of_rows(self, table: Any, work: Callable[..., Any], rows: IntArray | None) -> Any:
        """Array of ``work(table, rows, n_threads)``, put together from parts of the table."""

    def codes(self, table: Any, encoder: Any, rows: IntArray) -> dict[int, CodeArray]:
        """Nearest nodes of the given rows at each order, (n_features, len(rows))."""


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
    elsewhere : Elsewhere, optional
        Who makes passes over all rows, if not this process.

    Attributes
    ----------
    shape : tuple of int
        Number of rows and of columns.
    """

    def __init__(
        self,
        columns: tuple[str, ...],
        n_rows: int,
        shelf: Shelf,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self.columns, self.shelf, self.elsewhere = columns, shelf, elsewhere
        self.shape = (n_rows, len(columns))

    @abstractmethod
    def __getitem__(self, name: str) -> Any:
        """Column of a name, as an array or an Arrow column."""
