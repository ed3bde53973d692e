"""``tpnn compare`` and ``tpnn summary`` say what the library says."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss, mean_pinball_loss, r2_score

from tests.cli.commands import run
from tests.models import table_model, with_remainder
from tpnn import Explanation, TPNNRegressor, load
from tpnn.cli.output import print_table
from tpnn.explain.metrics.estimates import concordance_estimate

QUICK = ("--bags", 1, "--order", 1, "--held-out", 0)


def compared(folder: Path, data: str, *arguments: Any) -> pd.DataFrame:
    output = folder / "scores.csv"
    *models, options = arguments
    files = [folder / f"{model}.tpnn" for model in models]
    assert run("compare", *files, folder / data, *options, "-o", output) == 0
    return pd.read_csv(output).set_index("model")


def test_models_and_a_constant_beside_each_other(folder: Path) -> None:
    options = ("--target", "y", *QUICK)
    assert run("fit", folder / "data.csv", *options, "-o", folder / "mains.tpnn") == 0
    scores = compared(folder, "data.csv", "model", "mains", ("--target", "y"))
    data = pd.read_csv(folder / "data.csv")
    for name in ("model", "mains"):
        path = folder / f"{name}.tpnn"
        expected = r2_score(data["y"], load(path).model_.predict(data))
        assert scores.loc[str(path), "R2"] == pytest.approx(expected)
    assert scores.loc["constant", "R2"] == pytest.approx(0.0, abs=1e-12)
    assert scores.loc["constant", "RMSE"] == pytest.approx(data["y"].std(ddof=0))


def test_the_constant_of_classes_predicts_their_shares(folder: Path) -> None:
    scores = compared(folder, "labels.parquet", "labels", ("--target", "y"))
    y = pd.read_parquet(folder / "labels.parquet")["y"]
    share = np.full(len(y), (y == "low").mean())
    assert scores.loc["constant", "log_loss"] == pytest.approx(log_loss(y == "low", share))
    assert scores["log_loss"].iloc[0] < scores.loc["constant", "log_loss"]


def test_the_constant_of_quantiles(folder: Path) -> None:
    options = ("--target", "y", "--objective", "quantile:0.2,0.7", *QUICK)
    assert run("fit", folder / "data.csv", *options, "-o", folder / "quantiles.tpnn") == 0
    scores = compared(folder, "data.csv", "quantiles", ("--target", "y"))
    y = pd.read_csv(folder / "data.csv")["y"]
    losses = [
        mean_pinball_loss(y, np.full(len(y), y.quantile(level)), alpha=level)
        for level in (0.2, 0.7)
    ]
    assert scores.loc["constant", "quantile"] == pytest.approx(np.mean(losses))


def test_rates_and_survival(folder: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.read_csv(folder / "data.csv")[["smooth"]]
    table["exposure"] = rng.uniform(0.5, 2, len(table))
    table["n"] = rng.poisson(table["exposure"] * np.exp(table["smooth"]))
    table["event"] = np.arange(len(table)) % 3 > 0
    table.to_csv(folder / "rates.csv", index=False)
    counts = ("--target", "n", "--objective", "poisson", "--exposure", "exposure")
    assert run("fit", folder / "rates.csv", *counts, *QUICK, "-o", folder / "rates.tpnn") == 0
    scores = compared(folder, "rates.csv", "rates", ("--target", "n"))
    rate = table["n"].sum() / table["exposure"].sum()
    error = np.sqrt(np.mean((table["n"] - rate * table["exposure"]) ** 2))
    assert scores.loc["constant", "RMSE"] == pytest.approx(error)
    lives = ("--target", "exposure", "--event", "event")
    assert run("fit", folder / "rates.csv", *lives, *QUICK, "-o", folder / "lives.tpnn") == 0
    scores = compared(folder, "rates.csv", "lives", lives)
    risk = load(folder / "lives.tpnn").model_.raw_scores(table)
    times, events = table["exposure"].to_numpy(), table["event"].to_numpy(float)
    expected = concordance_estimate("C-index", np.column_stack([times, events]), risk).value
    assert scores["C-index"].tolist() == pytest.approx([expected, 0.5])


def test_a_model_without_names_finds_its_columns(folder: Path, table: Any, quick: Any) -> None:
    X, y = table
    numbers = X[["smooth", "skewed"]]
    TPNNRegressor(**quick).fit(numbers.to_numpy(), y).model_.save(folder / "plain.tpnn")
    numbers.assign(y=y).to_csv(folder / "numbers.csv", index=False)
    scores = compared(folder, "numbers.csv", "plain", ("--target", "y"))
    assert scores["R2"].iloc[0] > 0
    files = (folder / "plain.tpnn", folder / "numbers.csv", "--target", "y")
    assert run("report", *files, "-o", folder / "plain.html") == 0


def test_the_report_takes_times_and_events(folder: Path) -> None:
    table = pd.read_csv(folder / "data.csv")[["smooth"]]
    table.assign(years=np.linspace(1, 2, len(table)), event=1).to_csv(
        folder / "years.csv", index=False
    )
    files = (folder / "years.csv", "--target", "years", "--event", "event")
    assert run("fit", *files, *QUICK, "-o", folder / "years.tpnn") == 0
    assert run("report", folder / "years.tpnn", *files, "-o", folder / "years.html") == 0
    assert '"nRows":400' in (folder / "years.html").read_text()


def test_scores_on_the_screen_are_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = (folder / "model.tpnn", folder / "data.csv", "--target", "y")
    assert run("compare", *files) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:2] == ["model", "squared_error"]
    assert [line.split()[0] for line in lines[1:]] == [str(folder / "model.tpnn"), "constant"]


def test_summary_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("summary", folder / "labels.tpnn", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    model = load(folder / "labels.tpnn").model_
    assert told["link"] == "logit"
    assert told["classes"] == ["high", "low"]
    assert told["format_version"] == 1
    assert [line["feature"] for line in told["features"]] == list(model.feature_names)
    importance = {
        " x ".join(names): value for names, value in Explanation(model).importance().items()
    }
    found = {line["component"]: line["importance"] for line in told["components"]}
    assert found == pytest.approx(importance)
    assert sum(told["n_components_by_order"].values()) == len(importance)


def test_summary_in_words(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("summary", folder / "model.tpnn") == 0
    told = capsys.readouterr().out
    assert "link" in told.splitlines()[0]
    assert told.endswith(f"\n\n{load(folder / 'model.tpnn').model_.summary()}\n")


def test_the_remainder_is_one_line_and_one_column(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(50, 3)), columns=["a", "b", "c"])
    model = with_remainder(table_model(frame, order=2))
    model.save(tmp_path / "model.tpnn")
    frame.to_csv(tmp_path / "data.csv", index=False)
    out = tmp_path / "out.csv"
    assert run("explain", tmp_path / "model.tpnn", "-o", out) == 0
    ranked = pd.read_csv(out).set_index("component")
    assert ranked["variance_share"].sum() == pytest.approx(1)
    assert ranked.loc["remainder", "importance"] == pytest.approx(
        Explanation(model).importance()["remainder",]
    )
    assert run("explain", tmp_path / "model.tpnn", tmp_path / "data.csv", "-o", out) == 0
    rows = pd.read_csv(out)
    assert rows.columns[-1] == "remainder"
    assert rows.sum(axis=1).to_numpy() + model.intercept == pytest.approx(model.raw_scores(frame))


def test_a_terminal_gets_a_table_and_a_pipe_gets_csv(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same names and, to three digits, the same numbers."""
    model = folder / "model.tpnn"
    assert run("explain", model) == 0
    frame = pd.read_csv(io.StringIO(capsys.readouterr().out))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run("explain", model) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == list(frame)
    assert {line.index("  ") > 0 for line in lines} == {True}
    cells = [re.split("  +", line) for line in lines]
    assert [line[0] for line in cells] == frame["component"].tolist()
    found = np.array([line[1:] for line in cells], float)
    assert found == pytest.approx(frame.iloc[:, 1:].to_numpy(), abs=0.0051)


def test_tables_on_the_screen_keep_what_counts(capsys: pytest.CaptureFixture[str]) -> None:
    """Identifiers, years and booleans as they are; small p-values and predictions are not zero."""
    table = {
        "id": [1234567, 1234568],
        "year": [2023, 2024],
        "alarm": [True, False],
        "p_value": [2e-12, 0.25],
        "mean": [4128.25, 12.25],
    }
    print_table(table)
    lines = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines[1:]]
    assert cells == [
        ["1234567", "2023", "True", "< 0.001", "4 128"],
        ["1234568", "2024", "False", "0.25", "12"],
    ]
    print_table({"id": [1234567.0, 1234568.0], "prediction": [2e-7, 3.5]}, each_alone=True)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1:] == [["1234567", "2e-07"], ["1234568", "3.5"]]
