"""The package of R reads JSON and predicts what the library predicts."""

from __future__ import annotations

import shutil
import subprocess
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


def test_the_package_has_the_version_of_the_library() -> None:
    assert f"Version: {tpnn.__version__}\n" in (PACKAGE / "DESCRIPTION").read_text()
