"""Table: columns of numbers, dates or labels read from whatever the user passed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from datetime import date, timedelta
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray
from tpnn._utils.shelf import MEMORY, Shelf
from tpnn.table.columns import (
    LARGEST_EXACT_INTEGER,
    NUMBER_KINDS,
    StoredColumns,
    all_finite,
    checked_matrix,
    checked_names,
    column_labels,
    distinct_texts,
    few_numbers,
    frame_in_memory,
    is_missing,
    is_rounded,
    plain_label,
    without_zone,
)

NUMBER, DATE, DURATION, ORDERED, NOMINAL = "number", "date", "duration", "ordered", "nominal"
PERIODIC = "periodic number"  # of a feature whose last node is the first one again: its period
TIME_KINDS = {"M": DATE, "m": DURATION}  # by NumPy's kind
REMEDIES = {  # by the name of a type that a column cannot hold
    "Period": "with X[name].dt.to_timestamp()",
    "time": "to seconds since midnight",
}


class Column(NamedTuple):
    """A column as numbers."""

    kind: str  # one of the five above; dates and durations are in seconds
    values: FloatArray  # (n_rows,): numbers, or the number of each row's level; NaN where missing
    levels: tuple[Any, ...] = ()  # distinct labels of an ordered or nominal column


class OffsetColumn(NamedTuple):
    """A column that is a known part of the raw score of each row, and not a feature."""

    name: str | None  # None where columns have no names
    place: int  # its position among all columns
    is_exposure: bool  # whether its logarithm is the offset, or the column itself

    @property
    def words(self) -> str:
        """The column as messages call it: by its name, or by its position."""
        return f"column {self.place if self.name is None else repr(self.name)}"


class Table:
    """A table whose columns are converted one at a time, so that it is never copied as a whole.

    It is made from an array (n_rows, n_features), a data frame of any library, or records. Columns
    hold numbers, booleans, dates, durations, strings or categories. None, NaN, NaT and masked
    values are missing. Data frames are those that narwhals reads, such as pandas, polars, Modin and
    Arrow, and all else that hands over its columns as an Arrow stream. Records are dicts from
    column names to values: a list of them or, for one row, a dict. A dict of arrays is a table of
    these columns.
    """

    def __init__(self, X: Any) -> None:
        frame = frame_in_memory(X)
        self.source: Any = checked_matrix(X) if frame is None else frame
        labels = () if frame is None else column_labels(frame)
        self.names = checked_names(labels)  # of the features
        self.labels = distinct_texts(labels)  # of all columns, numbers and dates as text
        self.offset_column: OffsetColumn | None = None  # the column that is set aside
        self.told: set[str] = set()  # warnings about it that were given, also of its copies
        self.picked: tuple[int, ...] | None = None  # positions of the features that ``pick`` kept
        self._labelled: dict[int, Column] = {}  # slow to read, so read once
        self._as_levels: dict[int, Column] = {}
        self._checked: set[int] = set()  # features without infinite numbers
        self.n_rows, self.n_features = (int(size) for size in self.source.shape)
        self._matrix = self.source if frame is None else few_numbers(frame)  # where it is one
        self._places: Sequence[int] = range(self.n_features)  # of the features in the source
        self._offset_place = 0  # of the column that is set aside
        if self.n_features == 0:
            raise ValueError(
                f"X: a table needs columns, found 0 feature(s) (shape=({self.n_rows}, 0)) "
                "while a minimum of 1 is required. Pass at least one column."
            )

    @property
    def is_stored(self) -> bool:
        """Whether the table is in files, from which columns are read again and again."""
        return isinstance(self.source, StoredColumns)

    @property
    def shelf(self) -> Shelf:
        """Where large arrays made of this table are kept: in memory, unless it is in files."""
        return self.source.shelf if isinstance(self.source, StoredColumns) else MEMORY

    @cached_property
    def is_finite(self) -> bool:
        """Whether the table is an array without missing or infinite values."""
        matrix = self._matrix
        if matrix is None or matrix.dtype.kind not in NUMBER_KINDS:
            return False
        return matrix.dtype.kind != "f" or all_finite(matrix)

    @property
    def n_columns(self) -> int:
        """Number of all columns, with the offset among them."""
        return self.n_features + (self.offset_column is not None)

    @property
    def column_names(self) -> list[str]:
        """Names of all columns, with the offset among them; ``x0, x1, ...`` without names."""
        names = [self.name(feature) for feature in range(self.n_features)]
        if self.offset_column is not None:
            name, place, _ = self.offset_column
            names.insert(place, f"x{place}" if name is None else name)
        return names

    def name(self, feature: int) -> str:
        """Name of a feature; where the table has none, ``x`` and the position of its column."""
        return self.names[feature] if self.names else f"x{self._places[feature]}"

    def column(self, feature: int) -> Column:
        """Column of a feature; an infinite number in it is an error."""
        if feature in self._labelled:
            return self._labelled[feature]
        column = read_column(self._raw(feature), self.name(feature))
        if column.levels and not self.is_stored:
            self._labelled[feature] = column
        if self.is_finite or feature in self._checked:
            return column
        n_infinite = 0 if all_finite(column.values) else int(np.isinf(column.values).sum())
        if n_infinite:
            raise ValueError(
                f"X: every value must be finite or missing, found inf in column "
                f"{self.name(feature)!r} ({n_infinite} of {self.n_rows} rows). Clip those "
                "values, or make them NaN (input contains infinity)."
            )
        self._checked.add(feature)
        return column

    @property
    def is_read_in_parallel(self) -> bool:
        """Whether threads may read columns at the same time."""
        return self._matrix is not None

    def finite_columns(self) -> list[FloatArray]:
        """All features of a finite table, as numbers."""
        assert self._matrix is not None
        return [np.asarray(self._matrix[:, place], np.float64) for place in self._places]

    def levels(self, feature: int) -> Column:
        """Column of a feature with numbers as levels, exact even where they are no doubles."""
        column = self.column(feature)
        if column.kind != NUMBER:
            return column
        if feature in self._as_levels:
            return self._as_levels[feature]
        levels = number_levels(self._raw(feature), column.values)
        if not self.is_stored:
            self._as_levels[feature] = levels
        return levels

    def _raw(self, feature: int) -> Any:
        """Column of a feature as the user passed it."""
        name = self.names[feature] if self.names else None
        return self._source_column(name, self._places[feature])

    def _source_column(self, name: str | None, place: int) -> Any:
        """Column of the source, by its name or, without one, by its position."""
        if self._matrix is not None:
            return self._matrix[:, place]
        if name is not None:
            return self.source[name]
        return self.source.iloc[:, place]

    def set_aside(self, place: int, is_exposure: bool) -> Table:
        """Table in which the column at a position is no feature but the offset of each row."""
        name = self.names[place] if self.names else None
        names = self.names and self.names[:place] + self.names[place + 1 :]
        table = self._with_columns([*self._places[:place], *self._places[place + 1 :]], names)
        table.offset_column = OffsetColumn(name, place, is_exposure)
        table._offset_place = self._places[place]
        return table

    def read_offset_column(self) -> Column:
        """Column that was set aside, as it stands: missing and infinite numbers included."""
        assert self.offset_column is not None
        raw = self._source_column(self.offset_column.name, self._offset_place)
        return read_column(raw, self.offset_column.words)

    def pick(self, places: tuple[int, ...]) -> Table:
        """Table with the features at some positions only."""
        names = self.names and tuple(self.names[place] for place in places)
        table = self._with_columns([self._places[place] for place in places], names)
        table.picked = places
        return table

    def reorder(self, labels: Sequence[str]) -> Table:
        """Table with its columns in the order of ``labels``; extra columns are left out."""
        present = self.names or self.labels or ()
        place_of = dict(zip(present, self._places, strict=True))
        missing = [label for label in labels if label not in place_of]
        if missing:
            raise ValueError(
                f"X: the columns seen during fit are needed, {missing[:5]} "
                f"{'is' if len(missing) == 1 else 'are'} missing. Found {list(present)[:10]}. "
                "Pass a table with those names."
            )
        names = None if self.names is None else tuple(labels)
        table = self._with_columns([place_of[label] for label in labels], names)
        table.labels = tuple(labels)
        return table

    def _with_columns(self, places: Sequence[int], names: tuple[str, ...] | None) -> Table:
        """Table of the same source whose features stand at other places of it."""
        table = copy(self)
        table.n_features, table._places, table.names = len(places), places, names
        table._labelled, table._as_levels, table._checked = {}, {}, set()
        return table


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


class FilledTable(Table):
    """Table with the columns of another one and other rows.

    ``offset`` is the column that was set aside, with these rows.
    """

    def __init__(self, table: Table, columns: Sequence[Column], offset: Column | None) -> None:
        vars(self).update(vars(copy(table)))
        vars(self).pop("is_finite", None)
        self._offset = offset
        self.n_rows, self._matrix = len(columns[0].values), None
        self._labelled = self._as_levels = dict(enumerate(columns))

    def read_offset_column(self) -> Column:
        """Column that was set aside, with the rows of this table."""
        assert self._offset is not None
        return self._offset

    def _with_columns(self, places: Sequence[int], names: tuple[str, ...] | None) -> Table:
        by_place = dict(zip(self._places, self._labelled.values(), strict=True))
        table = super()._with_columns(places, names)
        table._labelled = table._as_levels = {j: by_place[p] for j, p in enumerate(places)}
        return table


def read_column(raw: Any, name: str) -> Column:
    """Column of a data frame of any library, or of an array, as numbers.

    >>> read_column(np.array(["b", "a", None, "b"], dtype=object), "colour")
    Column(kind='nominal', values=array([ 0.,  1., nan,  0.]), levels=('b', 'a'))
    """
    if isinstance(raw, np.ndarray):
        return _read_array(raw, name)
    dtype = getattr(raw, "dtype", None)
    if isinstance(dtype, np.dtype):  # of pandas and its like; first, as what follows is slow there
        return _read_array(raw.to_numpy(), name)
    if hasattr(getattr(raw, "cat", None), "codes"):  # a category of pandas and its like
        return _read_levels(raw.cat.codes.to_numpy(), raw.cat.categories, raw.cat.ordered, name)
    arrow_type = getattr(dtype, "pyarrow_dtype", None)  # of pandas on Arrow
    if hasattr(arrow_type, "ordered"):
        raw = raw.array.__arrow_array__()
    if hasattr(getattr(raw, "type", None), "ordered"):  # an Arrow dictionary
        whole = raw.combine_chunks()
        codes = whole.indices.to_numpy(zero_copy_only=False)
        return _read_levels(codes, whole.dictionary.to_pylist(), whole.type.ordered, name)
    if hasattr(raw, "array") and getattr(raw.dtype, "kind", "") in NUMBER_KINDS:  # nullable, pandas
        return Column(NUMBER, raw.to_numpy(np.float64, na_value=np.nan))
    if getattr(arrow_type or dtype, "tz", None) is not None:  # in pandas
        raw = raw.dt.tz_convert("UTC").dt.tz_localize(None)
    return _read_array(raw.to_numpy(), name)


def _read_array(values: NDArray[Any], name: str) -> Column:
    if values.dtype.kind in TIME_KINDS:
        return Column(TIME_KINDS[values.dtype.kind], _seconds(values))
    if values.dtype.kind in NUMBER_KINDS:
        return Column(NUMBER, np.asarray(values, np.float64))
    if np.iscomplexobj(values):
        raise ValueError(
            f"X: columns must be real numbers, found complex numbers in {name!r}. "
            "Complex data not supported: pass the real and imaginary parts as two columns."
        )
    return _read_objects(values.tolist(), name)


def _read_levels(codes: NDArray[Any], labels: Iterable[Any], ordered: bool, name: str) -> Column:
    """Column of levels by their numbers; -1 or NaN is a missing value.

    Labels may be missing or repeated, as Arrow allows; "a" and b"a" are one level.
    """
    numbers_of: dict[Any, float] = {}
    numbers = [_number_of(label, numbers_of, name) for label in labels]
    places = codes if codes.dtype.kind in "iu" else np.nan_to_num(codes, nan=-1).astype(np.intp)
    values = np.array([*numbers, np.nan])[places]
    return Column(ORDERED if ordered else NOMINAL, values, tuple(numbers_of))


def _number_of(label: Any, numbers_of: dict[Any, float], name: str) -> float:
    """Return the number of a label, the next one if it is new; NaN for a missing value."""
    if is_missing(label):
        return np.nan
    return numbers_of.setdefault(plain_label(label, name), float(len(numbers_of)))


def number_levels(raw: Any, values: FloatArray) -> Column:
    """Column of numbers, each a level; ``values`` are the numbers of ``raw`` as doubles.

    >>> number_levels(np.array([2**53, 2**53 + 1]), np.array([2.0**53, 2.0**53]))
    Column(kind='nominal', values=array([0., 1.]), levels=(9007199254740992, 9007199254740993))
    """
    present = ~np.isnan(values)
    exact = _exact_numbers(raw) if is_rounded(values) else None
    numbers, codes = np.unique(values[present] if exact is None else exact, return_inverse=True)
    numbered = np.full(len(values), np.nan)
    numbered[present] = codes
    return Column(NOMINAL, numbered, tuple(map(_shortest, numbers.tolist())))


def _exact_numbers(raw: Any) -> NDArray[Any] | None:
    """Non-missing whole numbers of a column, exactly; None where they are floats."""
    if not isinstance(raw, np.ndarray):
        import narwhals as nw

        raw = nw.from_native(raw, series_only=True).drop_nulls().to_numpy()
    if raw.dtype.kind == "O":
        return np.array([_shortest(number) for number in raw if not is_missing(number)], object)
    return None if raw.dtype.kind == "f" else raw


def _shortest(number: Any) -> int | float:
    """Make a number an int if that loses nothing; a large float may have lost digits already."""
    is_float = isinstance(number, float | np.floating)
    if is_float and abs(number) >= LARGEST_EXACT_INTEGER:
        return float(number)
    return int(number) if number == int(number) else float(number)


def _seconds(times: NDArray[Any]) -> FloatArray:
    """Dates as seconds since 1970, durations as seconds; NaT becomes NaN."""
    unit = "datetime64[us]" if times.dtype.kind == "M" else "timedelta64[us]"
    counts = times.astype(unit).astype(np.int64) / 1e6
    return np.where(np.isnat(times), np.nan, counts)


def _read_objects(values: list[Any], name: str) -> Column:
    """Column of Python objects: numbers, dates, durations or labels, but not a mixture."""
    present = [value for value in values if not is_missing(value)]
    if all(isinstance(value, Real | Decimal) for value in present):
        numbers = [np.nan if is_missing(value) else float(value) for value in values]
        return Column(NUMBER, np.array(numbers, np.float64))
    for kind, code in ((date, "datetime64[us]"), (timedelta, "timedelta64[us]")):
        if all(isinstance(value, kind) for value in present):
            times = [None if is_missing(value) else without_zone(value) for value in values]
            return _read_array(np.array(times, code), name)
    if not all(isinstance(value, str | bytes) for value in present):
        odd = next(value for value in present if not isinstance(value, str | bytes))
        raise TypeError(
            f"X: a column must hold numbers, dates or strings, found {odd!r} of type "
            f"{type(odd).__name__} in {name!r}. Convert the whole column, for example "
            f"{REMEDIES.get(type(odd).__name__, 'with X[name].astype(str)')}. "
            "(An argument must be a string or a number.)"
        )
    numbers_of: dict[Any, float] = {}
    codes = [
        np.nan if is_missing(value) else numbers_of.setdefault(value, float(len(numbers_of)))
        for value in values
    ]
    return _read_levels(np.array(codes, np.float64), numbers_of, ordered=False, name=name)
