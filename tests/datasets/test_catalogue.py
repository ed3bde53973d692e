"""The shipped data, and where else data sets are looked for."""

from __future__ import annotations

import hashlib
import os
import sys
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest

from tpnn.datasets import load

CALHOUSING = ["MedInc", "HouseAge", "AveRooms", "AveBedrms"]
CALHOUSING += ["Population", "AveOccup", "Latitude", "Longitude"]
SHIPPED = ("calhousing", "abalone", "wine")
DATA = resources.files("tpnn.datasets") / "data"


# Shipped data


@pytest.mark.parametrize(
    ("name", "shape", "target", "mean"),
    [
        ("calhousing", (20640, 8), "MedHouseVal", 2.06856),
        ("abalone", (4177, 8), "Rings", 9.9337),
        ("wine", (4898, 11), "quality", 5.8779),
    ],
)
def test_shipped_shape_and_target(
    name: str, shape: tuple[int, int], target: str, mean: float
) -> None:
    X, y = load(name)
    assert X.shape == shape
    assert y.shape == shape[:1]
    assert y.name == target
    assert y.mean() == pytest.approx(mean, abs=1e-4)
    assert not X.isna().any(axis=None)


def test_calhousing_columns_and_first_row() -> None:
    X, y = load("calhousing")
    assert list(X.columns) == CALHOUSING
    assert (X.dtypes == np.float64).all()
    first = [8.3252, 41.0, 880 / 126, 129 / 126, 322.0, 322 / 126, 37.88, -122.23]
    assert X.iloc[0].tolist() == first
    assert y.iloc[0] == 4.526


def test_abalone_sex_is_a_string() -> None:
    X, y = load("abalone")
    assert X["Sex"].value_counts().to_dict() == {"M": 1528, "I": 1342, "F": 1307}
    assert (X.drop(columns="Sex").dtypes == np.float64).all()
    assert y.dtype == np.int64


def test_shipped_files_match_the_readme_and_are_small() -> None:
    readme = (DATA / "README.md").read_text(encoding="utf-8")
    contents = [(DATA / f"{name}.csv.gz").read_bytes() for name in SHIPPED]
    assert all(hashlib.sha256(content).hexdigest() in readme for content in contents)
    assert sum(map(len, contents)) < 1_000_000


def test_shipped_files_have_no_time_stamp() -> None:
    for name in SHIPPED:
        assert (DATA / f"{name}.csv.gz").read_bytes()[4:8] == bytes(4)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_equals_reference_copy(name: str) -> None:
    path = Path(os.environ.get("TPNN_DATA", "")) / f"{name}.parquet"
    if "TPNN_DATA" not in os.environ or not path.is_file():
        pytest.skip(f"TPNN_DATA names no folder with {name}.parquet")
    pytest.importorskip("pyarrow")
    reference = pd.read_parquet(path)
    X, y = load(name)
    table = pd.concat([X, y], axis=1)
    assert list(table.columns) == list(reference.columns)
    assert all((table[column] == reference[column]).all() for column in table.columns)


# Loader


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TPNN_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", ["churn", "my_own"])
def test_parquet_in_folder(name: str, folder: Path) -> None:
    pytest.importorskip("pyarrow")
    table = pd.DataFrame({"a": [1.0, 2.0], "b": ["u", "v"], "target": [0, 1]})
    table.to_parquet(folder / f"{name}.parquet")
    X, y = load(name)
    assert list(X.columns) == ["a", "b"]
    assert y.name == "target"
    assert y.tolist() == [0, 1]


def test_missing_pyarrow(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "churn.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'churn\.parquet.*pip install "tpnn\[data\]"'):
        load("churn")


@pytest.mark.parametrize(
    "name", ["fico_heloc", "drybean", "celeba_attr", "online_news_subset", "credit_subset"]
)
def test_missing_file(name: str, folder: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        load(name)
    message = str(caught.value)
    assert message.startswith(f"name: {name!r} must be in the folder TPNN_DATA or at OpenML")
    assert f"no file {folder / name}.parquet" in message
    assert f"set the environment variable TPNN_DATA to a folder that contains {name}" in message


def test_missing_file_without_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TPNN_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="TPNN_DATA not set"):
        load("fico_heloc")


def test_unknown_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TPNN_DATA", raising=False)
    with pytest.raises(ValueError, match=r"^name: must be one of calhousing, .*found 'nothing'"):
        load("nothing")


def test_openml(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fetch_openml(data_id: int, as_frame: bool) -> SimpleNamespace:
        asked.append((data_id, as_frame))
        data = pd.DataFrame({"url": ["x"], "timedelta": [1.0], "n_tokens_title": [12.0]})
        return SimpleNamespace(data=data, target=pd.Series([593.0], name="shares"))

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    X, y = load("online_news")
    assert asked == [(4545, True)]
    assert list(X.columns) == ["n_tokens_title"]
    assert y.name == "shares"


@pytest.mark.parametrize("error", [URLError("no route"), ValueError("no such set"), TimeoutError()])
def test_openml_failure(error: Exception, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch_openml(**_: object) -> None:
        raise error

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    with pytest.raises(
        FileNotFoundError, match=r"^name: .letter. .*data set 6 out of reach"
    ) as caught:
        load("letter")
    assert caught.value.__cause__ is error


def test_a_file_of_the_folder_goes_before_openml(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("sklearn.datasets.fetch_openml", None)  # which cannot be called
    pd.DataFrame({"a": [1.0], "y": [2.0]}).to_parquet(folder / "letter.parquet")
    X, y = load("letter")
    assert (list(X.columns), y.name) == (["a"], "y")


def test_shipped_data_ignore_the_folder(folder: Path) -> None:
    (folder / "wine.parquet").write_text("not a table")
    assert load("wine")[0].shape == (4898, 11)


def test_averages_per_household() -> None:
    X, _ = load("calhousing")
    households = X["Population"] / X["AveOccup"]
    rooms = X["AveRooms"] * households
    assert np.allclose(households, households.round(), atol=1e-6)
    assert np.allclose(rooms, rooms.round(), atol=1e-6)
