"""Table: columns of every library become the same numbers, and what cannot be meant is refused."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy import sparse

from tpnn.table.columns import MAX_FEW_ROWS, all_finite, is_missing
from tpnn.table.table import Column, Table, read_column

DAY, HOUR = 86_400.0, 3_600.0


def same(values: np.ndarray, expected: Any) -> bool:
    """Whether two columns agree, missing values included."""
    return np.array_equal(values, np.asarray(expected, float), equal_nan=True)


def only_column(values: Any) -> Column:
    """The column of a pandas frame that has no other."""
    return Table(pd.DataFrame({"a": values})).column(0)


NUMBERS: dict[str, tuple[Any, list[float]]] = {
    "floats": ([1.5, np.nan, 3.0], [1.5, np.nan, 3.0]),
    "single precision": (np.array([0.1, 2, 3], np.float32), [float(np.float32(0.1)), 2, 3]),
    "integers": ([3, 1, 2], [3, 1, 2]),
    "bytes": (np.array([0, 255, 7], np.uint8), [0, 255, 7]),
    "flags": ([True, False, True], [1, 0, 1]),
    "nullable integers": (pd.array([1, None, 3], dtype="Int64"), [1, np.nan, 3]),
    "nullable floats": (pd.array([0.5, None, 3], dtype="Float64"), [0.5, np.nan, 3]),
    "nullable flags": (pd.array([True, None, False], dtype="boolean"), [1, np.nan, 0]),
    "sparse": (pd.arrays.SparseArray([0.0, 0.0, 2.5]), [0, 0, 2.5]),
    "decimals": ([Decimal("1.5"), None, Decimal("NaN")], [1.5, np.nan, np.nan]),
    "fractions": ([Fraction(1, 4), None, 2], [0.25, np.nan, 2]),
    "objects": ([1, pd.NA, 2.5], [1, np.nan, 2.5]),
    "nothing": ([None, None, None], [np.nan] * 3),
}


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_of_pandas(case: str) -> None:
    values, expected = NUMBERS[case]
    column = only_column(values)
    assert column.kind == "number"
    assert column.values.dtype == np.float64
    assert same(column.values, expected)


TIMES: dict[str, tuple[Any, str, list[float]]] = {
    "dates": (pd.to_datetime(["1970-01-02", None]), "date", [DAY, np.nan]),
    "before 1970": (pd.to_datetime(["1969-12-31", None]), "date", [-DAY, np.nan]),
    "seconds": (pd.to_datetime(["1970-01-02", None]).as_unit("s"), "date", [DAY, np.nan]),
    "microseconds": (pd.to_datetime(["1970-01-01 00:00:00.25", None]), "date", [0.25, np.nan]),
    "zones": (
        pd.to_datetime(["1970-01-02", None]).tz_localize("CET"),
        "date",
        [DAY - HOUR, np.nan],
    ),
    "date objects": ([date(1970, 1, 2), None], "date", [DAY, np.nan]),
    "datetime objects": ([datetime(1970, 1, 1, 1), pd.NaT], "date", [HOUR, np.nan]),
    "durations": (pd.to_timedelta(["90s", None]), "duration", [90.0, np.nan]),
    "duration objects": ([timedelta(hours=1), None], "duration", [HOUR, np.nan]),
}


@pytest.mark.parametrize("case", TIMES)
def test_dates_and_durations_are_seconds(case: str) -> None:
    values, kind, expected = TIMES[case]
    column = only_column(values)
    assert column.kind == kind
    assert same(column.values, expected)


LABELS: dict[str, tuple[Any, str, list[float], tuple[Any, ...]]] = {
    "strings": (["b", "a", None], "nominal", [0, 1, np.nan], ("b", "a")),
    "string dtype": (
        pd.array(["b", "a", None], dtype="string"),
        "nominal",
        [0, 1, np.nan],
        ("b", "a"),
    ),
    "bytes": ([b"b", b"a", None], "nominal", [0, 1, np.nan], ("b", "a")),
    "categories": (
        pd.Categorical(["b", "a", None], categories=["c", "b", "a"]),
        "nominal",
        [1, 2, np.nan],
        ("c", "b", "a"),
    ),
    "ordered categories": (
        pd.Categorical(["S", "L", None], categories=["S", "M", "L"], ordered=True),
        "ordered",
        [0, 2, np.nan],
        ("S", "M", "L"),
    ),
    "numbers as categories": (pd.Categorical([30, 10, None]), "nominal", [1, 0, np.nan], (10, 30)),
    "flags as categories": (
        pd.Categorical([True, False, None]),
        "nominal",
        [1, 0, np.nan],
        (False, True),
    ),
    "days as categories": (
        pd.Categorical([date(2020, 1, 2), date(2020, 1, 1), None]),
        "nominal",
        [1, 0, np.nan],
        ("2020-01-01", "2020-01-02"),
    ),
    "categories without values": (
        pd.Categorical([None] * 3, ["u"]),
        "nominal",
        [np.nan] * 3,
        ("u",),
    ),
}


@pytest.mark.parametrize("case", LABELS)
def test_labels_of_pandas(case: str) -> None:
    values, kind, expected, levels = LABELS[case]
    column = only_column(values)
    assert (column.kind, column.levels) == (kind, levels)
    assert same(column.values, expected)
    assert all(type(level) in (str, int, float, bool) for level in column.levels)


# The same table in other libraries

MIXED = pd.DataFrame(
    {
        "number": [1.5, np.nan, 3.0, 1.5],
        "count": [3, 1, 2, 3],
        "flag": [True, False, True, True],
        "nullable": pd.array([1, None, 3, 1], dtype="Int64"),
        "text": ["b", "a", None, "b"],
        "colour": pd.Categorical(["b", "a", None, "b"], categories=["c", "b", "a"]),
        "when": pd.to_datetime(["2020-01-02", None, "2020-01-01", "2020-01-02"]),
        "zoned": pd.to_datetime(["2020-01-02", None, "2020-01-01", "2020-01-02"]).tz_localize(
            "CET"
        ),
        "wait": pd.to_timedelta(["2s", None, "1s", "2s"]),
        "amount": [Decimal("1.5"), None, Decimal("2"), Decimal("1.5")],
    }
)


def in_library(frame: pd.DataFrame, library: str) -> Any:
    """The same table in polars, as an Arrow table or batch, in pandas on Arrow, in narwhals."""
    if library == "narwhals":
        return nw.from_native(frame)
    if library == "polars":
        return pytest.importorskip("polars").from_pandas(frame)
    arrow = pytest.importorskip("pyarrow")
    table = arrow.Table.from_pandas(frame)
    if library == "arrow batch":
        return table.to_batches()[0]
    if library == "arrow chunks":
        return arrow.concat_tables([table.slice(0, 1), table.slice(1)])
    return table.to_pandas(types_mapper=pd.ArrowDtype) if library == "pandas on arrow" else table


def decoded(column: Column) -> list[Any]:
    """Values of a column with labels in place of the numbers of levels."""
    labels = [column.levels[int(v)] if v == v else None for v in column.values if column.levels]
    return labels or [None if v != v else v for v in column.values.tolist()]


LIBRARIES = ["narwhals", "polars", "arrow", "arrow batch", "arrow chunks", "pandas on arrow"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_libraries_agree(library: str) -> None:
    """Kinds and values are those of pandas; only the numbers of levels may differ."""
    ours, theirs = Table(MIXED), Table(in_library(MIXED, library))
    assert (theirs.names, theirs.n_rows, theirs.n_features) == (tuple(MIXED), 4, MIXED.shape[1])
    for feature in range(ours.n_features):
        expected, found = ours.column(feature), theirs.column(feature)
        assert found.kind == expected.kind
        assert decoded(found) == decoded(expected)


@pytest.mark.parametrize("library", LIBRARIES)
def test_columns_are_reordered_by_name(library: str) -> None:
    table = Table(in_library(MIXED, library)).reorder(["text", "number"])
    assert table.names == ("text", "number")
    assert table.n_features == 2
    assert decoded(table.column(0)) == ["b", "a", None, "b"]
    assert same(table.column(1).values, [1.5, np.nan, 3.0, 1.5])


def test_gaps_and_chunks_of_arrow_dictionaries() -> None:
    arrow = pytest.importorskip("pyarrow")
    parts = [["a", None], ["b", "a"]]  # each chunk has a dictionary of its own
    column = arrow.chunked_array([arrow.array(part).dictionary_encode() for part in parts])
    assert decoded(Table(arrow.table({"g": column})).column(0)) == ["a", None, "b", "a"]
    batch = arrow.record_batch({"g": arrow.array(["a", None]).dictionary_encode()})
    assert same(Table(batch).column(0).values, [0.0, np.nan])


def test_ordered_arrow_dictionaries_keep_their_order() -> None:
    arrow = pytest.importorskip("pyarrow")
    codes = arrow.array([1, None, 0], arrow.int8())
    sizes = arrow.DictionaryArray.from_arrays(codes, ["S", "L"], ordered=True)
    column = Table(arrow.table({"size": sizes})).column(0)
    assert (column.kind, column.levels) == ("ordered", ("S", "L"))
    assert same(column.values, [1, np.nan, 0])


def test_arrow_dictionaries_in_pandas_keep_their_order() -> None:
    arrow = pytest.importorskip("pyarrow")
    for ordered, kind in ((True, "ordered"), (False, "nominal")):
        codes = arrow.array([1, None, 0], arrow.int8())
        sizes = arrow.DictionaryArray.from_arrays(codes, ["S", "L"], ordered=ordered)
        column = only_column(pd.arrays.ArrowExtensionArray(arrow.chunked_array([sizes])))
        assert (column.kind, column.levels) == (kind, ("S", "L"))
        assert same(column.values, [1, np.nan, 0])


def test_labels_of_arrow_dictionaries_may_be_missing_or_repeated() -> None:
    arrow = pytest.importorskip("pyarrow")
    codes = arrow.array([3, 2, 1, 0, None], arrow.int8())
    towns = arrow.DictionaryArray.from_arrays(codes, arrow.array(["Ulm", None, "Bonn", "Ulm"]))
    column = Table(arrow.table({"town": towns})).column(0)
    assert column.levels == ("Ulm", "Bonn")
    assert same(column.values, [0, 1, np.nan, 0, np.nan])


def test_a_string_and_its_bytes_are_one_level() -> None:
    column = only_column(["a", b"a", "b", None])
    assert column.levels == ("a", "b")
    assert same(column.values, [0, 0, 1, np.nan])


def test_polars_enums_are_nominal() -> None:
    polars = pytest.importorskip("polars")
    sizes = polars.Series(["S", None, "L"], dtype=polars.Enum(["S", "M", "L"]))
    assert Table(polars.DataFrame({"size": sizes})).column(0)[0::2] == ("nominal", ("S", "L"))


def test_dates_of_pandas_in_arrow_memory() -> None:
    arrow = pytest.importorskip("pyarrow")
    days = pd.Series([date(1970, 1, 2), None], dtype=pd.ArrowDtype(arrow.date32()))
    column = only_column(days)
    assert column.kind == "date"
    assert same(column.values, [DAY, np.nan])


def test_a_column_may_be_called_like_an_attribute() -> None:
    table = Table(pd.DataFrame({"column_names": [1.0], "columns": [2.0], "iloc": [3.0]}))
    assert table.names == ("column_names", "columns", "iloc")
    assert [table.column(feature).values.item() for feature in range(3)] == [1.0, 2.0, 3.0]


def test_numbered_columns_of_pandas_have_no_names() -> None:
    frame = pd.concat([pd.DataFrame([[1.0], [2.0]]), pd.DataFrame([["u"], ["v"]])], axis=1)
    table = Table(frame)  # both columns are called 0
    assert table.names is None
    assert table.name(1) == "x1"
    assert table.column(0).values.tolist() == [1.0, 2.0]
    assert table.column(1).levels == ("u", "v")


def test_columns_with_labels_are_read_once() -> None:
    table = Table(pd.DataFrame({"a": ["x", "y"], "b": [1.0, 2.0]}))
    assert table.column(0) is table.column(0)
    assert table.column(1) is not table.column(1)
    assert table.reorder(["b", "a"]).column(0).kind == "number"


# Arrays and lists


@given(arrays(float, array_shapes(min_dims=2, max_dims=2), elements=st.floats(-1e9, 1e9)))
def test_columns_of_an_array_are_its_columns(X: np.ndarray) -> None:
    table = Table(X)
    assert (table.n_rows, table.n_features) == X.shape
    assert table.is_finite
    for feature in range(table.n_features):
        assert np.array_equal(table.column(feature).values, X[:, feature])


@pytest.mark.parametrize("dtype", ["f2", "f4", "i1", "u8", "?", "O"])
def test_arrays_of_any_number(dtype: str) -> None:
    X = np.array([[1, 0], [0, 1]]).astype(dtype)
    assert Table(X).column(1).values.tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2], [1.0, np.nan]),
        ([1.5, 2.5], [1.5, np.nan]),
        ([True, False], [1.0, np.nan]),
        (["b", "a"], [0.0, np.nan]),
        (np.array([2, 3], "timedelta64[s]"), [2.0, np.nan]),
        (np.array([1, 2], "datetime64[s]"), [1.0, np.nan]),
    ],
)
def test_masked_values_are_missing(values: Any, expected: list[float]) -> None:
    masked = np.ma.array(np.asarray(values)[:, None], mask=[[False], [True]])
    assert same(Table(masked).column(0).values, expected)


@pytest.mark.parametrize("kind", [list, tuple])
def test_numbers_beside_strings_in_a_list_stay_numbers(kind: Any) -> None:
    table = Table(kind([[1, "a"], [3, "b"]]))
    assert table.column(0).kind == "number"
    assert table.column(0).values.tolist() == [1.0, 3.0]
    assert table.column(1).levels == ("a", "b")


LONG = "long" * 50_000  # characters; as an array of fixed width, 1000 rows have 800 MB


def strings_in(library: str) -> Any:
    """A thousand short strings and a long one."""
    values = ["short"] * 1000 + [LONG]
    if library == "list":
        return [[value, 1.0] for value in values]
    if library in ("polars", "pyarrow"):
        module = pytest.importorskip(library)
        return (
            module.DataFrame({"a": values}) if library == "polars" else module.table({"a": values})
        )
    dtype = object if library == "masked array" else library
    frame = pd.DataFrame({"a": pd.Series(values, dtype=dtype)})
    return np.ma.array(frame.to_numpy(), mask=False) if library == "masked array" else frame


@pytest.mark.parametrize(
    "library", ["list", "polars", "pyarrow", "masked array", "object", "string", "category"]
)
def test_a_long_string_needs_room_once(library: str) -> None:
    X = strings_in(library)
    tracemalloc.start()
    try:
        column = Table(X).column(0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert column.levels == ("short", LONG) or column.levels == (LONG, "short")
    assert peak < 10 * len(LONG)


@given(arrays(float, st.integers(0, 20), elements=st.floats(allow_nan=True, width=64)))
def test_all_finite_is_what_it_says(values: np.ndarray) -> None:
    """Even where the sum of finite numbers overflows."""
    assert all_finite(values) == bool(np.isfinite(values).all())


def test_only_arrays_are_checked_as_a_whole() -> None:
    assert not Table(np.array([[1.0, np.nan]])).is_finite
    assert not Table(pd.DataFrame({"a": np.ones(MAX_FEW_ROWS + 1)})).is_finite
    assert Table(np.array([[1, 2]])).is_finite


SMALL_FRAMES = {
    "one type": {"a": [1.0, np.nan], "b": [2.0, 3.0]},
    "several types": {"a": np.array([1, 2], np.int8), "b": [0.1, 0.2]},
    "single precision": {"a": np.array([1, 2**31 - 1], np.int32), "b": np.float32([0.1, np.nan])},
    "flags": {"a": [True, False], "b": [1.5, 2.5]},
    "categories of numbers": {"a": pd.Categorical([3, 1]), "b": [1, 2]},
    "large numbers": {"a": [2**53 + 1, 2**53], "b": [0.5, 1.5]},
    "large and negative numbers": {"a": np.array([2**64 - 1, 1], np.uint64), "b": [-1, 1]},
    "nullable": {"a": pd.array([1, None], "Int64"), "b": [1, 2]},
    "dates": {"a": pd.to_datetime(["2024-01-01", "2024-01-02"]), "b": [1, 2]},
}


@pytest.mark.parametrize("case", SMALL_FRAMES)
def test_a_frame_of_few_rows_is_read_as_one_of_many(case: str) -> None:
    """As numbers and as levels, in any order of columns, and with one of them set aside."""
    few = pd.DataFrame(SMALL_FRAMES[case])
    many = pd.concat([few] * MAX_FEW_ROWS, ignore_index=True)
    for short, long in (
        (Table(few), Table(many)),
        (Table(few).reorder(["b", "a"]), Table(many).reorder(["b", "a"])),
        (Table(few).set_aside(1, False), Table(many).set_aside(1, False)),
    ):
        for feature in range(short.n_features):
            for read in (Table.column, Table.levels):
                kind, values, levels = read(short, feature)
                assert (kind, levels) == (read(long, feature).kind, read(long, feature).levels)
                assert same(np.tile(values, MAX_FEW_ROWS), read(long, feature).values)
    aside = Table(few).set_aside(1, False).read_offset_column()
    assert same(aside.values, many["b"][:2])


def test_an_infinite_value_is_found_in_a_frame_of_one_row() -> None:
    with pytest.raises(ValueError, match="found inf in column 'b'"):
        Table(pd.DataFrame({"a": [1.0], "b": [np.inf]})).column(1)


@pytest.mark.parametrize("value", [None, np.nan, pd.NA, pd.NaT, Decimal("NaN"), np.float32("nan")])
def test_missing_values(value: Any) -> None:
    assert is_missing(value)
    assert same(read_column(np.array([value, 1.0], dtype=object), "a").values, [np.nan, 1.0])


@pytest.mark.parametrize("value", [0, "", "nan", False, np.inf, date(2020, 1, 1), timedelta(0)])
def test_present_values(value: Any) -> None:
    assert not is_missing(value)


# What is refused

BAD: dict[str, tuple[Any, type[Exception], str]] = {
    "sparse matrix": (sparse.eye_array(3), TypeError, "must be dense, sparse input is"),
    "one dimension": (
        np.ones(3),
        ValueError,
        r"a 2-dimensional table is needed, found shape \(3,\)",
    ),
    "a list of numbers": ([1.0, 2.0], ValueError, "a 2-dimensional table is needed, found shape"),
    "a list of strings": (["ab", "c"], ValueError, "a 2-dimensional table is needed, found shape"),
    "three dimensions": (np.ones((2, 2, 2)), ValueError, "a 2-dimensional table is needed"),
    "a series": (pd.Series([1.0]), ValueError, "a 2-dimensional table is needed"),
    "nothing": (None, ValueError, r"a 2-dimensional table is needed, found shape \(\)"),
    "no columns": (np.ones((2, 0)), ValueError, r"a table needs columns, found 0 feature\(s\)"),
    "no columns in pandas": (pd.DataFrame(index=[0, 1]), ValueError, "a table needs columns"),
    "repeated names": (
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        ValueError,
        r"column names must be unique, found \['a'\] more than once",
    ),
    "some names": (
        pd.DataFrame([[1, 2]], columns=["a", 1]),
        TypeError,
        "feature names must all be strings, found 1 of type int",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_tables_that_are_refused(case: str) -> None:
    X, error, words = BAD[case]
    with pytest.raises(error, match=f"^X: {words}"):
        Table(X)


BAD_COLUMNS: dict[str, tuple[Any, type[Exception], str]] = {
    "infinite": (
        [1.0, np.inf],
        ValueError,
        r"every value must be .*, found inf in column 'a' \(1 of",
    ),
    "complex": ([1j, 2], ValueError, "columns must be real numbers, found complex numbers in 'a'"),
    "mixture": (
        ["one", 2],
        TypeError,
        "a column must hold numbers, dates or strings, found 2 of ty",
    ),
    "lists": (
        [[1], [2]],
        TypeError,
        r"a column must hold numbers, dates or strings, found \[1\] of",
    ),
    "dates and numbers": ([date(2020, 1, 1), 1], TypeError, "a column must hold numbers, dates or"),
    "periods": (
        pd.period_range("2020", periods=2, freq="M"),
        TypeError,
        r".* found Period.* for example with X\[name\]\.dt\.to_timestamp\(\)",
    ),
    "times of day": (
        [time(1)] * 2,
        TypeError,
        r".* found datetime\.time.* to seconds since midnight",
    ),
    "intervals as levels": (
        pd.cut([1, 2], 2),
        TypeError,
        "levels must be strings, numbers or dates",
    ),
}


@pytest.mark.parametrize("case", BAD_COLUMNS)
def test_columns_that_are_refused(case: str) -> None:
    values, error, words = BAD_COLUMNS[case]
    with pytest.raises(error, match=f"^X: {words}"):
        only_column(values)


def test_repeated_names_in_arrow() -> None:
    arrow = pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match=r"^X: column names must be unique, found \['a'\]"):
        Table(arrow.table([arrow.array([1]), arrow.array([2])], names=["a", "a"]))


def test_lazy_tables_are_refused() -> None:
    lazy = pytest.importorskip("polars").LazyFrame({"a": [1.0]})
    with pytest.raises(
        TypeError, match=r"^X: must be in memory, and a lazy LazyFrame has no rows yet\. Pass"
    ):
        Table(lazy)
    with pytest.raises(TypeError, match=r"^X: must be in memory"):
        Table(nw.from_native(lazy))


def test_columns_that_a_table_lacks() -> None:
    table = Table(pd.DataFrame({"a": [1.0], "b": [2.0]}))
    with pytest.raises(ValueError, match=r"the columns seen during fit are needed, \['c'\] is mis"):
        table.reorder(["a", "c"])
    with pytest.raises(ValueError, match=r"\['c', 'd'\] are missing\. Found \['a', 'b'\]\."):
        table.reorder(["c", "d"])


def test_arrays_are_read_with_numpy_alone() -> None:
    code = (
        "import sys, numpy as np; from tpnn.table.table import Table; "
        "Table(np.ones((2, 2))).column(0); Table([[1, 'a'], [2, 'b']]).column(1); "
        "print(sorted({'narwhals', 'pandas', 'polars', 'pyarrow'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("kind", ["array", "named", "numbered"])
def test_a_column_that_is_set_aside_is_no_feature(kind: str, place: int) -> None:
    rows = np.arange(12.0).reshape(4, 3)
    names = list("abc") if kind == "named" else [0, 1, 2]
    X = rows if kind == "array" else pd.DataFrame(rows, columns=names)
    whole = Table(X)
    table = whole.set_aside(place, is_exposure=False)
    left = [j for j in range(3) if j != place]
    assert (table.n_features, table.n_columns, whole.n_features) == (2, 3, 3)
    for feature, j in enumerate(left):
        assert np.array_equal(table.column(feature).values, rows[:, j])
        assert table.name(feature) == whole.name(j)
    assert np.array_equal(table.read_offset_column().values, rows[:, place])
    assert table.column_names == whole.column_names == [whole.name(j) for j in range(3)]


def test_dates_with_time_zones_as_python_objects() -> None:
    """The same moments in several zones, in a frame, an array of objects and a list of rows."""
    moments = [datetime(2024, 3, 1, hour, tzinfo=UTC) for hour in (0, 7, 23)]
    zones = timezone(timedelta(hours=5, minutes=45)), timezone(timedelta(hours=-11)), UTC
    zoned = [moment.astimezone(zone) for moment, zone in zip(moments, zones, strict=True)]
    expected = [moment.timestamp() for moment in moments]
    for table in (
        pd.DataFrame({"when": pd.Series(zoned, dtype=object)}),
        np.array([zoned], dtype=object).T,
        [[moment] for moment in zoned],
    ):
        column = Table(table).column(0)
        assert column.kind == "date"
        assert column.values.tolist() == expected
