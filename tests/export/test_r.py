"""The package of R reads JSON and predicts what the library predicts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tpnn
from tpnn import AnovaModel, TPNNClassifier, TPNNRegressor

ROOT = Path(__file__).parents[2]
PACKAGE, REFERENCE = ROOT / "contrib" / "r" / "tpnn", ROOT / "tests" / "reference" / "version_1"
QUICK: Any = {"n_bags": 2, "random_state": 0, "verbose": 0}
RNG = np.random.default_rng(0)
SCRIPT = """
folder <- commandArgs(TRUE)[1]
for (file in list.files(commandArgs(TRUE)[2], full.names = TRUE)) source(file)
for (path in list.files(folder, pattern = "json$", full.names = TRUE)) {
  model <- read_tpnn(path)
  rows <- read.csv(sub("json$", "csv", path), na.strings = "", check.names = FALSE)
  for (type in c("response", "link")) {
    found <- as.matrix(predict(model, rows, type = type))
    write(format(t(found), digits = 17), paste0(path, ".", type), ncolumns = ncol(found))
  }
  terms <- predict(model, rows, type = "terms")
  sums <- as.matrix(apply(terms, setdiff(seq_along(dim(terms)), 2), sum))
  write(format(t(sums), digits = 17), paste0(path, ".sums"), ncolumns = ncol(sums))
}
"""

pytestmark = pytest.mark.skipif(shutil.which("Rscript") is None, reason="needs R")


def with_gaps_and_levels(n_rows: int) -> pd.DataFrame:
    X = pd.DataFrame({"a": RNG.normal(size=n_rows), "town": RNG.choice(["x", 'y "é', "z"], n_rows)})
    X["code"], X["b"] = RNG.choice([10.0, 20.0, 35.5], n_rows), RNG.normal(size=n_rows)
    X["years"] = 0.5 + RNG.random(n_rows)
    X.loc[RNG.random(n_rows) < 0.1, ["b", "town"]] = None
    return X


@cache
def models() -> dict[str, tuple[AnovaModel, pd.DataFrame]]:
    """Models of every kind, each with rows beyond and beside those of the fit."""
    rows = pd.read_parquet(REFERENCE / "rows.parquet")
    found = {path.stem: (tpnn.load(path).model_, rows) for path in sorted(REFERENCE.glob("*.tpnn"))}
    X, new = with_gaps_and_levels(400), with_gaps_and_levels(60)
    new.loc[:5, "town"], new.loc[6:9, "code"], new.loc[10:15, "a"] = (
        "new",
        99.0,
        [-9, 9, 0, 1, 2, 3],
    )
    new.loc[20:22, "a"] = np.nan
    y = X["a"] * X["b"].fillna(1) + (X["town"] == "x") + X["code"] / 20
    levels: Any = {**QUICK, "remainder": True, "categorical": ["code"]}
    found["remainder"] = TPNNRegressor(**levels).fit(X, y).model_, new
    found["classes"] = TPNNClassifier(**levels).fit(X, np.digitize(y, [0, 1, 2])).model_, new
    counts = RNG.poisson(X["years"])
    rates = TPNNRegressor(**QUICK, objective="poisson", exposure="years", order=2)
    found["exposure"] = rates.fit(X, counts).model_, new
    numbers = X[["a", "b", "code"]].to_numpy()
    unnamed = TPNNRegressor(**QUICK, order=2).fit(numbers, y).model_
    found["unnamed"] = unnamed, pd.DataFrame(new[["a", "b", "code"]].to_numpy()).add_prefix("x")
    return found


@pytest.mark.filterwarnings("ignore:X. levels or missing values")
def test_r_predicts_what_the_library_predicts(tmp_path: Path) -> None:
    cases = models()
    for name, (model, rows) in cases.items():
        model.to_json(tmp_path / f"{name}.json")
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "script.R").write_text(SCRIPT)
    run = ["Rscript", tmp_path / "script.R", tmp_path, PACKAGE / "R"]
    ended = subprocess.run(run, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    for name, (model, rows) in cases.items():
        table = rows.to_numpy(float) if name == "unnamed" else rows
        expected = {"response": model.predict(table), "link": model.raw_scores(table)}
        parts = np.asarray(model.component_scores(table)).sum(1) + model.remainder_scores(table)
        expected["sums"] = parts
        for type_, values in expected.items():
            found = np.loadtxt(tmp_path / f"{name}.json.{type_}")
            assert np.allclose(found, values, rtol=1e-12, atol=1e-12), (name, type_)


FIT = """
for (file in list.files(commandArgs(TRUE)[2], full.names = TRUE)) source(file)
folder <- commandArgs(TRUE)[1]
rows <- read.csv(file.path(folder, "rows.csv"), na.strings = "", stringsAsFactors = TRUE)
rows$day <- as.Date(rows$day)
rows$flag <- rows$flag == "True"
rows$size <- factor(rows$size, c("S", "M", "L"), ordered = TRUE)
settings <- list(data = rows, weights = rows$w, n_bags = 2, order = 2, random_state = 0,
                 verbose = 0)
