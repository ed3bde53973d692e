"""``tpnn predict`` on a folder or a pattern of Parquet files."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tpnn
from tests.cli.commands import run
from tests.conftest import QUICK
from tpnn import TPNNClassifier, TPNNRegressor


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.normal(size=300), "b": rng.choice(["u", "v"], 300)})


@pytest.fixture
def data(tmp_path: Path, frame: pd.DataFrame) -> Path:
    """Three files, one of them in a folder of its own."""
    for number, name in enumerate(("one.parquet", "three.parquet", "more/two.parquet")):
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        frame[100 * number : 100 * number + 100].to_parquet(path)
    return tmp_path / "data"


def test_each_file_gets_one_of_predictions(data: Path, tmp_path: Path, frame: Any) -> None:
    model = TPNNRegressor(**QUICK).fit(frame, frame.a * (frame.b == "u"))
    model.model_.save(tmp_path / "model.tpnn")
    out = tmp_path / "new" / "out"
    assert run("predict", tmp_path / "model.tpnn", data, "-o", out) == 0
    files = sorted(str(file.relative_to(out)) for file in out.rglob("*") if file.is_file())
    assert files == [str(Path("more/two.parquet")), "one.parquet", "three.parquet"]
    for file in files:
        found = pd.read_parquet(out / file)
        assert found.columns.tolist() == ["prediction"]
        assert np.array_equal(found.prediction, model.predict(pd.read_parquet(data / file)))


def test_a_pattern_stands_for_its_files(data: Path, tmp_path: Path, frame: Any) -> None:
    model = TPNNClassifier(**QUICK).fit(frame, np.where(frame.a > 0, "high", "low"))
    model.model_.save(tmp_path / "model.tpnn")
    assert run("predict", tmp_path / "model.tpnn", data / "o*.parquet", "-o", tmp_path / "out") == 0
    found = pd.read_parquet(tmp_path / "out" / "one.parquet")
    assert np.array_equal(found["probability of low"], model.predict_proba(frame[:100])[:, 1])


def test_outputs_that_cannot_be_are_refused(
    data: Path, tmp_path: Path, frame: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    TPNNRegressor(**QUICK).fit(frame, frame.a).model_.save(tmp_path / "model.tpnn")
    for output, reason in (
        ([], "for many files a folder is needed"),
        (["-o", tmp_path / "model.tpnn"], "for many files a folder is needed"),
        (["-o", data], "must not be a folder of files that are read"),
        (["-o", data / "more"], "must not be a folder of files that are read"),
    ):
        assert run("predict", tmp_path / "model.tpnn", data, *output) == 1
        assert reason in capsys.readouterr().err


def test_a_file_that_fails_leaves_nothing_unfinished(
    data: Path, tmp_path: Path, frame: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    TPNNRegressor(**QUICK).fit(frame, frame.a).model_.save(tmp_path / "model.tpnn")
    bad = frame[:100].assign(a=np.inf)
    bad.to_parquet(data / "three.parquet")
    assert run("predict", tmp_path / "model.tpnn", data, "-o", tmp_path / "out") == 1
    assert "found inf in column 'a'" in capsys.readouterr().err
    assert not [file for file in (tmp_path / "out").rglob("*") if "three" in file.name]


def test_no_spreadsheet_runs_what_is_written(
    tmp_path: Path, frame: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Labels of classes and names of features reach files whose readers run formulas."""
    odd = frame.rename(columns={"a": "=cmd|' /C calc'!A0"})
    labels = np.array(["+2+2", "=1+1", "@SUM(1)", "-1"])[np.arange(len(frame)) % 4]
    model = TPNNClassifier(**QUICK).fit(odd, labels).model_
    model.save(tmp_path / "model.tpnn")
    odd.to_csv(tmp_path / "rows.csv", index=False)
    for command in ("predict", "explain"):
        for output in (["-o", tmp_path / "out.csv"], []):
            assert run(command, tmp_path / "model.tpnn", tmp_path / "rows.csv", *output) == 0
        written = (tmp_path / "out.csv").read_text()
        assert written == capsys.readouterr().out
        header = next(csv.reader(written.splitlines()))
        assert [name for name in header if name.startswith(tuple("=+@"))] == []
        if command == "predict":
            assert header == ["'+2+2", "-1", "'=1+1", "'@SUM(1)"]
        else:
            assert "'=cmd|' /C calc'!A0 (-1)" in header


