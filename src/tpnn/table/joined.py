"""JoinedTable: the rows of one table and, after them, those of another with the same columns."""

from __future__ import annotations

from copy import copy

import numpy as np

from tpnn.table.table import DATE, NOMINAL, NUMBER, ORDERED, Column, Table


class JoinedTable(Table):
    """Rows of two tables, of which the first says what the columns are.

    Columns are found by name or, without names, by position. A column that one table holds as
    numbers and the other as text is an error, as it is between fit and predict. The two may be of
    different libraries.
    """

    def __init__(self, first: Table, second: Table) -> None:
        vars(self).update(vars(copy(first)))
        self.first, self.second = first, second
        self.n_rows = first.n_rows + second.n_rows
        self._matrix = None
        self._labelled, self._as_levels, self._checked = {}, {}, set()

    @classmethod
    def of(cls, first: Table, second: Table) -> JoinedTable:
        """Join X and X_val, whose columns may be in another order."""
        if first.names is not None and second.names is not None:
            missing = [name for name in first.names if name not in second.names]
            if missing:
                raise ValueError(
                    f"X_val: the columns of X are needed, found no columns {missing[:5]}. Pass a "
                    "table with those names."
                )
            second = second.reorder(first.names)
        if first.n_features != second.n_features:
            raise ValueError(
                f"X_val: as many columns as in X are needed, {first.n_features}, found "
                f"{second.n_features}. Pass a table with the same columns."
            )
        return cls(first, second)

    @property
    def is_read_in_parallel(self) -> bool:
        """Whether threads may read columns at the same time."""
        return self.first.is_read_in_parallel and self.second.is_read_in_parallel

    def column(self, feature: int) -> Column:
        """Column of a feature in both tables."""
        if feature in self._labelled:
            return self._labelled[feature]
        joined = self._joined(self.first.column(feature), self.second.column(feature), feature)
        if joined.levels and not self.is_stored:
            self._labelled[feature] = joined
        return joined

    def levels(self, feature: int) -> Column:
        """Column of a feature with numbers as levels, in both tables."""
        if self.column(feature).kind != NUMBER:
            return self.column(feature)
        return self._joined(self.first.levels(feature), self.second.levels(feature), feature)

    def read_offset_column(self) -> Column:
        """Column that was set aside, in both tables."""
        one, other = (table.read_offset_column() for table in (self.first, self.second))
        return self._joined(one, other, None)

    def set_aside(self, place: int, is_exposure: bool) -> Table:
        """Rows of both tables, in which a column is no feature but the offset of each row."""
        return JoinedTable(*(t.set_aside(place, is_exposure) for t in (self.first, self.second)))

    def pick(self, places: tuple[int, ...]) -> Table:
        """Rows of both tables with the features at some positions only."""
        return JoinedTable(self.first.pick(places), self.second.pick(places))

    def _joined(self, one: Column, other: Column, feature: int | None) -> Column:
        """Values of one column and then of the other, whose levels get the numbers of the first."""
        if np.isnan(other.values).all():
            return one._replace(values=np.append(one.values, other.values))
        if np.isnan(one.values).all():
            return other._replace(values=np.append(one.values, other.values))
        if {one.kind, other.kind} not in ({one.kind}, {ORDERED, NOMINAL}):
            words = "the column of the offset" if feature is None else repr(self.name(feature))
            kinds = {kind: f"{kind}s" for kind in (NUMBER, DATE)}
            raise TypeError(
                f"X_val: column {words} must hold what it holds in X, "
                f"{kinds.get(one.kind, one.kind)}, found {kinds.get(other.kind, other.kind)}. "
                "Convert it."
            )
        if not one.levels:
            return one._replace(values=np.append(one.values, other.values))
        numbers = {level: float(number) for number, level in enumerate(one.levels)}
        renumbered = [numbers.setdefault(level, float(len(numbers))) for level in other.levels]
        places = np.nan_to_num(other.values, nan=-1.0).astype(np.intp)
        values = np.append(one.values, np.array([*renumbered, np.nan])[places])
        return Column(one.kind, values, tuple(numbers))
