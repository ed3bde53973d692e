"""Offsets: one finite number per row, or the reason why not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tpnn.loss.offset import checked_numbers, checked_offset


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
