"""Columns of whatever the user passed: frames of any library, arrays, records, tables in files."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, timedelta
from decimal import Decimal
from itertools import chain
from numbers import Integral, Real
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import CodeArray, FloatArray, IntArray
from tpnn._utils.rules import optional
from tpnn._utils.shelf import Shelf


class RemoteTable(Protocol):
    """Other processes that make the passes over a stored ``Table``."""

    @property
    def is_there(self) -> bool:
        """Whether passes can be made there at present."""

    def by_column(self, table: Any, work: Callable[..., Any]) -> list[Any]:
        """Results of ``work(table, feature, reading)`` for all features."""

    def of_rows(self, table: Any, work: Callable[..., Any], rows: IntArray | None) -> Any:
        """Array of ``work(table, rows, n_threads)``, joined from ranges of rows."""

    def codes(self, table: Any, encoder: Any, rows: IntArray) -> dict[int, CodeArray]:
        """Nearest nodes of these rows at each order, (n_features, len(rows))."""


class StoredColumns(ABC):
    """A table that is not in memory; a column is read from files whenever it is asked for."""

    def __init__(
        self,
        columns: tuple[str, ...],
        n_rows: int,
        shelf: Shelf,  # for large arrays that are made of the columns
        remote: RemoteTable | None = None,  # None if this process makes the passes
    ) -> None:
        self.columns, self.shelf, self.remote = columns, shelf, remote
        self.shape = (n_rows, len(columns))

    @abstractmethod
    def __getitem__(self, name: str) -> Any:
        """Column of a name, as an array or an Arrow column."""


LARGEST_EXACT_INTEGER = 2**53  # beyond it not every whole number is a double
SMALLEST_SIZE = 2.0**-1020  # halves of larger numbers, and differences of halves, are exact
NUMBER_KINDS = "biuf"  # NumPy's kinds of numbers
MAX_FEW_ROWS = 100  # frames of fewer rows are read as a whole


def frame_in_memory(X: Any) -> Any:
    """Return a data frame of any library, or None for arrays, lists and all else that NumPy reads.

    Records and dicts of columns are data frames, too.
    """
    if is_of_dicts(X):
        return frame_of_dicts(X)
    if isinstance(X, np.ndarray | list | tuple):
        return None
    if isinstance(X, StoredColumns):
        return X
    if is_in_files(X):
        raise TypeError(
            f"X: a table in memory is needed, found {_described_files(X)}. Pass it to "
            "predict_batches, which reads some rows at a time, or read it yourself."
        )
    if _is_pandas(X):  # the most frequent one, at once
        return X
    import narwhals as nw  # late: a saved model predicts on arrays with NumPy alone

    X = nw.to_native(X, pass_through=True)
    if nw.dependencies.is_into_dataframe(X):
        return X
    if isinstance(nw.from_native(X, pass_through=True), nw.LazyFrame):
        raise TypeError(
            f"X: must be in memory, and a lazy {type(X).__name__} has no rows yet. Pass "
            "X.collect(), or X.compute() where it is called so."
        )
    is_stream = hasattr(X, "__arrow_c_stream__") and hasattr(X, "schema")  # record batches
    return nw.from_arrow(X, backend="pyarrow").to_native() if is_stream else None


def is_in_files(X: Any) -> bool:
    """Whether X is the path of files, or a dataset of pyarrow, which is then imported already.

    >>> is_in_files("folder/*.parquet"), is_in_files([[1.0]])
    (True, False)
    """
    arrow = sys.modules.get("pyarrow.dataset")
    is_dataset = arrow is not None and isinstance(X, arrow.Dataset)
    return is_dataset or isinstance(X, str | os.PathLike)


def _described_files(X: Any) -> str:
    is_path = isinstance(X, str | os.PathLike)
    return f"the path {os.fspath(X)!r}" if is_path else f"a {type(X).__name__} of pyarrow"


def _is_pandas(X: Any) -> bool:
    """Whether X is a data frame of pandas, which is then imported already."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(X, pandas.DataFrame)


def few_numbers(frame: Any) -> NDArray[Any] | None:
    """Matrix of a pandas frame that has few rows and nothing but numbers, else None.

    To take one column out of a frame takes longer than to predict a row, so the whole frame is
    taken at once. Columns of several types get a common one that holds all their values, unless
    whole numbers are too large for it.
    """
    if not _is_pandas(frame) or len(frame) > MAX_FEW_ROWS:
        return None
    manager: Any = getattr(frame, "_mgr", None)  # to make dtypes, a series, takes long
    types = manager.get_dtypes() if hasattr(manager, "get_dtypes") else frame.dtypes.to_numpy()
    if not all(isinstance(kind, np.dtype) and kind.kind in NUMBER_KINDS for kind in types):
        return None
    matrix: NDArray[Any] = frame.to_numpy()
    return None if is_rounded(matrix) else matrix


def column_labels(frame: Any) -> tuple[Any, ...]:
    """Labels of the columns of a data frame: strings or, in pandas, anything."""
    if isinstance(frame, Records | Columns | StoredColumns):
        return frame.columns
    if _is_pandas(frame):
        return tuple(frame.columns)
    import narwhals as nw

    is_arrow = nw.dependencies.is_pyarrow_table(frame)  # whose columns are not names
    return tuple(frame.column_names if is_arrow else frame.columns)


