"""Source: what the user passed, as a data frame or a matrix, and what its columns are called."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import chain
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray
from tpnn.table.records import Columns, Records, frame_of_dicts, is_of_dicts
from tpnn.table.stored import StoredColumns

LARGEST_EXACT_INTEGER = 2**53  # beyond it not every whole number is a double
SMALLEST_SIZE = 2.0**-1020  # of a number whose half, and every difference of halves, is exact
NUMBER_KINDS = "biuf"  # NumPy's kinds of numbers
MAX_FEW_ROWS = 100  # of frames that are read as a whole


def frame_in_memory(X: Any) -> Any:
    """Return a data frame of any library, or None for arrays, lists and what else NumPy reads.

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
            f"X: a table in memory is needed, found {_words_of_files(X)}. Pass it to "
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
            f"X: a table in memory is needed, found a lazy {type(X).__name__}. "
            "Pass X.collect(), or X.compute() where it is called so."
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


def _words_of_files(X: Any) -> str:
    is_path = isinstance(X, str | os.PathLike)
    return f"the path {os.fspath(X)!r}" if is_path else f"a {type(X).__name__} of pyarrow"


def _is_pandas(X: Any) -> bool:
    """Whether X is a data frame of pandas, which is then imported already."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(X, pandas.DataFrame)


def few_numbers(frame: Any) -> NDArray[Any] | None:
    """Matrix of a pandas frame that has few rows and nothing but numbers, else None.

    To take a column out of a frame costs more than to predict a row, whereas a whole frame is taken
    at once. Columns of several types get one that holds all their values; only whole numbers that
    are too large for it may not.
    """
    if not _is_pandas(frame) or len(frame) > MAX_FEW_ROWS:
        return None
    types = frame.dtypes.to_numpy()
    if not all(isinstance(kind, np.dtype) and kind.kind in NUMBER_KINDS for kind in types):
        return None
    matrix: NDArray[Any] = frame.to_numpy()
    return None if is_rounded(matrix) else matrix


def column_labels(frame: Any) -> tuple[Any, ...]:
    """Return what a data frame calls its columns: strings or, in pandas, anything."""
    if isinstance(frame, Records | Columns | StoredColumns):
        return frame.columns
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
            "X: a dense table is needed, found a sparse matrix. Pass X.toarray() "
            "(sparse input is not supported)."
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
