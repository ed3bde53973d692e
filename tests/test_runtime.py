"""tpnn-runtime in a virtual environment with NumPy alone: it predicts what the library predicts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import venv
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tpnn
from tests.cli.commands import run
from tests.conftest import QUICK
from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "tests" / "reference" / "version_1"
MANY_ROWS = 60_000  # for so many the whole library compiles its loops

ANSWER = """
import sys
import numpy as np
import tpnn

assert not {"pandas", "narwhals", "numba", "sklearn", "scipy"} & {*sys.modules}
folder = sys.argv[1]
answers = {}
columns = dict(np.load(f"{folder}/columns.npz", allow_pickle=True))
for name in ("regressor", "classifier", "survival", "deep", "regressor_json", "deep_json"):
    model = tpnn.load(f"{folder}/{name.replace('_', '.') if 'json' in name else name + '.tpnn'}")
    answers[name] = model.predict(columns)
    explanation = model.explain({key: values[:50] for key, values in columns.items()})
    answers[f"{name}_scores"] = explanation.scores
    answers[f"{name}_shap"] = model.shap_values(
        {key: values[:50] for key, values in columns.items()}).values
    answers[f"{name}_importance"] = list(explanation.importance().values())
    assert explanation.reasons(2)
    answers[f"{name}_summary"] = str(model.summary())
    if name == "classifier":
        answers["proba"] = model.predict_proba(columns)
        answers["raw"] = model.decision_function(columns)
    if name == "survival":
        answers["curves"] = model.predict_survival(columns, [0.5, 1.0])
row = {key: values[0] for key, values in columns.items()}
answers["one"] = tpnn.load(f"{folder}/regressor.tpnn").predict([row])
np.savez(f"{folder}/answers.npz", **answers)
try:
    tpnn.TPNNRegressor
except ImportError as error:
    print(error)