def test_kept_columns_come_first(data: Path, tmp_path: Path, frame: Any) -> None:
    for file in data.rglob("*.parquet"):
        table = pd.read_parquet(file)
        table.assign(id=np.arange(len(table)), day=pd.Timestamp("2024-01-01")).to_parquet(file)
    model = TPNNRegressor(**QUICK).fit(frame, frame.a)
    model.model_.save(tmp_path / "model.tpnn")
    arguments = ("predict", tmp_path / "model.tpnn", data, "-o", tmp_path / "out")
    assert run(*arguments, "--keep", "id", "--keep", "day") == 0
    found = pd.read_parquet(tmp_path / "out" / "one.parquet")
    assert found.columns.tolist() == ["id", "day", "prediction"]
    assert found["id"].tolist() == list(range(100))
    assert np.array_equal(found.prediction, model.predict(frame[:100]))


def test_kept_columns_of_a_csv_file_stay_as_they_are(
    tmp_path: Path, frame: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    TPNNRegressor(**QUICK).fit(frame, frame.a).model_.save(tmp_path / "model.tpnn")
    frame[:2].assign(key=["007", "=1"]).to_csv(tmp_path / "rows.csv", index=False)
    arguments = ("predict", tmp_path / "model.tpnn", tmp_path / "rows.csv")
    assert run(*arguments, "--keep", "key") == 0
    lines = list(csv.reader(capsys.readouterr().out.splitlines()))
    assert [line[0] for line in lines] == ["key", "007", "'=1"]
    assert lines[0] == ["key", "prediction"]
    assert run(*arguments, "--keep", "name") == 1
    assert "--keep: must be a column of the rows, found no such column: 'name'" in (
        capsys.readouterr().err
    )


def test_addresses_and_patterns_of_them(data: Path, tmp_path: Path, frame: Any) -> None:
    model = TPNNRegressor(**QUICK).fit(frame, frame.a)
    model.model_.save(tmp_path / "model.tpnn")
    arguments = ("predict", tmp_path / "model.tpnn")
    assert run(*arguments, data.as_uri(), "-o", tmp_path / "whole") == 0
    assert len(list((tmp_path / "whole").rglob("*.parquet"))) == 3
    assert run(*arguments, f"{data.as_uri()}/*e.parquet", "-o", tmp_path / "some") == 0
    some = sorted(file.name for file in (tmp_path / "some").rglob("*.parquet"))
    assert some == ["one.parquet", "three.parquet"]


def test_csv_files_of_a_folder_keep_their_names(
    tmp_path: Path, frame: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    model = TPNNRegressor(**QUICK).fit(frame, frame.a)
    model.model_.save(tmp_path / "model.tpnn")
    parts = {"z.csv": frame[:100], "more/a.csv.gz": frame[100:]}
    for name, rows in parts.items():
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        rows.to_csv(tmp_path / "data" / name, index=False)
    arguments = ("predict", tmp_path / "model.tpnn", tmp_path / "data", "-o")
    assert run(*arguments, tmp_path / "out") == 0
    for name, rows in parts.items():
        found = pd.read_parquet(tmp_path / "out" / f"{name}.parquet")
        np.testing.assert_allclose(found.prediction, model.predict(rows), rtol=1e-12)
    assert run(*arguments, tmp_path / "data") == 1
    assert run(*arguments, tmp_path / "out", "--separator", ";") == 1
    assert "--separator, --decimal and --encoding are for one CSV" in capsys.readouterr().err


def test_a_model_at_an_address_is_refused_as_it_was_named() -> None:
    with pytest.raises(ValueError, match=r"path: .* found the address 's3://bucket/m\.tpnn'"):
        tpnn.load("s3://bucket/m.tpnn")
