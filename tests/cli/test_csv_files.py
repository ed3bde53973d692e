"""Rows for a model are read as pandas would read them, knowing what each column holds."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tpnn
from tests.conftest import QUICK
from tpnn.cli.csv_files import MISSING, ROWS_PER_CHUNK, read_rows

OPTIONS = Namespace(separator=None, decimal=".", encoding=None)


@pytest.fixture(scope="module")
def model() -> tpnn.AnovaModel:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({
        "x": rng.normal(size=100), "flag": rng.random(100) < 0.5,
        "level": rng.choice(["01", "1", "a"], 100), "code": rng.integers(0, 3, 100),
        "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 9, 100), "D"),
    })  # fmt: skip
    X.loc[::3, "x"] = np.nan
    settings = {**QUICK, "order": 1, "categorical": ["code"]}
    return tpnn.TPNNRegressor(**settings).fit(X, rng.normal(size=100)).model_


def read(model: tpnn.AnovaModel, path: Path, text: str, **options: Any) -> dict[str, Any]:
    path.write_text(text, "utf-8")
    columns: dict[str, Any] = read_rows(model, str(path), Namespace(**vars(OPTIONS) | options))
    return columns


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows.csv"


def test_kinds_are_those_of_the_model(model: tpnn.AnovaModel, path: Path) -> None:
    text = (
        "note,x,flag,level,code,day\n"
        "z, 1.5 ,True,01,2,2020-01-01\n"
        "\n"
        'z,1e400,false,"a\nb",1,2020-01-02T10:00:00+02:00\n'
        "z,,,,,\n"
        "z,-0.0\n"
    )
    columns = read(model, path, text)
    assert columns["x"].tolist()[:2] == [1.5, np.inf]
    assert np.isnan(columns["x"][2])
    assert columns["flag"].tolist()[:2] == [1.0, 0.0]
    assert columns["level"].tolist() == ["01", "a\nb", None, None]
    assert columns["code"].tolist()[:2] == [2.0, 1.0]
    assert columns["day"][1] == np.datetime64("2020-01-02T08:00")
    assert np.isnat(columns["day"]).tolist() == [False, False, True, True]
    assert columns["note"].tolist() == [None] * 4


def test_missing_values_are_those_of_pandas(model: tpnn.AnovaModel, path: Path) -> None:
    words = [*sorted(MISSING), "missing", "na", "-", "None ", "0"]
    text = "level,code\n" + "".join(f'"{word}",1\n' for word in words)
    expected = pd.read_csv(_written(path, text), dtype={"level": str})["level"].isna()
    assert [level is None for level in read(model, path, text)["level"]] == expected.tolist()


def _written(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize("header", ["a,a,a.1,a", ",b,", "a,,a", '"a,b",c'])
def test_names_are_those_of_pandas(header: str, path: Path, model: tpnn.AnovaModel) -> None:
    text = f"{header}\n"
    expected = list(pd.read_csv(_written(path, text)))
    assert list(read(model, path, text)) == expected


def test_rows_predict_what_the_frame_predicts(model: tpnn.AnovaModel, path: Path) -> None:
    rng = np.random.default_rng(1)
    n = ROWS_PER_CHUNK + 10
    frame = pd.DataFrame({
        "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 9 * 86_400, n), "s"),
        "code": rng.integers(0, 3, n), "level": rng.choice(["01", "1", "a"], n),
        "x": rng.normal(size=n), "flag": rng.random(n) < 0.5,
    })  # fmt: skip
    frame.loc[::3, "x"] = np.nan
    frame.to_csv(path, index=False)
    columns = read_rows(model, str(path), OPTIONS)
    assert np.array_equal(model.predict(columns), model.predict(frame))


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("x\n1\n1_0\n", {}, "column 'x' must hold numbers, as in fit, found '1_0' in row 2 below"),
        ("x;code\n1,5;1\n", {}, "numbers must have a decimal point, found '1,5' in column 'x'"),
        (
            "x,code\n1,2\n1,2,3\n",
            {},
            "must have the fields of the header, separated by ',', found",
        ),
        ("", {}, "is empty, and a header and rows are needed"),
        ("\n\n", {}, "is empty, and a header and rows are needed"),
        ("x\n1\n", {"encoding": "klingon"}, "--encoding: must be one that Python knows"),
    ],
)
def test_what_cannot_be_read_is_named(
    model: tpnn.AnovaModel, path: Path, text: str, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        read(model, path, text, **options)


def test_decimal_commas(model: tpnn.AnovaModel, path: Path) -> None:
    assert read(model, path, "x;code\n1,5;1\n", decimal=",")["x"].tolist() == [1.5]


def test_dates_that_are_none_stay_text(model: tpnn.AnovaModel, path: Path) -> None:
    columns = read(model, path, "day\n2020-01-01\nsoon\n")
    assert columns["day"].tolist() == ["2020-01-01", "soon"]
