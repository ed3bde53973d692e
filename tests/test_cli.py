"""The command line does what the library does, with exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tpnn
from tpnn import TPNNRegressor, load_model
from tpnn.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, table: Any) -> Path:
    """A table in both formats, a model of numbers and one of classes."""
    X, y = table
    path: Path = tmp_path_factory.mktemp("cli")
    X.assign(y=y).to_csv(path / "data.csv", index=False)
    X.assign(y=np.where(y > y.median(), "high", "low")).to_parquet(path / "labels.parquet")
    run("fit", path / "data.csv", "--target", "y", "--bags", 2, "-o", path / "model.tpnn")
    run("fit", path / "labels.parquet", "--target", "y", "--bags", 2, "-o", path / "labels.tpnn")
    return path


def run(*arguments: Any) -> int:
    return main([str(argument) for argument in arguments])


def test_fit_equals_the_library(folder: Path) -> None:
    data = pd.read_csv(folder / "data.csv")
    model = TPNNRegressor(n_bags=2, random_state=0, verbose=0).fit(
        data.drop(columns="y"), data["y"]
    )
    saved = load_model(folder / "model.tpnn")
    assert np.array_equal(saved.predict(data), model.predict(data.drop(columns="y")))


@pytest.mark.parametrize(
    ("name", "data", "column"),
    [("model", "data.csv", "prediction"), ("labels", "labels.parquet", "probability of low")],
)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_predict(folder: Path, name: str, data: str, column: str, suffix: str) -> None:
    output = folder / f"answers.{suffix}"
    assert run("predict", folder / f"{name}.tpnn", folder / data, "-o", output) == 0
    read = pd.read_csv if suffix == "csv" else pd.read_parquet
    rows = pd.read_csv(folder / "data.csv").drop(columns="y")
    expected = load_model(folder / f"{name}.tpnn").predict(rows)
    assert np.allclose(read(output)[column], expected)


def test_explain_ranks_components(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", folder / "model.tpnn") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "component,importance,relative,variance_share"
    assert len(lines) == 1 + len(load_model(folder / "model.tpnn").components)


def test_explain_rows(folder: Path) -> None:
    output = folder / "parts.csv"
    run("explain", folder / "model.tpnn", folder / "data.csv", "-o", output)
    model, rows = load_model(folder / "model.tpnn"), pd.read_csv(folder / "data.csv")
    assert np.allclose(model.intercept + pd.read_csv(output).sum(1), model.predict(rows))
    run("explain", folder / "model.tpnn", folder / "data.csv", "--reasons", 2, "-o", output)
    words = pd.read_csv(output)
    assert words["row"].nunique() == len(rows)
    assert words["reason"].max() == 2


def test_a_file_without_rows_gives_the_header(folder: Path) -> None:
    pd.read_csv(folder / "data.csv")[:0].to_csv(folder / "empty.csv", index=False)
    output = folder / "header.csv"
    for command, columns in {
        ("predict", "model.tpnn"): ["prediction"],
        ("predict", "labels.tpnn"): ["probability of low"],
        ("explain", "model.tpnn", "--reasons", 2): ["row", "reason", "feature", "words"],
    }.items():
        name, model, *options = command
        assert run(name, folder / model, folder / "empty.csv", *options, "-o", output) == 0
        assert list(pd.read_csv(output)) == columns
    assert run("explain", folder / "model.tpnn", folder / "empty.csv", "-o", output) == 0
    table = pd.read_csv(output)
    assert table.shape == (0, len(load_model(folder / "model.tpnn").components))


def test_a_reader_that_stops_is_no_error(folder: Path) -> None:
    root = str(Path(tpnn.__file__).parents[1])
    command = [sys.executable, "-m", "tpnn", "explain", "model.tpnn", "data.csv"]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": root},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


def test_parquet_in_capitals(folder: Path) -> None:
    data = folder / "DATA.PARQUET"
    pd.read_csv(folder / "data.csv").to_parquet(data)
    output = folder / "ANSWERS.PARQUET"
    assert run("predict", folder / "model.tpnn", data, "-o", output) == 0
    assert len(pd.read_parquet(output)) == 400


def test_dates_in_csv_are_dates(folder: Path) -> None:
    """ISO dates alone; what only looks like them is levels, and predict follows the model."""
    table = pd.read_csv(folder / "data.csv")[["smooth", "y"]]
    days = pd.Timestamp("2021-01-01") + pd.to_timedelta(np.arange(len(table)) % 50, "D")
    table["since"] = days.strftime("%Y-%m-%d").where(np.arange(len(table)) % 9 > 0)
    table["number"] = np.where(np.arange(len(table)) % 2, "2021-13-45", "2021-14-45")
    table.to_csv(folder / "dates.csv", index=False)
    output = folder / "dates.tpnn"
    run("fit", folder / "dates.csv", "--target", "y", "--bags", 1, "--order", 1, "-o", output)
    model = load_model(output)
    assert [feature.kind for feature in model.encoder.features] == ["number", "date", "nominal"]
    run("predict", output, folder / "dates.csv", "-o", folder / "answers.csv")
    parsed = table.assign(since=pd.to_datetime(table["since"]))
    assert np.allclose(pd.read_csv(folder / "answers.csv")["prediction"], model.predict(parsed))
    table.assign(number="2021-01-01").to_csv(folder / "dates.csv", index=False)
    with pytest.warns(UserWarning, match="^X: levels or missing values that fit has not seen"):
        assert run("predict", output, folder / "dates.csv", "-o", folder / "answers.csv") == 0


def test_output_is_checked_before_the_fit(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fit(*_: Any) -> None:
        raise AssertionError("fitted first")

    monkeypatch.setattr(TPNNRegressor, "fit", fit)
    for output in (folder / "absent" / "model.tpnn", folder):
        assert run("fit", folder / "data.csv", "--target", "y", "-o", output) == 1
        told = capsys.readouterr().err
        assert told.startswith("tpnn fit: --output: must be a file in a folder that exists, found")
        assert str(output) in told


def test_report(folder: Path) -> None:
    page = folder / "report.html"
    arguments = ("--target", "y", "--title", "A title", "-o", page)
    assert run("report", folder / "labels.tpnn", folder / "labels.parquet", *arguments) == 0
    assert '"AUROC"' in page.read_text()
    assert '"title":"A title"' in page.read_text()
    assert run("report", folder / "model.tpnn", "-o", page) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("fit", "data.csv", "--target", "z"),
            "--target: must be a column of the table, found 'z'",
        ),
        (("fit", "nothing.csv", "--target", "y"), "data: a file is needed, found no"),
        (("predict", "data.csv", "data.csv"), "path: must be a file written by AnovaModel.save"),
        (("report", "model.tpnn", "--target", "y"), "--target: rows are needed to score"),
        (
            ("explain", "model.tpnn", "data.csv", "--reasons", "-1"),
            "n_reasons: must be a whole number of at least 1, found -1",
        ),
    ],
)
def test_problems_are_said_in_one_line(
    folder: Path, arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(folder / a) if a.endswith((".csv", ".tpnn")) else a for a in arguments]
    assert main(files) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[-1].startswith(f"tpnn {arguments[0]}: {words}")


def test_wrong_usage_exits_with_two() -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["fit"])
    assert stopped.value.code == 2
