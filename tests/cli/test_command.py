"""The command line does what the library does, with exit codes."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tpnn
from tests.cli.commands import run
from tests.conftest import QUICK
from tpnn import TPNNRegressor, TPNNSurvival, load
from tpnn.cli import main
from tpnn.model.model import part_names

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(tpnn.__file__).parents[1])}


def test_fit_equals_the_library(folder: Path) -> None:
    data = pd.read_csv(folder / "data.csv")
    model = TPNNRegressor(n_bags=2, random_state=0, verbose=0).fit(
        data.drop(columns="y"), data["y"]
    )
    saved = load(folder / "model.tpnn").model_
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
    expected = load(folder / f"{name}.tpnn").model_.predict(rows)
    assert np.allclose(read(output)[column], expected)


def test_predict_reads_the_exposure_from_its_column(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pd.read_csv(folder / "data.csv").drop(columns="y").assign(years=np.linspace(0.1, 2, 400))
    model = TPNNRegressor(objective="poisson", exposure="years", **QUICK)
    model.fit(rows, np.random.default_rng(0).poisson(rows["years"]))
    model.model_.save(folder / "claims.tpnn")
    rows.to_csv(folder / "claims.csv", index=False)
    output = folder / "answers-of-claims.csv"
    assert run("predict", folder / "claims.tpnn", folder / "claims.csv", "-o", output) == 0
    assert np.allclose(pd.read_csv(output)["prediction"], model.predict(rows))
    assert run("explain", folder / "claims.tpnn", folder / "data.csv", "-o", output) == 0
    assert list(pd.read_csv(output)) == [" x ".join(s) for s in model.components_]
    assert run("predict", folder / "claims.tpnn", folder / "data.csv") == 1
    assert "X: column 'years' is needed" in capsys.readouterr().err


def test_predict_names_the_relative_risk(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = pd.read_csv(folder / "data.csv").drop(columns="y")
    model = TPNNSurvival(**QUICK).fit(rows, np.column_stack([rows["skewed"], np.ones(400)]))
    model.model_.save(folder / "survival.tpnn")
    assert run("predict", folder / "survival.tpnn", folder / "data.csv") == 0
    assert capsys.readouterr().out.startswith("relative risk\n")


def test_explain_ranks_components(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", folder / "model.tpnn") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "component,importance,relative,variance_share"
    names = [line.split(",")[0] for line in lines[1:]]
    assert sorted(names) == sorted(part_names(load(folder / "model.tpnn").model_))


def test_explain_rows(folder: Path) -> None:
    output = folder / "parts.csv"
    run("explain", folder / "model.tpnn", folder / "data.csv", "-o", output)
    model, rows = load(folder / "model.tpnn").model_, pd.read_csv(folder / "data.csv")
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
    assert list(table) == part_names(load(folder / "model.tpnn").model_)
    assert table.empty


def test_a_reader_that_stops_is_no_error(folder: Path) -> None:
    command = [sys.executable, "-m", "tpnn", "explain", "model.tpnn", "data.csv"]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=ENVIRONMENT,
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
    model = load(output).model_
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
        (("fit", "nothing.csv", "--target", "y"), "data: there is no file"),
        (("fit", "s3://data/a.parquet", "--target", "y"), "data: tpnn fit reads one file of this"),
        (("fit", "data/*.parquet", "--target", "y"), "data: tpnn fit reads one file of this"),
        (("predict", "data.csv", "model.tpnn"), "data: must be a table of rows, found the model"),
        (("predict", "data.csv", "data.csv"), "path: must be a file written by AnovaModel.save"),
        (("report", "model.tpnn", "--target", "y"), "--target: is for scores, which need rows"),
    ],
)
def test_problems_are_said_in_one_line(
    folder: Path, arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(folder / a) if a.endswith((".csv", ".tpnn")) else a for a in arguments]
    assert main(files) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[-1].startswith(f"tpnn {arguments[0]}: {words}")


def test_ctrl_c_is_said_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TPNNRegressor, "fit", interrupted)
    assert run("fit", folder / "data.csv", "--target", "y", "-o", folder / "never.tpnn") == 130
    assert capsys.readouterr().err == "tpnn fit: interrupted\n"
    assert not (folder / "never.tpnn").exists()


def test_warnings_take_one_line(folder: Path) -> None:
    pd.read_csv(folder / "data.csv").assign(smooth=np.nan).to_csv(folder / "gap.csv", index=False)
    told = subprocess.run(
        [sys.executable, "-m", "tpnn", "predict", "model.tpnn", "gap.csv"],
        cwd=folder, capture_output=True, text=True, check=True, env=ENVIRONMENT,
    ).stderr.splitlines()  # fmt: skip
    assert len(told) == 1
    assert told[0].startswith("tpnn predict: warning: X: levels or missing values that fit has")


@pytest.mark.parametrize(
    ("command", "written"),
    [
        (("fit", "{copy}.csv", "--target", "y"), "{copy}.csv"),
        (("predict", "model.tpnn", "{copy}.csv"), "{copy}.csv"),
        (("predict", "{copy}.tpnn", "data.csv"), "{copy}.tpnn"),
        (("explain", "{copy}.tpnn"), "{copy}.tpnn"),
        (("report", "{copy}.tpnn"), "{copy}.tpnn"),
        (("compare", "model.tpnn", "{copy}.tpnn", "data.csv", "--target", "y"), "{copy}.tpnn"),
    ],
)
def test_no_command_overwrites_what_it_reads(
    folder: Path, command: Any, written: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for suffix, name in {".csv": "data.csv", ".tpnn": "model.tpnn"}.items():
        (folder / f"copy{suffix}").write_bytes((folder / name).read_bytes())
    link = folder / "link"  # another name of the same file
    link.unlink(missing_ok=True)
    link.hardlink_to(folder / written.format(copy="copy"))
    files = [folder / a.format(copy="copy") if "." in a else a for a in command]
    before = link.read_bytes()
    assert run(*files, "-o", link) == 1
    assert "--output: must not be a file that is read, found" in capsys.readouterr().err
    assert link.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="devices of POSIX")
def test_a_model_can_be_written_to_standard_output(folder: Path) -> None:
    options = ["--target", "y", "--bags", "1", "--order", "1", "--held-out", "0"]
    told = subprocess.run(
        [sys.executable, "-m", "tpnn", "fit", "data.csv", *options, "-o", "/dev/stdout"],
        cwd=folder, capture_output=True, check=True, env=ENVIRONMENT,
    )  # fmt: skip
    (folder / "streamed.tpnn").write_bytes(told.stdout)
    assert load(folder / "streamed.tpnn").model_.link.name == "identity"
    assert told.stderr.splitlines()[-1].endswith(b"saved to /dev/stdout")


def test_a_full_disk_keeps_the_old_answers(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for suffix in ("csv", "parquet"):
        output = folder / f"old.{suffix}"
        output.write_text("old")
        assert run("predict", folder / "model.tpnn", folder / "data.csv", "-o", output) == 1
        assert "no space left on device" in capsys.readouterr().err
        assert output.read_text() == "old"


def test_wrong_usage_exits_with_two() -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["fit"])
    assert stopped.value.code == 2


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"tpnn {tpnn.__version__}\n"


def test_rows_without_a_target_are_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pd.read_csv(folder / "data.csv")
    table.loc[::4, "y"] = np.nan
    table.to_csv(folder / "gaps.csv", index=False)
    table = pd.read_csv(folder / "gaps.csv")  # whose last digits pandas may change
    output = folder / "gaps.tpnn"
    options = ("--target", "y", "--bags", 1, "--order", 1, "-o", output)
    assert run("fit", folder / "gaps.csv", *options) == 0
    told = capsys.readouterr()
    assert "leaving out 100 rows without a target" in told.err
    assert told.out.startswith("regression: 300 rows, ")
    present = table.dropna(subset="y")
    model = TPNNRegressor(order=1, n_bags=1, random_state=0, verbose=0)
    model.fit(present.drop(columns="y"), present["y"])
    assert np.array_equal(load(output).model_.predict(table), model.predict(table))


@pytest.mark.parametrize(
    ("values", "task", "link"),
    [
        ([0, 1], "auto", "logit"),
        ([0, 1], "regression", "identity"),
        ([0, 1, 2], "auto", "identity"),
        ([0, 1, 2], "classification", "softmax"),
        ([True, False], "auto", "logit"),
        (["a", "b", "c"], "auto", "softmax"),
    ],
)
def test_the_task_is_read_off_the_target(
    folder: Path, values: list[Any], task: str, link: str
) -> None:
    table = pd.read_csv(folder / "data.csv")[["smooth", "skewed"]]
    table["y"] = np.array(values)[np.arange(len(table)) % len(values)]
    table.to_csv(folder / "task.csv", index=False)
    options = ("--target", "y", "--task", task, "--bags", 1, "--order", 1)
    assert run("fit", folder / "task.csv", *options, "-o", folder / "task.tpnn") == 0
    assert load(folder / "task.tpnn").model_.link.name == link


def test_several_outputs_have_a_column_each(folder: Path) -> None:
    """Named by the class, in predictions and in the contributions of rows."""
    table = pd.read_csv(folder / "data.csv")[["smooth", "skewed"]]
    table["y"] = np.array(["a", "b", "c"])[np.digitize(table["smooth"], [-0.5, 0.5])]
    table.to_csv(folder / "three.csv", index=False)
    options = ("--target", "y", "--bags", 1, "--order", 1, "-o", folder / "three.tpnn")
    run("fit", folder / "three.csv", *options)
    model, output = load(folder / "three.tpnn").model_, folder / "three-answers.csv"
    run("predict", folder / "three.tpnn", folder / "three.csv", "-o", output)
    answers = pd.read_csv(output)
    assert list(answers) == ["a", "b", "c"]
    assert np.allclose(answers, model.predict(table))
    run("explain", folder / "three.tpnn", folder / "three.csv", "-o", output)
    parts = pd.read_csv(output)
    assert list(parts)[:3] == ["smooth (a)", "smooth (b)", "smooth (c)"]
    total = parts.filter(like="(b)").sum(1) + model.intercept[1]
    assert np.allclose(total, model.raw_scores(table)[:, 1])


def test_a_report_without_a_target_has_rows_and_no_scores(folder: Path) -> None:
    page = folder / "rows.html"
    assert run("report", folder / "model.tpnn", folder / "data.csv", "-o", page) == 0
    assert '"nRows":400' in page.read_text()
    assert '"scores":[]' in page.read_text()


def test_the_demo_writes_pictures_and_a_report(
    tmp_path: Path, table: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def load(name: str) -> Any:
        asked.append(name)
        return table

    monkeypatch.setattr(tpnn.datasets, "load", load)
    assert run("demo", "-o", tmp_path / "new" / "folder") == 0
    assert asked == ["calhousing"]
    files = sorted(path.name for path in (tmp_path / "new" / "folder").iterdir())
    assert files == ["components.png", "importance.png", "report.html"]
    told = capsys.readouterr().out
    errors = [float(line.split()[1]) for line in told.splitlines() if line.startswith("  mean")]
    fitted = [float(line.split()[1]) for line in told.splitlines() if "TPNNRegressor" in line]
    assert fitted[0] < errors[0]
    assert "so this decomposition of the model is the only one" in told


def test_the_demo_does_without_matplotlib(
    tmp_path: Path, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(tpnn.datasets, "load", lambda name: table)
    assert run("demo", "-o", tmp_path) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_predicting_loads_no_scikit_learn(folder: Path) -> None:
    code = (
        "import sys; from tpnn.cli import main; main(sys.argv[1:]);"
        "print(sorted({'sklearn', 'torch', 'numba', 'matplotlib'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code, "predict", "model.tpnn", "data.csv", "-o", "answers.csv"]
    told = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True,
        env=ENVIRONMENT,
    )  # fmt: skip
    assert told.stdout.strip() == "[]"


def test_a_column_of_a_shape_must_be_there(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--target", "y", "--shapes", "nobody=increasing")
    assert run("fit", folder / "data.csv", *options, "-o", folder / "none.tpnn") == 1
    assert "--shapes: must be a column of the table, found 'nobody'" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["report", "compare"])
def test_events_belong_to_survival(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pd.read_csv(folder / "data.csv").assign(time=lambda X: abs(X["y"]), died=1)
    rows.to_csv(folder / "times.csv", index=False)
    model = TPNNSurvival(**QUICK).fit(rows[["skewed"]], rows[["time", "died"]])
    model.model_.save(folder / "times.tpnn")
    scored = (folder / "times.csv", "--target", "time", "-o", folder / f"times.{command}.csv")
    assert run(command, folder / "times.tpnn", *scored) == 1
    told = capsys.readouterr().err
    assert "--event: is needed to score a survival model besides --target" in told
    assert run(command, folder / "times.tpnn", *scored, "--event", "died") == 0
    assert run(command, folder / "model.tpnn", *scored, "--event", "died") == 1
    assert "--event: is for survival models, and this model has" in capsys.readouterr().err


def test_errors_of_the_system_name_the_file(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("summary", folder / "absent.tpnn") == 1
    told = capsys.readouterr().err
    assert "absent.tpnn': must be a file" in told
    assert told.endswith("found: no such file or directory. Check the path.\n")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    output = folder / "full.csv"
    assert run("predict", folder / "model.tpnn", folder / "data.csv", "-o", output) == 1
    told = capsys.readouterr().err
    assert f"{str(output)!r}: must be a file that can be read or written, found: no space" in told
    assert told.endswith("Free some space, or write elsewhere.\n")


def test_one_component_is_no_plural(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--target", "y", "--order", 1, "--max-components", 1, "--bags", 1, "--held-out", 0)
    assert run("fit", folder / "data.csv", *options, "-o", folder / "one.tpnn") == 0
    assert "400 rows, 1 component, saved to" in capsys.readouterr().out
