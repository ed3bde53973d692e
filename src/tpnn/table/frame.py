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

from tpnn._typing import FloatArray

NUMBER, DATE, DURATION, ORDERED, NOMINAL = "number", "date", "duration", "ordered", "nominal"
TIME_KINDS = {"M": DATE, "m": DURATION}  # by NumPy's kind
REMEDIES = {  # by the name of a type that a column cannot hold
    "Period": "with X[name].dt.to_timestamp()",
    "time": "to seconds since midnight",
}


class Column(NamedTuple):
    """A column as numbers.

    Parameters
    ----------
    kind : {"number", "date", "duration", "ordered", "nominal"}
        What the numbers stand for; dates and durations are in seconds.
    values : array of shape (n_rows,)
        The numbers, or the number of each row's level; NaN where the value is missing.
    levels : tuple
        Distinct labels of an ordered or nominal column.
    """

    kind: str
    values: FloatArray
    levels: tuple[Any, ...] = ()


class OffsetColumn(NamedTuple):
    """A column that is a known part of the raw score of each row, and not a feature.

    Parameters
    ----------
    name : str or None
        Its name; None where columns have no names.
    place : int
        Its position among all columns.
    is_exposure : bool
        Whether its logarithm is the offset, or the column itself.
    """

    name: str | None
    place: int
    is_exposure: bool

    @property
    def words(self) -> str:
        """The column as messages call it: by its name, or by its position."""
        return f"column {self.place if self.name is None else repr(self.name)}"


class Table:
    """A table whose columns are converted one at a time, so that it is never copied as a whole.

    Parameters
    ----------
    X : array of shape (n_rows, n_features), or data frame of any library
        Columns of numbers, booleans, dates, durations, strings or categories. None, NaN, NaT and
        masked values are missing. Data frames are those that narwhals reads, such as pandas,
        polars, Modin and Arrow, and whatever else hands over its columns as an Arrow stream.

    Attributes
    ----------
    source : data frame or array
        The data frame that was passed; anything else, such as a list, as an array.
    names : tuple of str, or None
        Names of the features; None for arrays and for frames whose columns are numbered.
    n_features : int
        Number of columns that are features: all but that of an offset.
    offset_column : OffsetColumn or None
        The column that was set aside because it is the offset of each row.
    """

    def __init__(self, X: Any) -> None:
        frame = _frame_in_memory(X)
        self.source: Any = _checked_matrix(X) if frame is None else frame
        self.names = None if frame is None else _checked_names(frame)
        self.offset_column: OffsetColumn | None = None
        self._labelled: dict[int, Column] = {}  # slow to read, so read once
        self.n_rows, self.n_features = (int(size) for size in self.source.shape)
        if self.n_features == 0:
            raise ValueError(
                f"X: a table needs columns, found 0 feature(s) (shape=({self.n_rows}, 0)) "
                "while a minimum of 1 is required. Pass at least one column."
            )

    @cached_property
    def is_finite(self) -> bool:
        """Whether the table is an array without missing or infinite values, found in one pass."""
        source = self.source
        return isinstance(source, np.ndarray) and source.dtype.kind == "f" and all_finite(source)

    @property
    def n_columns(self) -> int:
        """Number of all columns, that of an offset among them."""
        return self.n_features + (self.offset_column is not None)

    @property
    def column_names(self) -> list[str]:
        """Names of all columns, that of an offset among them; ``x0, x1, ...`` without names."""
        names = [self.name(feature) for feature in range(self.n_features)]
        if self.offset_column is not None:
            name, place, _ = self.offset_column
            names.insert(place, f"x{place}" if name is None else name)
        return names

    def name(self, feature: int) -> str:
        """Name of a feature; where the table has none, ``x`` and the position of its column."""
        return self.names[feature] if self.names else f"x{self._place(feature)}"

    def column(self, feature: int) -> Column:
        """Column of the given feature, checked to hold no infinite number."""
        if feature in self._labelled:
            return self._labelled[feature]
        name = self.names[feature] if self.names else None
        column = read_column(self._raw(name, self._place(feature)), self.name(feature))
        if column.levels:
            self._labelled[feature] = column
        if self.is_finite or all_finite(column.values):
            return column
        infinite = np.isinf(column.values)
        if infinite.any():
            raise ValueError(
                f"X: every value must be finite or missing, found inf in column "
                f"{self.name(feature)!r} ({int(infinite.sum())} of {self.n_rows} rows). Clip those "
                "values, or make them NaN (input contains infinity)."
            )
        return column

    def _place(self, feature: int) -> int:
        """Position of a feature among all columns of a table without names."""
        skipped = self.offset_column is not None and feature >= self.offset_column.place
        return feature + skipped

    def _raw(self, name: str | None, place: int) -> Any:
        """Column as the user passed it, by its name or, without one, by its position."""
        if name is not None:
            return self.source[name]
        return getattr(self.source, "iloc", self.source)[:, place]

    def set_aside(self, place: int, is_exposure: bool) -> Table:
        """Table in which the column at a position is no feature but the offset of each row."""
        name = self.names[place] if self.names else None
        table = copy(self)
        table.offset_column = OffsetColumn(name, place, is_exposure)
        table.names = self.names and self.names[:place] + self.names[place + 1 :]
        table.n_features, table._labelled = self.n_features - 1, {}
        return table

    def read_offset_column(self) -> Column:
        """Column that was set aside, as it stands: missing and infinite numbers included."""
        assert self.offset_column is not None
        name, place, _ = self.offset_column
        return read_column(self._raw(name, place), self.offset_column.words)

    def reorder(self, names: Sequence[str]) -> Table:
        """Table with its columns in the order of ``names``; extra columns are left out."""
        assert self.names is not None
        missing = [name for name in names if name not in self.names]
        if missing:
            raise ValueError(
                f"X: the columns seen during fit are needed, {missing[:5]} "
                f"{'is' if len(missing) == 1 else 'are'} missing. Found {list(self.names)[:10]}. "
                "Pass a table with those names."
            )
        table = copy(self)
        table.names, table.n_features, table._labelled = tuple(names), len(names), {}
        return table