print(*sorted({name.split(".")[0] for name in sys.modules} - {*sys.stdlib_module_names}))
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the programs of an environment that has NumPy and the runtime, and nothing else."""
    folder = tmp_path_factory.mktemp("bare")
    pip = [sys.executable, "-m", "pip", "--quiet"]
    wheel = [*pip, "wheel", "--no-deps", "-w", str(folder / "wheels"), str(ROOT / "runtime")]
    venv.create(folder / "venv", with_pip=False, symlinks=sys.platform != "win32")
    programs = folder / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
    into = [*pip, "--python", str(programs / "python"), "install", f"numpy=={np.__version__}"]
    for command in (wheel, into):
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode:
            pytest.skip(f"no package index: {built.stderr.strip().splitlines()[-1]}")
    (found,) = (folder / "wheels").glob("tpnn_runtime-*.whl")
    subprocess.run([*into[:-1], "--no-index", str(found)], check=True)
    return programs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of all tasks, as the whole library saves them, and columns to predict on."""
    path = tmp_path_factory.mktemp("models")
    rng = np.random.default_rng(0)
    days = [datetime(2020, 1, 1) + timedelta(days=int(day)) for day in rng.integers(0, 99, 400)]
    X = pd.DataFrame({
        "x": rng.normal(size=400), "n": rng.integers(0, 9, 400), "day": days,
        "town": rng.choice(["Ulm", "日本", "a;b"], 400),
    })  # fmt: skip
    X.loc[::7, "x"] = np.nan
    X.loc[::5, "town"] = None
    y = X.n + X.x.fillna(0) + (X.town == "Ulm")
    TPNNRegressor(**QUICK).fit(X, y).model_.save(path / "regressor.tpnn")
    tpnn.load(path / "regressor.tpnn").model_.to_json(path / "regressor.json")
    deep = TPNNRegressor(**QUICK | {"remainder": True}).fit(X, y + X.n * X.x.fillna(0)).model_
    assert deep.remainder is not None
    deep.save(path / "deep.tpnn")
    deep.to_json(path / "deep.json")
    TPNNClassifier(**QUICK).fit(X, np.where(y > 4, "high", "low")).model_.save(
        path / "classifier.tpnn"
    )
    times = np.column_stack([np.exp(-y / 9), X.n > 2])
    TPNNSurvival(**QUICK).fit(X, times).model_.save(path / "survival.tpnn")
    X.to_csv(path / "rows.csv", index=False)
    many = pd.concat([X] * (MANY_ROWS // 400))
    many["x"] += rng.normal(size=len(many))
    columns: dict[str, Any] = {name: many[name].to_numpy() for name in many}
    columns["town"] = many["town"].astype(object).where(many["town"].notna(), None).to_numpy()
    np.savez(path / "columns.npz", **columns)
    return path


def call(*command: Any) -> str:
    """Output of a program that sees neither our sources nor our settings."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, env=clean,
        cwd=Path(command[0]).parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_runtime_equals_the_library(bare: Path, folder: Path) -> None:
    told, modules = call(bare / "python", "-I", "-c", ANSWER, folder).splitlines()
    assert told.startswith("TPNNRegressor: needs the whole library, and only tpnn-runtime")
    assert {"numpy", "tpnn"} <= set(modules.split())
    assert not {"pandas", "narwhals", "numba", "sklearn", "scipy"} & set(modules.split())
    answers = np.load(folder / "answers.npz", allow_pickle=True)
    columns = dict(np.load(folder / "columns.npz", allow_pickle=True))
    few = {name: values[:50] for name, values in columns.items()}
    for name in ("regressor", "classifier", "survival", "deep"):
        model = tpnn.load(folder / f"{name}.tpnn")
        assert np.array_equal(answers[name], model.predict(columns))
        assert np.array_equal(answers[f"{name}_scores"], model.explain(few).scores)
        assert np.allclose(answers[f"{name}_shap"], model.shap_values(few).values, atol=1e-12)
        importance = list(model.explain().importance().values())
        assert np.array_equal(answers[f"{name}_importance"], importance)
        assert answers[f"{name}_summary"] == str(model.summary())
    for name in ("regressor", "deep"):
        assert np.array_equal(answers[f"{name}_json"], answers[name])
    assert answers["one"] == answers["regressor"][:1]
    classifier = tpnn.load(folder / "classifier.tpnn")
    assert np.array_equal(answers["proba"], classifier.predict_proba(columns))
    assert np.array_equal(answers["raw"], classifier.decision_function(columns))
    survival = tpnn.load(folder / "survival.tpnn")
    assert np.array_equal(answers["curves"], survival.predict_survival(columns, [0.5, 1.0]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["regressor", "classifier", "survival", "deep"])
def test_its_command_equals_that_of_the_library(
    bare: Path, folder: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (
        ("predict", folder / f"{name}.tpnn", folder / "rows.csv"),
        ("explain", folder / f"{name}.tpnn", folder / "rows.csv", "--reasons", 2),
        ("explain", folder / f"{name}.tpnn"),
        ("summary", folder / f"{name}.tpnn"),
    ):
        assert run(*command) == 0
        assert call(bare / "tpnn", *command) == capsys.readouterr().out


@pytest.mark.slow
def test_a_command_that_needs_the_library_says_so(bare: Path, folder: Path) -> None:
    done = subprocess.run(
        [bare / "tpnn", "fit", folder / "rows.csv", "--target", "x"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("tpnn fit: needs the whole library, and there is no module")
    assert done.stderr.count("\n") == 1


def test_the_runtime_is_made_of_sources_that_exist() -> None:
    project = tomllib.loads((ROOT / "runtime" / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["dependencies"] == ["numpy>=1.26"]
    parts = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    for source, target in parts.items():
        assert (ROOT / "runtime" / source).exists()
        assert target.split("/")[-1] == source.split("/")[-1]
    assert json.dumps(project["project"]["scripts"]) == '{"tpnn": "tpnn.cli:main"}'
