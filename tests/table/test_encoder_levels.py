"""Numbers as levels: exact in every library, and the same whether they are a category or not."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tpnn.table.axis import OTHERS
from tpnn.table.encoder import LevelRules, TableEncoder
from tpnn.table.table import Table

# Whole numbers that are no doubles

LARGE = 2**53
IDS = [LARGE + 1, LARGE, LARGE + 2, LARGE + 1]


def large_numbers(library: str) -> Any:
    """The same identifiers, of which two agree as doubles, in several libraries; none missing."""
    if library == "array":
        return np.array(IDS)[:, None]
    if library == "list":
        return [[number, 0.5] for number in IDS]
    if library == "masked array":
        return np.ma.array(np.array(IDS, np.uint64)[:, None], mask=False)
    if library == "polars":
        return pytest.importorskip("polars").DataFrame({"id": IDS})
    if library == "pyarrow":
        return pytest.importorskip("pyarrow").table({"id": IDS})
    if library == "pandas on arrow":
        arrow = pytest.importorskip("pyarrow")
        return pd.DataFrame({"id": pd.Series(IDS, dtype=pd.ArrowDtype(arrow.uint64()))})
    if library == "arrow dictionaries in pandas":
        arrow = pytest.importorskip("pyarrow")
        column = arrow.chunked_array([arrow.array(IDS).dictionary_encode()])
        return pd.DataFrame({"id": pd.arrays.ArrowExtensionArray(column)})
    dtypes = {"objects": object, "decimals": object, "categories": "category"}
    values = [Decimal(number) for number in IDS] if library == "decimals" else IDS
    return pd.DataFrame({"id": pd.Series(values, dtype=dtypes.get(library, library))})


LARGE_IN = ["array", "list", "masked array", "polars", "pyarrow", "pandas on arrow", "objects"]
LARGE_IN += ["decimals", "int64", "uint64", "Int64", "UInt64", "categories"]
LARGE_IN += ["arrow dictionaries in pandas"]


@pytest.mark.parametrize("library", LARGE_IN)
def test_large_integers_as_levels_are_exact(library: str) -> None:
    table = Table(large_numbers(library))
    encoder = TableEncoder.fit(table, {1: 8}, rules=LevelRules(nominal=[0]))
    assert encoder.features[0][:2] == ("nominal", (LARGE, LARGE + 1, LARGE + 2))
    assert encoder.numbers(table, 0).tolist() == [1.0, 0.0, 2.0, 1.0]


@pytest.mark.parametrize("fitted", LARGE_IN)
@pytest.mark.parametrize("read", ["array", "polars", "Int64", "categories"])
def test_large_levels_agree_between_types(fitted: str, read: str) -> None:
    rules = LevelRules(nominal=[0])
    encoder = TableEncoder.fit(Table(large_numbers(fitted)), {1: 8}, rules=rules)
    assert encoder.numbers(Table(large_numbers(read)), 0).tolist() == [1.0, 0.0, 2.0, 1.0]


@pytest.mark.parametrize("library", ["polars", "pyarrow", "Int64", "objects", "masked array"])
def test_missing_values_beside_large_levels(library: str) -> None:
    values = [*IDS[:3], None]
    if library == "masked array":
        X: Any = np.ma.array(np.array(IDS)[:, None], mask=[[False]] * 3 + [[True]])
    elif library in ("polars", "pyarrow"):
        module = pytest.importorskip(library)
        X = (
            module.DataFrame({"id": values})
            if library == "polars"
            else module.table({"id": values})
        )
    else:
        dtype: Any = "Int64" if library == "Int64" else object
        X = pd.DataFrame({"id": pd.Series(values, dtype=dtype)})
    encoder = TableEncoder.fit(Table(X), {1: 8}, rules=LevelRules(nominal=[0]))
    assert encoder.features[0].levels == (LARGE, LARGE + 1, LARGE + 2)
    assert np.array_equal(encoder.numbers(Table(X), 0), [1, 0, 2, np.nan], equal_nan=True)


def test_rounded_floats_are_no_large_integers() -> None:
    """A float that was an integer may be any of several."""
    rules = LevelRules(nominal=[0])
    encoder = TableEncoder.fit(Table(np.array(IDS)[:, None]), {1: 8}, rules=rules)
    with pytest.raises(TypeError, match=r"^X: column 'x0' must hold integers as in fit, found fl"):
        encoder.numbers(Table(np.array(IDS, float)[:, None]), 0)
    with pytest.raises(TypeError, match=r"^X: column 'x0' must hold integers"):
        encoder.numbers(Table(np.array([[2.0**53]])), 0)  # which may have been 2**53 + 1
    floats = np.array([[1e17], [2e17], [0.5]])
    encoder = TableEncoder.fit(Table(floats), {1: 8}, rules=rules)
    assert encoder.numbers(Table(floats), 0).tolist() == [1.0, 2.0, 0.0]


# Categories of numbers, and numbers


@pytest.mark.parametrize(
    "values",
    [[3, 1, 2, 1], [2.5, 1.0, 0.25, 1.0], [True, False, True, False], [10, 2, 2**60, 2]],
)
@pytest.mark.parametrize("ordered", [False, True])
def test_categories_of_numbers_agree_with_numbers(values: list, ordered: bool) -> None:
    """In both directions: a category in fit and numbers in predict, and the reverse."""
    plain = Table(pd.DataFrame({"a": values}))
    category = Table(pd.DataFrame({"a": pd.Categorical(values, ordered=ordered)}))
    for rules in (LevelRules(), LevelRules(nominal=[0])):
        for one, other in ((plain, category), (category, plain)):
            encoder = TableEncoder.fit(one, {1: 8}, rules=rules)
            assert np.array_equal(encoder.numbers(one, 0), encoder.numbers(other, 0))


def test_arrow_dictionaries_of_numbers_agree_with_numbers() -> None:
    arrow = pytest.importorskip("pyarrow")
    polars = pytest.importorskip("polars")
    values = [LARGE + 1, 7, LARGE, 7]
    tables = [
        Table(arrow.table({"a": arrow.array(values).dictionary_encode()})),
        Table(polars.DataFrame({"a": values})),
        Table(pd.DataFrame({"a": pd.Categorical(values)})),
    ]
    encoder = TableEncoder.fit(tables[0], {1: 8})
    for table in tables:
        assert encoder.numbers(table, 0).tolist() == [2.0, 0.0, 1.0, 0.0]


def test_strings_of_a_mixed_category_are_read_alone() -> None:
    train = Table(pd.DataFrame({"a": pd.Categorical(["x", 2, 1.5, "y"])}))
    encoder = TableEncoder.fit(train, {1: 8})
    for read, expected in ((["y", "x"], [3.0, 2.0]), ([2, 1.5], [1.0, 0.0])):
        assert encoder.numbers(Table(pd.DataFrame({"a": read})), 0).tolist() == expected


def test_messages_about_long_levels_are_short() -> None:
    encoder = TableEncoder.fit(Table(pd.DataFrame({"a": ["b" * 10**6, "c"]})), {1: 8})
    with pytest.raises(
        TypeError, match=r"^X: column 'a' must hold levels like .*bbb\.\.\.bbb"
    ) as e:
        encoder.numbers(Table(pd.DataFrame({"a": [1, 2]})), 0)
    assert len(str(e.value)) < 300


@pytest.mark.parametrize("weights", [None, np.full(60, 3.0), np.full(60, 0.1)])
def test_single_rows_of_an_identifier_share_a_node(weights: np.ndarray | None) -> None:
    labels = np.array([f"u{number:02}" for number in range(50)] + [f"u{n:02}" for n in range(10)])
    table = Table(pd.DataFrame({"id": labels, "x": ["a", "b", "c"] * 20}))
    encoder = TableEncoder.fit(table, {1: 64, 2: 8}, weights)
    assert encoder.identifiers(table, weights) == [0]
    axis = encoder.axes[1][0]
    assert axis.levels == (*(f"u{number:02}" for number in range(10)), OTHERS)
    assert axis.weights == pytest.approx([1 / 30] * 10 + [2 / 3])


def test_levels_of_two_rows_each_keep_their_nodes() -> None:
    table = Table(pd.DataFrame({"id": [f"u{number}" for number in range(50)] * 2}))
    encoder = TableEncoder.fit(table, {1: 8})
    assert encoder.axes[1][0].n_nodes == 50
    assert encoder.identifiers(table, None) == []


def test_missing_values_are_no_rows_of_an_identifier() -> None:
    labels = [f"u{number}" for number in range(30)] + [None] * 70
    table = Table(pd.DataFrame({"id": pd.Series(labels, dtype=object)}))
    assert TableEncoder.fit(table, {1: 8}).identifiers(table, None) == [0]
