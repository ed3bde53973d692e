"""Words: numbers that a model works on, written as the user's values."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpnn.table.axis import Axis
from tpnn.table.encoder import Feature, TableEncoder
from tpnn.table.table import Table
from tpnn.table.words import chance, column, node_words, originals, signed_column, value_word

NUMBERS = json.loads((Path(__file__).parents[1] / "numbers.json").read_text("utf-8"))


def words_of(values: Any) -> list[str]:
    """Words for the nodes of a column, in the order of its axis."""
    encoder = TableEncoder.fit(Table(pd.DataFrame({"a": values})), {1: 8})
    return node_words(encoder.axes[1][0])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([0.5, 2.0, None], ["0.5", "2", "(missing)"]),
        (["b", "b", "a"], ["b", "a"]),
        (pd.Categorical([10, 30, 10]), ["10", "30"]),
        (pd.to_datetime(["2020-03-01", "2020-02-29"]), ["2020-02-29", "2020-03-01"]),
        (pd.to_datetime(["2020-03-01 06:30", None]), ["2020-03-01T06:30:00", "(missing)"]),
        (pd.to_timedelta(["36h", "1h"]), ["0.0416667 days", "1.5 days"]),
        ([None, None], ["(missing)"]),
    ],
)
def test_nodes_in_words(values: Any, words: list[str]) -> None:
    assert words_of(values) == words


def test_a_value_in_words() -> None:
    levels = Feature("nominal", ("a", "b"))
    assert value_word(levels, 1.0) == "b"
    assert value_word(levels, np.nan) == "(missing)"
    assert value_word(levels, np.inf) == "(unseen level)"
    assert value_word(Feature("number"), 1 / 3) == "0.333333"
    assert value_word(Feature("date"), 0.0) == "1970-01-01"


days = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1))
spans = st.timedeltas(timedelta(-1000), timedelta(1000))


@given(st.lists(st.one_of(days, st.none()), min_size=1))
def test_dates_return_as_they_were(values: list[datetime | None]) -> None:
    times = np.array(values, "datetime64[us]")
    column = Table(times[:, None]).column(0)
    assert np.array_equal(originals(column.kind, column.values), times, equal_nan=True)


@given(st.lists(st.one_of(spans, st.none()), min_size=1))
def test_durations_return_as_they_were(values: list[timedelta | None]) -> None:
    times = np.array(values, "timedelta64[us]")
    column = Table(times[:, None]).column(0)
    assert np.array_equal(originals(column.kind, column.values), times, equal_nan=True)


@given(st.lists(st.one_of(st.text(max_size=3), st.none()), min_size=1))
def test_labels_return_as_they_were(values: list[str | None]) -> None:
    column = Table(np.array(values, dtype=object)[:, None]).column(0)
    found = originals(column.kind, column.values, column.levels)
    assert found.tolist() == (
        values if column.levels else [pytest.approx(np.nan, nan_ok=True)] * len(values)
    )


def test_unseen_levels_have_no_label() -> None:
    assert originals("nominal", np.array([1.0, np.inf, np.nan]), ["a", "b"]).tolist() == [
        "b",
        None,
        None,
    ]


def test_numbers_stay_numbers() -> None:
    numbers = np.array([1.0, np.nan])
    assert originals("number", numbers) is numbers
    axis = Axis(np.array([1.0, 1e6, 1234567.0]), np.full(3, 1 / 3))
    assert node_words(axis) == ["1", "1e+06", "1.23457e+06"]


@pytest.mark.parametrize(("numbers", "resolution", "texts"), NUMBERS)
def test_numbers_are_written_as_in_the_shared_table(
    numbers: list[float | None], resolution: float, texts: list[str]
) -> None:
    """The report reads the same table in a browser."""
    assert column(numbers, resolution) == texts


def plain(text: str) -> float:
    """Number of a text without a unit."""
    for shown, read in (("\N{MINUS SIGN}", "-"), ("\N{NARROW NO-BREAK SPACE}", "")):
        text = text.replace(shown, read)
    return float(text)


@given(st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=5))
def test_texts_read_as_their_numbers_up_to_half_of_the_last_digit(numbers: list[float]) -> None:
    texts = column(numbers)
    decimals = {len(text.partition(".")[2]) for text in texts if "e" not in text}
    assert len(decimals - {0}) <= 1
    largest = max(map(abs, numbers))
    for x, text in zip(numbers, texts, strict=True):
        assert abs(plain(text) - x) <= max(0.5, 0.051 * largest)
        assert not text.startswith("-")
        if "e" in text:
            assert plain(text) == pytest.approx(x, rel=0.051)


def test_differences_have_signs_and_chances_are_never_certain() -> None:
    assert signed_column([0.5, -0.25, 0.0]) == ["+0.50", "\N{MINUS SIGN}0.25", "0.00"]
    assert [chance(x) for x in (0.0, 1e-9, 0.5, 1 - 1e-9, 1.0)] == [
        "0.0 %", "< 0.1 %", "50.0 %", "> 99.9 %", "100.0 %",
    ]  # fmt: skip