def distinct_texts(labels: Sequence[Any]) -> tuple[str, ...] | None:
    """Labels as text; None where there are none, or two agree."""
    texts = tuple(map(str, labels))
    return texts if texts and len(set(texts)) == len(texts) else None


def checked_names(names: tuple[Any, ...]) -> tuple[str, ...] | None:
    """Column names, or None where columns are numbered rather than named."""
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


def checked_matrix(X: Any) -> NDArray[Any]:
    """Array of two dimensions from an array or a list of rows; masked values become missing."""
    if hasattr(X, "toarray") or type(X).__module__.startswith("scipy.sparse"):
        raise TypeError(
            "X: must be dense, sparse input is not supported. Pass X.toarray(), or set "
            "sparse_output=False where it comes from; levels need no encoding at all."
        )
    if isinstance(X, np.ma.MaskedArray):
        matrix = _filled(X)
    else:
        matrix = _matrix_of_rows(X) if isinstance(X, list | tuple) else np.asarray(X)
    if matrix.ndim != 2:
        raise ValueError(
            f"X: a 2-dimensional table is needed, found shape {matrix.shape}. Reshape your data: "
            "array.reshape(-1, 1) for one feature, array.reshape(1, -1) for one row."
        )
    return matrix


def _matrix_of_rows(rows: Sequence[Any]) -> NDArray[Any]:
    """Array of a list of rows; strings, and numbers too large for their common type, are objects.

    An array of strings would give every one of them the room of the longest.
    """
    try:
        types = set(map(type, chain.from_iterable(rows)))
    except TypeError:  # numbers in place of rows
        types = set()
    if any(issubclass(kind, str | bytes) for kind in types):
        return np.array(rows, dtype=object)
    matrix = np.asarray(rows)
    has_integers = any(issubclass(kind, Integral) for kind in types)
    is_lossy = matrix.dtype.kind == "f" and has_integers and is_rounded(matrix)
    return np.array(rows, dtype=object) if is_lossy else matrix


def all_finite(values: FloatArray) -> bool:
    """Whether no value is NaN or infinite; one pass without a copy where the sum does not overflow.

    >>> all_finite(np.array([1.0, 1e308, 1e308])), all_finite(np.array([1.0, np.nan]))
    (True, False)
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()) or np.isfinite(values).all())


def is_rounded(values: NDArray[Any]) -> bool:
    """Whether numbers are so large that whole numbers may have lost digits when made doubles."""
    with np.errstate(invalid="ignore"):  # a signalling NaN
        largest = np.fmax.reduce(values, axis=None, initial=0)  # whatever is missing
        smallest = np.fmin.reduce(values, axis=None, initial=0)
    return bool(largest >= LARGEST_EXACT_INTEGER or smallest <= -LARGEST_EXACT_INTEGER)


def _filled(X: np.ma.MaskedArray[Any, Any]) -> NDArray[Any]:
    """Array in which the masked values are missing ones."""
    is_time = X.dtype.kind in "mM"
    is_exact = X.dtype.kind in "bf" or (X.dtype.kind in "iu" and not is_rounded(X.data))
    dtype = X.dtype if is_time else float if is_exact else object
    values = np.array(X.data, dtype)
    values[np.ma.getmaskarray(X)] = "NaT" if is_time else np.nan
    return values


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
    """A dict from the names of columns to arrays of one length."""

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
    prediction of a record does not depend on the other ones, and a misspelt key is noticed. Other
    keys may be in any record.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        for number, row in enumerate(rows):
            if not isinstance(row, Mapping):
                raise TypeError(
                    f"X: every record must be a dict, found {type(row).__name__} in row {number}. "
                    "Pass dicts from column names to values, or no dict at all."
                )
        self._rows = rows
        self.columns = tuple(dict.fromkeys(chain.from_iterable(rows)))  # in order of appearance
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


def without_zone(time: Any) -> Any:
    """Date or time in UTC, as NumPy reads it; one without a zone, or a duration, as it is."""
    if getattr(time, "tzinfo", None) is None:
        return time
    return time.astimezone(UTC).replace(tzinfo=None)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or pandas' NA."""
    if isinstance(value, str):  # most are, and the checks below take long
        return False
    if value is None or type(value).__name__ == "NAType":
        return True
    return isinstance(value, Real | Decimal | date | timedelta) and bool(value != value)


def array_of(values: Any) -> NDArray[Any]:
    """Array of targets or names; text in lists and of polars is kept as objects.

    An array of strings would give every one of them the room of the longest.

    >>> array_of(["a", "bcd"])
    array(['a', 'bcd'], dtype=object)
    """
    if isinstance(values, list | tuple) and any(isinstance(value, str) for value in values):
        return np.array(values, dtype=object)
    if type(values).__module__.startswith("polars."):
        return np.asarray(values.to_numpy())
    return np.asarray(values)


def rows_of(values: Any, rows: NDArray[Any]) -> Any:
    """Return some of the targets; those of a data frame keep the names of their columns.

    >>> rows_of([1.0, 2.0, 3.0], np.array([2, 0]))
    array([3., 1.])
    """
    return values.iloc[rows] if hasattr(values, "iloc") else array_of(values)[rows]


def plain_label(level: Any, name: str) -> Any:
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


def require_pandas(method: str) -> None:
    """Refuse to make a data frame where pandas is not installed; a model predicts without it."""
    optional("pandas", method, "pandas")
