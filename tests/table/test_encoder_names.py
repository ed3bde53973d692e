"""Columns of new tables: found by what they are called, also where that is not a string."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tpnn import TPNNRegressor, load
from tpnn.table.encoder import TableEncoder
from tpnn.table.table import Table

NAMES: dict[str, list[Any]] = {
    "counted": [0, 1, 2],
    "permuted": [2, 0, 1],
    "years": [2019, 2020, 2021],
    "dates": list(pd.to_datetime(["2019", "2020", "2021"])),
    "tuples": [("a", 1), ("a", 2), ("b", 1)],
    "digits": ["0", "1", "2"],
}


@pytest.mark.parametrize("case", NAMES)
def test_columns_are_matched_by_names_that_are_no_strings(case: str) -> None:
    rows = np.array([[1.0, 10.0, 100.0], [2.0, 20.0, 200.0]])
    frame = pd.DataFrame(rows)
    frame.columns = pd.Index(NAMES[case])
    encoder = TableEncoder.fit(Table(frame), {1: 8})
    for order in ([2, 0, 1], [1, 0, 2], [0, 1, 2]):
        found = encoder.columns(encoder.read(frame.iloc[:, order]))
        assert np.array_equal(np.column_stack(found), rows)
        as_text = frame.set_axis([str(name) for name in frame.columns], axis=1)
        found = encoder.columns(encoder.read(as_text.iloc[:, order]))
        assert np.array_equal(np.column_stack(found), rows)
    assert np.array_equal(encoder.columns(encoder.read(rows))[2], rows[:, 2])  # by position


@pytest.mark.parametrize(
    ("fitted", "read", "missing"),
    [
        ([0, 1, 2], [0, 1, 3], r"\['2'\] is"),
        ([1, 2, 3], [0, 1, 2], r"\['3'\] is"),
        ([10, 20, 30], [10, 20, 40], r"\['30'\] is"),
        ([10, 20, 30], ["a", "b", "c"], r"\['10', '20', '30'\] are"),
        (["a", "b", "c"], [10, 20, 30], r"\['a', 'b', 'c'\] are"),
    ],
)
def test_other_names_that_are_no_strings_are_refused(
    fitted: list, read: list, missing: str
) -> None:
    encoder = TableEncoder.fit(Table(pd.DataFrame(np.eye(3), columns=fitted)), {1: 8})
    with pytest.raises(ValueError, match=f"^X: the columns seen during fit are needed, {missing}"):
        encoder.read(pd.DataFrame(np.eye(3), columns=read))


@pytest.mark.parametrize(
    ("fitted", "read"),
    [([0, 1], ["a", "b"]), (["a", "b"], [0, 1]), ([10, 20], [0, 1]), ([0, 1], [10, 20])],
)
def test_counted_columns_have_no_names(fitted: list, read: list) -> None:
    """As in a data frame that was made from an array: columns are read by position."""
    rows = np.array([[1.0, 10.0], [2.0, 20.0]])
    encoder = TableEncoder.fit(Table(pd.DataFrame(rows, columns=fitted)), {1: 8})
    found = encoder.columns(encoder.read(pd.DataFrame(rows, columns=read)))
    assert np.array_equal(np.column_stack(found), rows)
    counted = TableEncoder.fit(Table(pd.DataFrame(rows)), {1: 8})
    with pytest.raises(ValueError, match="X has 3 features"):
        counted.read(pd.DataFrame(np.eye(3)))


def test_a_saved_model_knows_numbered_columns(quick: Any, tmp_path: Path) -> None:
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 3)), columns=[2019, 2021, 2020])
    model = TPNNRegressor(**quick).fit(X, X[2019] + X[2020] ** 2)
    assert not hasattr(model, "feature_names_in_")  # which scikit-learn keeps for strings
    model.model_.save(tmp_path / "model")
    again = load(tmp_path / "model").model_
    for order in ([2019, 2020, 2021], [2021, 2020, 2019]):
        assert np.array_equal(again.predict(X[order]), model.predict(X))
        assert np.array_equal(model.predict(X[order]), model.predict(X))


@pytest.mark.parametrize("names", [[0, 1, 2], [2021, 2019, 2020], ["b", "c", "a"], ["2", "0", "1"]])
def test_the_column_of_an_offset_is_found_too(names: list[Any]) -> None:
    """By what it is called, wherever it stands, when it is read and when it is read again."""
    rows = np.array([[1.0, 10.0, 100.0], [2.0, 20.0, 200.0]])
    frame = pd.DataFrame(rows, columns=names)
    encoder = TableEncoder.fit(Table(frame).set_aside(1, is_exposure=True), {1: 8})
    as_text = frame.set_axis([str(name) for name in names], axis=1)
    as_numbers = [frame.set_axis([int(name) for name in names], axis=1)] if names[0] != "b" else []
    for new in (frame, as_text, *as_numbers):
        for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
            table = encoder.read(encoder.read(new.iloc[:, order]))
            assert np.array_equal(np.column_stack(encoder.columns(table)), rows[:, [0, 2]])
            assert np.array_equal(table.read_offset_column().values, rows[:, 1])