number <- do.call(fit_tpnn, c(list(formula = y ~ a + n + town + size + day + flag), settings))
label <- do.call(fit_tpnn, c(list(formula = kind ~ a + town), settings))
write(format(predict(number, rows), digits = 17), file.path(folder, "number"), ncolumns = 1)
write(format(predict(label, rows), digits = 17), file.path(folder, "label"), ncolumns = 1)
for (wrong in list(y ~ a:n, log(y) ~ ., ~ a, a ~ a + n, y ~ a + offset(log(n)), y ~ a - 1)) {
  message <- tryCatch(fit_tpnn(wrong, rows), error = conditionMessage)
  stopifnot(is.character(message), grepl("columns of data are needed", message))
}
"""


def has_reticulate() -> bool:
    asked = ["Rscript", "-e", "stopifnot(requireNamespace('reticulate', quietly = TRUE))"]
    return subprocess.run(asked, capture_output=True).returncode == 0


def test_r_fits_what_python_fits(tmp_path: Path) -> None:
    if not has_reticulate():
        pytest.skip("needs the package reticulate of R")
    rows = with_gaps_and_levels(200)[["a", "town"]].round(3)  # R may read long numbers off by a bit
    rows["n"], rows["w"] = RNG.integers(0, 9, 200), RNG.integers(1, 4, 200)
    rows["size"] = pd.Categorical(RNG.choice(list("SML"), 200), list("SML"), ordered=True)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 90, 200), "D")
    rows["day"] = pd.Series(days).where(RNG.random(200) < 0.9)
    rows["flag"] = RNG.random(200) < 0.5
    rows["y"] = rows["a"] + rows["n"] / 8 + (rows["town"] == "x") * rows["flag"]
    rows["kind"] = np.where(rows["y"] > rows["y"].median(), "high", "low")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "script.R").write_text(FIT)
    run = ["Rscript", tmp_path / "script.R", tmp_path, PACKAGE / "R"]
    known = {"RETICULATE_PYTHON": sys.executable, "PYTHONPATH": str(ROOT / "src")}
    ended = subprocess.run(run, capture_output=True, text=True, env=os.environ | known)
    assert ended.returncode == 0, ended.stderr[-3000:]
    for name, estimator, target, columns in (
        ("number", TPNNRegressor, "y", ["a", "n", "town", "size", "day", "flag"]),
        ("label", TPNNClassifier, "kind", ["a", "town"]),
    ):
        fitted = estimator(**QUICK, order=2).fit(rows[columns], rows[target], rows["w"])
        expected = fitted.model_.predict(rows[columns])
        np.testing.assert_allclose(np.loadtxt(tmp_path / name), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_the_package_passes_the_check_of_r(tmp_path: Path) -> None:
    for step in (
        ["build", str(PACKAGE)],
        ["check", "--no-manual", f"tpnn_{tpnn.__version__}.tar.gz"],
    ):
        quiet = os.environ | {"_R_CHECK_FORCE_SUGGESTS_": "false"}
        run = ["R", "CMD", *step]
        ended = subprocess.run(run, capture_output=True, text=True, env=quiet, cwd=tmp_path)
        assert ended.returncode == 0, ended.stdout[-3000:]
        assert "WARNING" not in ended.stdout


def test_the_package_has_the_version_of_the_library() -> None:
    assert f"Version: {tpnn.__version__}\n" in (PACKAGE / "DESCRIPTION").read_text()
