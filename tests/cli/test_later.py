"""``tpnn validate``, ``monitor``, ``edit`` and ``read`` do what the library does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tpnn
from tests.cli.commands import run
from tpnn.lifecycle.edit import save_edits


def test_validate_prints_scores_and_writes_all_figures(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, data = folder / "model.tpnn", folder / "data.csv"
    output = folder / "validation.json"
    assert run("validate", model, data, "--target", "y", "-o", output) == 0
    table = pd.read_csv(data)
    expected = tpnn.validate(tpnn.load(model).model_, table.drop(columns="y"), table["y"])
    written = json.loads(output.read_text())
    assert [line["value"] for line in written["scores"]] == pytest.approx(
        expected.scores["value"].tolist()
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("400 rows, ")
    assert {line.split()[0] for line in lines[3:6]} <= set(expected.scores["score"])
    page = folder / "validation.html"
    assert run("validate", model, data, "--target", "y", "-o", page) == 0
    assert page.read_text().startswith("<!doctype html>")


def test_monitor_names_what_has_moved(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.read_csv(folder / "data.csv")
    table.assign(smooth=table["smooth"] + 3).to_csv(folder / "moved.csv", index=False)
    model, output = folder / "model.tpnn", folder / "drift.json"
    old = ("--reference", folder / "data.csv", "--target", "y")
    assert run("monitor", model, folder / "data.csv", *old) == 0
    assert capsys.readouterr().out.startswith("no alarm\n")
    assert run("monitor", model, folder / "moved.csv", *old, "-o", output) == 0
    alarms = json.loads(output.read_text())["alarms"]
    assert any("smooth" in words for words in alarms)
    assert capsys.readouterr().out.startswith(alarms[0] + "\n")
    assert run("monitor", model, folder / "moved.csv", *old, "-o", folder / "drift.html") == 0
    assert alarms[0] in (folder / "drift.html").read_text(encoding="utf-8")
    capsys.readouterr()
    assert run("monitor", model, folder / "moved.csv") == 0  # beside the model's own masses
    assert any("smooth" in line for line in capsys.readouterr().out.splitlines()[:2])


def test_edits_of_a_file_are_made(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tpnn.load(folder / "model.tpnn").model_
    edited = model.edit("smooth", between=(None, 0.0), add=0.5, why="a test", by="me")
    save_edits(edited, folder / "edits.json")
    files = (folder / "model.tpnn", folder / "edits.json")
    rows = (folder / "data.csv", "--target", "y")
    assert run("edit", *files, *rows, "-o", folder / "edited.tpnn") == 0
    assert "1 edit made" in capsys.readouterr().out
    table = pd.read_csv(folder / "data.csv")
    again = tpnn.load(folder / "edited.tpnn").model_
    assert np.array_equal(again.predict(table), edited.predict(table))
    (record,) = again.log()
    assert record["by"] == "me"
    assert record["effect"]["n_rows"] == len(table)
    assert run("edit", folder / "labels.tpnn", folder / "edits.json", "-o", folder / "no.tpnn") == 1
    assert "made for another model" in capsys.readouterr().err


def test_trees_are_read_from_their_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    table = pd.read_csv(folder / "data.csv")
    X = table.drop(columns="y").select_dtypes("number")
    boosted = lightgbm.LGBMRegressor(n_estimators=5, verbose=-1).fit(X, table["y"])
    boosted.booster_.save_model(folder / "boosted.txt")
    X.assign(y=table["y"]).to_csv(folder / "numbers.csv", index=False)
    options = ("--target", "y", "-o", folder / "read.tpnn")
    assert run("read", folder / "boosted.txt", folder / "numbers.csv", *options) == 0
    read = tpnn.load(folder / "read.tpnn").model_
    assert np.allclose(read.predict(X), boosted.predict(X), rtol=0, atol=1e-9)
    capsys.readouterr()
    assert run("read", folder / "data.csv", folder / "numbers.csv", *options) == 1
    assert "must be a file of CatBoost (.cbm)" in capsys.readouterr().err


def test_the_bare_command_helps(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("fit", "predict", "validate", "monitor", "edit", "read"))


def test_a_slip_of_a_column_is_recognised(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.read_csv(folder / "data.csv")
    extra = {f"column_{i}": 0.0 for i in range(10)}
    table[[]].assign(**extra, price=table["y"]).to_csv(folder / "wide.csv", index=False)
    assert run("fit", folder / "wide.csv", "--target", "prise") == 1
    error = capsys.readouterr().err
    assert "Did you mean 'price'?" in error
    assert "and 1 more" in error