def all_finite(values: FloatArray) -> bool:
    """Whether no value is NaN or infinite; one pass without a copy where the sum does not overflow.

    >>> all_finite(np.array([1.0, 1e308, 1e308])), all_finite(np.array([1.0, np.nan]))
    (True, False)
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()) or np.isfinite(values).all())


def _frame_in_memory(X: Any) -> Any:
    """Return a data frame of any library, or None for arrays, lists and what else NumPy reads."""
    if isinstance(X, np.ndarray | list | tuple):
        return None
    import narwhals as nw  # late: a saved model predicts on arrays with NumPy alone

    X = nw.to_native(X, pass_through=True)
    if nw.dependencies.is_into_dataframe(X):
        return X
    if isinstance(nw.from_native(X, pass_through=True), nw.LazyFrame):
        raise TypeError(
            f"X: a table in memory is needed, found a lazy {type(X).__name__}. "
            "Pass X.collect(), or X.compute() where it is called so."
        )
    is_stream = hasattr(X, "__arrow_c_stream__") and hasattr(X, "schema")  # record batches
    return nw.from_arrow(X, backend="pyarrow").to_native() if is_stream else None


def _checked_names(frame: Any) -> tuple[str, ...] | None:
    """Column names, or None where columns are numbered rather than named."""
    import narwhals as nw

    is_arrow = nw.dependencies.is_pyarrow_table(frame)  # whose columns are not names
    names = tuple(frame.column_names if is_arrow else frame.columns)
    if not any(isinstance(name, str) for name in names):
        return None
    if not all(isinstance(name, str) for name in names):
        odd = next(name for name in names if not isinstance(name, str))
        raise TypeError(
            f"X: feature names must all be strings, found {odd!r} of type {type(odd).__name__}. "
            "Rename the columns, for example X.columns = X.columns.astype(str). "
            "(Feature names are only supported if all input features have string names.)"
        )
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(
            f"X: column names must be unique, found {twice[:5]} more than once. "
            "Rename or drop the repeated columns."
        )
    return names


def _checked_matrix(X: Any) -> NDArray[Any]:
    if hasattr(X, "toarray") or type(X).__module__.startswith("scipy.sparse"):
        raise TypeError(
            "X: a dense table is needed, found a sparse matrix. Pass X.toarray() "
            "(sparse input is not supported)."
        )
    matrix = _filled(X) if isinstance(X, np.ma.MaskedArray) else np.asarray(X)
    if matrix.dtype.kind in "US" and isinstance(X, list | tuple):  # numbers may be among them
        matrix = np.array(X, dtype=object)
    if matrix.ndim != 2:
        raise ValueError(
            f"X: a 2-dimensional table is needed, found shape {matrix.shape}. Reshape your data: "
            "array.reshape(-1, 1) for one feature, array.reshape(1, -1) for one row."
        )
    return matrix


def _filled(X: np.ma.MaskedArray[Any, Any]) -> NDArray[Any]:
    """Array in which the masked values are missing ones."""
    is_time = X.dtype.kind in TIME_KINDS
    dtype = X.dtype if is_time else float if X.dtype.kind in "biuf" else object
    values = np.array(X.data, dtype)
    values[np.ma.getmaskarray(X)] = "NaT" if is_time else np.nan
    return values


def read_column(raw: Any, name: str) -> Column:
    """Column of a data frame of any library, or of an array, as numbers.

    >>> read_column(np.array(["b", "a", None, "b"], dtype=object), "colour")
    Column(kind='nominal', values=array([ 0.,  1., nan,  0.]), levels=('b', 'a'))
    """
    if isinstance(raw, np.ndarray):
        return _read_array(raw, name)
    if hasattr(getattr(raw, "cat", None), "codes"):  # a category of pandas and its like
        return _read_levels(raw.cat.codes.to_numpy(), raw.cat.categories, raw.cat.ordered, name)
    if hasattr(getattr(raw, "type", None), "ordered"):  # an Arrow dictionary
        whole = raw.combine_chunks()
        codes = whole.indices.to_numpy(zero_copy_only=False)
        return _read_levels(codes, whole.dictionary.to_pylist(), whole.type.ordered, name)
    if hasattr(raw, "array") and getattr(raw.dtype, "kind", "") in "biuf":  # pandas, nullable too
        return Column(NUMBER, raw.to_numpy(np.float64, na_value=np.nan))
    dtype = getattr(raw, "dtype", None)
    if getattr(getattr(dtype, "pyarrow_dtype", dtype), "tz", None) is not None:  # in pandas
        raw = raw.dt.tz_convert("UTC").dt.tz_localize(None)
    return _read_array(raw.to_numpy(), name)


def _read_array(values: NDArray[Any], name: str) -> Column:
    if values.dtype.kind in TIME_KINDS:
        return Column(TIME_KINDS[values.dtype.kind], _seconds(values))
    if values.dtype.kind in "biuf":
        return Column(NUMBER, np.asarray(values, np.float64))
    if np.iscomplexobj(values):
        raise ValueError(
            f"X: columns must be real numbers, found complex numbers in {name!r}. "
            "Complex data not supported: pass the real and imaginary parts as two columns."
        )
    return _read_objects(values.tolist(), name)


def _read_levels(codes: NDArray[Any], labels: Iterable[Any], ordered: bool, name: str) -> Column:
    """Column of levels by their numbers; a negative one or NaN is a missing value."""
    values = np.where(codes >= 0, codes.astype(np.float64), np.nan)
    levels = tuple(_plain(level, name) for level in labels)
    return Column(ORDERED if ordered else NOMINAL, values, levels)


def _seconds(times: NDArray[Any]) -> FloatArray:
    """Dates as seconds since 1970, durations as seconds; NaT becomes NaN."""
    unit = "datetime64[us]" if times.dtype.kind == "M" else "timedelta64[us]"
    counts = times.astype(unit).astype(np.int64) / 1e6
    return np.where(np.isnat(times), np.nan, counts)


def _read_objects(values: list[Any], name: str) -> Column:
    """Column of Python objects: numbers, dates, durations or labels, but not a mixture."""
    known = [value for value in values if not is_missing(value)]
    if all(isinstance(value, Real | Decimal) for value in known):
        numbers = [np.nan if is_missing(value) else float(value) for value in values]
        return Column(NUMBER, np.array(numbers, np.float64))
    for kind, code in ((date, "datetime64[us]"), (timedelta, "timedelta64[us]")):
        if all(isinstance(value, kind) for value in known):
            times = [None if is_missing(value) else value for value in values]
            return _read_array(np.array(times, code), name)
    if not all(isinstance(value, str | bytes) for value in known):
        odd = next(value for value in known if not isinstance(value, str | bytes))
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
    levels = tuple(_plain(level, name) for level in numbers_of)
    return Column(NOMINAL, np.array(codes, np.float64), levels)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or pandas' NA."""
    if value is None or type(value).__name__ == "NAType":
        return True
    return isinstance(value, Real | Decimal | date | timedelta) and bool(value != value)


def _plain(level: Any, name: str) -> Any:
    """Label as str, int, float or bool, which a saved model can hold."""
    value = level.item() if isinstance(level, np.generic) else level
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, date | timedelta):
        return str(value)
    raise TypeError(
        f"X: levels must be strings, numbers or dates, found {value!r} of type "
        f"{type(value).__name__} in {name!r}. Turn them into strings."
    )
