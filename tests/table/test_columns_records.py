"""Records: a list of dicts is the data frame of its values."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import QUICK
from tpnn import TPNNRegressor, TPNNSurvival, load
from tpnn.table.table import Table


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.normal(size=200),
            "rooms": rng.integers(1, 5, 200),
            "town": rng.choice(["Ulm", "Aix", "日本"], 200),
            "sold": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 99, 200), "D"),
            "new": rng.random(200) < 0.5,
        }
    )


def records_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    for row in rows:
        row["sold"] = None if row["sold"] is None else row["sold"].to_pydatetime()
    return rows


@pytest.fixture(scope="module")
def model(frame: pd.DataFrame) -> TPNNRegressor:
    gaps = frame.copy()
    gaps.loc[::7, "age"] = np.nan
    gaps.loc[::9, "town"] = None
    return TPNNRegressor(**QUICK).fit(gaps, frame.age + frame.rooms)


def test_records_fit_the_same_bits(model: TPNNRegressor, frame: pd.DataFrame) -> None:
    gaps = frame.copy()
    gaps.loc[::7, "age"] = np.nan
    gaps.loc[::9, "town"] = None
    other = TPNNRegressor(**QUICK).fit(records_of(gaps), frame.age + frame.rooms)
    assert other.feature_names_in_.tolist() == list(frame)
    for one, two in zip(model.model_.tables, other.model_.tables, strict=True):
        assert np.array_equal(one, two)
    assert other.model_.provenance.fingerprint == model.model_.provenance.fingerprint


def test_records_predict_the_same_bits(model: TPNNRegressor, frame: pd.DataFrame) -> None:
    rows, expected = records_of(frame), model.predict(frame)
    assert np.array_equal(model.predict(rows), expected)
    assert np.array_equal(model.predict(tuple(rows)), expected)
    shuffled = [dict(reversed([*row.items(), ("note", [number])])) for number, row in
                enumerate(rows)]  # fmt: skip
    assert np.array_equal(model.predict(shuffled), expected)
    assert np.array_equal(model.explain(rows).scores, model.explain(frame).scores)


def test_one_dict_is_one_row(model: TPNNRegressor, frame: pd.DataFrame) -> None:
    row = records_of(frame)[3]
    assert np.array_equal(model.predict(row), model.predict(frame[3:4]))
    assert model.predict(row | {"age": None}).shape == (1,)


def test_a_key_that_is_needed_is_in_every_record(model: TPNNRegressor, frame: Any) -> None:
    rows = records_of(frame)[:3]
    del rows[1]["town"]
    with pytest.raises(ValueError, match=r"^X: every record must have the key 'town', found 1 of"):
        model.predict(rows)
    with pytest.raises(ValueError, match=r"^X: every record must have the key 'town', found 1 of"):
        TPNNRegressor(**QUICK).fit(rows, [1, 2, 3])
    with pytest.raises(ValueError, match=r"^X: the columns seen during fit are needed, \['town'\]"):
        model.predict(rows[1])


def test_dates_may_be_iso_text_to_predict(frame: pd.DataFrame, tmp_path: Path) -> None:
    """JSON has no dates: a served model gets them as text."""
    model = TPNNRegressor(**QUICK, order=1).fit(frame[["sold"]], frame.sold.dt.dayofyear)
    model.model_.save(tmp_path / "model.tpnn")
    served, expected = load(tmp_path / "model.tpnn"), model.predict(frame)
    for text in ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M+00:00"):
        rows = frame.assign(sold=frame.sold.dt.strftime(text)).to_dict("records")
        assert np.array_equal(served.predict(json.loads(json.dumps(rows))), expected)
    rows[3]["sold"] = None
    with pytest.warns(UserWarning, match="fit has not seen"):
        assert np.array_equal(served.predict(rows)[4:], expected[4:])
    rows[4]["sold"] = "yesterday"
    with pytest.raises(TypeError, match=r"^X: column 'sold' must hold dates as in fit, found lev"):
        served.predict(rows)


def test_survival_reads_its_records_again(frame: pd.DataFrame) -> None:
    times = np.exp(frame.age.to_numpy())
    y = np.column_stack([times, np.ones(200)])
    one, other = (TPNNSurvival(**QUICK).fit(X, y) for X in (frame, records_of(frame)))
    assert np.array_equal(one.baseline_hazard_, other.baseline_hazard_)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"a": 1}, [1]], "X: every record must be a dict, found list in row 1"),
        ([{1: 2.0}], "X: the keys of dicts must be strings, found 1 of type int"),
        ([{"a": 1}, {"a": "b"}], "X: a column must hold numbers, dates or strings, found 1"),
        ({"a": [1, 2]}, r"X: a column must hold numbers, dates or strings, found \[1, 2\]"),
    ],
)
def test_odd_records_are_refused(rows: Any, message: str) -> None:
    with pytest.raises(TypeError, match="^" + message):
        Table(rows).column(0)


def test_a_dict_of_arrays_is_a_table(model: TPNNRegressor, frame: pd.DataFrame) -> None:
    columns = {name: frame[name].to_numpy() for name in reversed(list(frame))}
    assert np.array_equal(model.predict(columns), model.predict(frame))
    with pytest.raises(ValueError, match=r"^X: the columns of a dict must have one length, found"):
        model.predict(columns | {"age": np.zeros(3)})


def test_records_without_keys_have_no_columns() -> None:
    with pytest.raises(ValueError, match=r"^X: a table needs columns, found 0 feature"):
        Table([{}, {}])


def test_values_of_several_types() -> None:
    rows = [{"n": 1, "t": datetime(2020, 1, 1)}, {"n": True, "t": None}, {"n": 2.5, "t": None}]
    table = Table(rows)
    assert table.column(0).values.tolist() == [1.0, 1.0, 2.5]
    assert np.isnan(table.column(1).values).tolist() == [False, True, True]
    large = Table([{"n": 2**53}, {"n": 2**53 + 1}])
    assert large.levels(0).levels == (2**53, 2**53 + 1)
