"""Offsets: one finite number per row, or the reason why not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tpnn.loss.row_values import checked_numbers, checked_offset, column_offset
from tpnn.table.table import OffsetColumn, Table


def test_no_offset_is_zero() -> None:
    assert checked_offset(None, 3).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "offset",
    [[1, 2, 3], np.array([1.0, 2.0, 3.0], np.float32), pd.Series([1, 2, 3], index=[5, 5, 6])],
)
def test_offsets_of_any_kind(offset: Any) -> None:
    found = checked_offset(offset, 3)
    assert found.dtype == np.float64
    assert found.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        ([1.0, 2.0], r"one finite number per row is needed, found shape \(2,\) for 3 rows"),
        (np.ones((3, 1)), r"one finite number per row is needed, found shape \(3, 1\) for 3 rows"),
        (1.0, r"one finite number per row is needed, found shape \(\) for 3 rows"),
        ([1.0, np.nan, np.inf], "one finite number per row is needed, found NaN or inf in 2 rows"),
        (["a", "b", "c"], "must be numbers, found could not convert string to float"),
    ],
)
def test_bad_offsets(offset: Any, words: str) -> None:
    with pytest.raises(ValueError, match=f"^offset: {words}"):
        checked_offset(offset, 3)


def test_errors_name_the_argument() -> None:
    with pytest.raises(ValueError, match=r"^weights: must be numbers, found .* Pass numbers\.$"):
        checked_numbers("weights", [object()])


@pytest.mark.parametrize("is_exposure", [False, True])
@pytest.mark.parametrize("values", [[1, 2], [0.5, 1e-300], [True, True]])
def test_offsets_of_a_column(is_exposure: bool, values: Any) -> None:
    table = Table(pd.DataFrame({"a": [0, 0], "b": values})).set_aside(1, is_exposure)
    expected = np.log(np.array(values, float)) if is_exposure else np.array(values, float)
    assert table.offset_column == OffsetColumn("b", 1, is_exposure)
    assert np.array_equal(column_offset(table, table.offset_column), expected)


@pytest.mark.parametrize(
    ("values", "is_exposure", "words"),
    [
        ([1.0, 0.0], True, r"exposure: every number of column 'b' must be positive and finite"),
        ([1.0, np.inf], True, r"exposure: .* found 1 of 2 that are not, such as inf"),
        ([None, 1.0], False, r"offset: every number of column 'b' must be finite, found 1 of 2"),
        (["x", "y"], False, r"offset: column 'b' must hold numbers, found nominal values"),
        (pd.to_datetime(["2020", "2021"]), True, r"exposure: .* must hold numbers, found date"),
    ],
)
def test_bad_columns(values: Any, is_exposure: bool, words: str) -> None:
    table = Table(pd.DataFrame({"a": [0, 0], "b": values})).set_aside(1, is_exposure)
    assert table.offset_column is not None
    with pytest.raises(ValueError, match=f"^{words}"):
        column_offset(table, table.offset_column)


def test_a_column_without_a_name_is_called_by_its_position() -> None:
    wanted = OffsetColumn(None, 2, is_exposure=True)
    with pytest.raises(ValueError, match=r"^X: column 2 is needed, because it is the exposure"):
        column_offset(Table([[1, 2]]), wanted)
