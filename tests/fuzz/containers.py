"""The same columns as a table of pandas, polars, Arrow, NumPy or lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

from tests.fuzz import columns as kinds
from tests.fuzz.columns import Column

NAMED = ("pandas", "polars", "pyarrow")
UNNAMED = ("numbered", "numpy", "masked", "lists")
LARGEST_EXACT_INTEGER = 2**53
CONTAINERS = (*NAMED, *UNNAMED)
STRICT = ("polars", "pyarrow")  # every column has a type
INSTALLED = tuple(name for name in CONTAINERS if name not in STRICT or find_spec(name))
HAS_ARROW = "pyarrow" in INSTALLED
WITH_CATEGORIES = ("pandas", "numbered", "pyarrow")  # whose levels may have an order
UNKNOWN_TO_STRICT = (kinds.MIXED, kinds.SURROGATE, kinds.DECIMAL, kinds.BYTES)


def can_hold(container: str, columns: Sequence[Column]) -> bool:
    """Whether a container has a way to hold all columns."""
    held = {column.kind for column in columns}
    if container in STRICT:
        names = {column.name for column in columns}
        whole = all(isinstance(level, str) for column in columns for level in column.levels)
        return held.isdisjoint(UNKNOWN_TO_STRICT) and len(names) == len(columns) and whole
    return container != "masked" or held <= {kinds.FLOAT, kinds.INTEGER, kinds.EMPTY}


def without_order(container: str) -> tuple[str, ...]:
    """Kinds of columns whose values have no order in a container."""
    return kinds.LABELS if container in WITH_CATEGORIES else (*kinds.LABELS, kinds.ORDERED)


def build(container: str, columns: Sequence[Column]) -> Any:
    """Build a table of the columns."""
    return _BUILDERS[container](columns)


def _pandas(columns: Sequence[Column]) -> Any:
    frame = pd.concat([_series(column) for column in columns], axis=1)
    frame.columns = pd.Index([column.name for column in columns], dtype=object)
    return frame


def _numbered(columns: Sequence[Column]) -> Any:
    return _pandas(columns).set_axis(range(len(columns)), axis=1)


def _series(column: Column) -> Any:
    values, kind = column.values, column.kind
    if kind in (kinds.CATEGORY, kinds.ORDERED):
        levels = [*column.levels, *sorted(set(column.known()) - set(column.levels), key=str)]
        return pd.Series(pd.Categorical(values, levels, ordered=kind == kinds.ORDERED))
    if kind in (kinds.FLOAT, kinds.INFINITE):
        nullable = pd.Series(values, dtype="Float64")
        return nullable if column.form == 1 else pd.Series(values, dtype=np.float64)
    if kind in (kinds.INTEGER, kinds.BOOLEAN):
        dtype = "Int64" if kind == kinds.INTEGER else "boolean"
        series = pd.Series(values, dtype=dtype)
        whole = column.form == 0 and None not in values
        return series.astype(np.int64 if kind == kinds.INTEGER else bool) if whole else series
    if kind == kinds.TEXT and column.form:
        return pd.Series(values, dtype="string[pyarrow]" if HAS_ARROW else "string[python]")
    if kind in (kinds.DATE, kinds.ZONED, kinds.DURATION) and column.form == 0:
        convert = pd.to_timedelta if kind == kinds.DURATION else pd.to_datetime
        return pd.Series(convert(pd.Series(values, dtype=object)))
    return pd.Series(values, dtype=object)


def _polars(columns: Sequence[Column]) -> Any:
    import polars as pl

    def series(column: Column) -> Any:
        labels = [*column.levels, *sorted(set(map(str, column.known())) - set(column.levels))]
        types: dict[str, Any] = {
            kinds.FLOAT: pl.Float64, kinds.INFINITE: pl.Float64, kinds.INTEGER: pl.Int64,
            kinds.BOOLEAN: pl.Boolean, kinds.TEXT: pl.String, kinds.CATEGORY: pl.Categorical,
            kinds.ORDERED: pl.Enum(labels), kinds.DATE: pl.Datetime("us"),
            kinds.ZONED: pl.Datetime("us", "UTC"), kinds.DURATION: pl.Duration("us"),
            kinds.EMPTY: pl.Null if column.form else pl.Float64,
        }  # fmt: skip
        return pl.Series(values=column.values, dtype=types[column.kind])

    return pl.DataFrame({column.name: series(column) for column in columns})


def _pyarrow(columns: Sequence[Column]) -> Any:
    import pyarrow as pa

    types = {
        kinds.FLOAT: pa.float64(), kinds.INFINITE: pa.float64(), kinds.INTEGER: pa.int64(),
        kinds.BOOLEAN: pa.bool_(), kinds.TEXT: pa.string(), kinds.DATE: pa.timestamp("us"),
        kinds.ZONED: pa.timestamp("us", "UTC"), kinds.DURATION: pa.duration("us"),
        kinds.EMPTY: pa.null(),
    }  # fmt: skip

    def array(column: Column) -> Any:
        if column.kind in types:
            return pa.array(column.values, types[column.kind])
        categories = _series(column).cat
        indices = pa.array([None if code < 0 else code for code in categories.codes], pa.int32())
        labels = pa.array(categories.categories.tolist(), pa.string())
        return pa.DictionaryArray.from_arrays(indices, labels, ordered=categories.ordered)

    return pa.table({column.name: array(column) for column in columns})


def _numpy(columns: Sequence[Column]) -> Any:
    held = {column.kind for column in columns}
    if held == {kinds.INTEGER} and not any(None in column.values for column in columns):
        return np.array([column.values for column in columns], np.int64).T
    numbers = {kinds.FLOAT, kinds.INTEGER, kinds.INFINITE, kinds.BOOLEAN, kinds.EMPTY}
    if held <= numbers and not (held == {kinds.INTEGER} and any(map(_has_large, columns))):
        return np.array([column.values for column in columns], np.float64).T
    matrix = np.empty((len(columns[0].values), len(columns)), object)
    for place, column in enumerate(columns):
        matrix[:, place] = column.values
    return matrix


def _has_large(column: Column) -> bool:
    """Whether a column holds whole numbers that are no doubles, which a model may refuse."""
    return any(value is not None and abs(value) >= LARGEST_EXACT_INTEGER for value in column.values)


def _masked(columns: Sequence[Column]) -> Any:
    whole = [[99.0 if value is None else value for value in column.values] for column in columns]
    gone = [[value is None for value in column.values] for column in columns]
    return np.ma.MaskedArray(np.array(whole, np.float64).T, np.array(gone).T)


def _lists(columns: Sequence[Column]) -> Any:
    return [list(row) for row in zip(*(column.values for column in columns), strict=True)]


_BUILDERS: dict[str, Callable[[Sequence[Column]], Any]] = {
    "pandas": _pandas, "polars": _polars, "pyarrow": _pyarrow, "numbered": _numbered,
    "numpy": _numpy, "masked": _masked, "lists": _lists,
}  # fmt: skip
