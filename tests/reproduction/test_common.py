"""Tests of what the benchmarks share, and of who may import whom."""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.__main__ import listed
from benchmarks.common import cells, decompositions
from benchmarks.common.data import cut, one_hot, ordinal
from benchmarks.common.decompositions import Decomposition, align, centred_scores
from benchmarks.common.interface import Rows, Task
from benchmarks.common.models.default_tpnn import DefaultTPNN
from benchmarks.common.models.ebm import purified
from benchmarks.common.pool import in_processes
from benchmarks.common.scores import prediction_scores, predictive_scores

ROOT = Path(__file__).parents[2]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


ROOMS = ("paper", "peers", "speed", "truth")


def imported(path: Path) -> set[str]:
    """Every module that a file imports, late imports included, and all that they are in."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name[: end.start()] for name in names for end in re.finditer(r"\.|$", name)}


@pytest.mark.parametrize(
    ("folder", "forbidden"),
    [
        ("src", {"benchmarks", "tests"}),
        ("benchmarks/common", {f"benchmarks.{room}" for room in ROOMS}),
        ("benchmarks/paper", {f"benchmarks.{room}" for room in ("peers", "speed", "truth")}),
        ("benchmarks/speed", {f"benchmarks.{room}" for room in ("paper", "peers", "truth")}),
        ("benchmarks/truth", {f"benchmarks.{room}" for room in ("paper", "peers", "speed")}),
        ("benchmarks/peers", {"benchmarks.paper"}),  # its page has parts of the two others
    ],
)
def test_rooms_of_the_benchmarks_share_what_is_common_alone(
    folder: str, forbidden: set[str]
) -> None:
    paths = list((ROOT / folder).rglob("*.py"))
    assert paths
    assert not {str(path) for path in paths if imported(path) & forbidden}


@pytest.mark.parametrize("line", listed().splitlines())
def test_everything_that_is_listed_can_be_run_and_says_what_it_is(line: str) -> None:
    command, _, said = line.partition("  ")
    if command.startswith("python -m benchmarks."):
        assert find_spec(command.split()[-1]) is not None
        assert said.strip()


def test_lines_are_read_packed_and_plain_and_a_cut_one_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    cells.pack(path, [{"cell": 1}])
    cells.append(path, {"cell": 2})
    with path.open("a") as file:
        file.write('{"cell": ')
    assert cells.read(path) == [{"cell": 1}, {"cell": 2}]
    cells.pack(path, cells.read(path))
    assert [file.name for file in tmp_path.iterdir()] == ["lines.jsonl.gz"]
    assert cells.read(path) == [{"cell": 1}, {"cell": 2}]


def test_cells_that_have_a_line_are_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "RESULTS", tmp_path)
    asked = []

    def measure(one: str, two: int) -> dict[str, Any]:
        asked.append((one, two))
        return {"value": len(asked)}

    for wanted in ([("a", 1)], [("a", 1), ("b", 2)]):
        lines = cells.complete("name", ("one", "two"), wanted, measure)
    assert asked == [("a", 1), ("b", 2)]
    assert lines[-1] == {"one": "b", "two": 2, "value": 2}


def test_score_of_independent_noise_is_its_share_of_the_second_moment(
    rng: np.random.Generator,
) -> None:
    """With f^j = signal + noise the ratio is near s^2 (J - 1) / (J m^2 + J s^2), row by row."""
    signal = np.where(np.arange(4_000) % 2, 1.0, -1.0)
    values = signal[:, None] + 0.5 * rng.standard_normal((10, 4_000, 1))
    assert centred_scores(values)[0] == pytest.approx(0.25 * 0.9 / 1.25, rel=0.05)


def test_score_does_not_depend_on_scale_or_constant(rng: np.random.Generator) -> None:
    values = rng.standard_normal((3, 50, 2))
    moved = 7 * values + rng.standard_normal((3, 1, 2))
    np.testing.assert_allclose(centred_scores(moved), centred_scores(values))


def test_a_component_that_nobody_has_is_stable() -> None:
    assert centred_scores(np.zeros((2, 5, 1))).tolist() == [0.0]


def test_purified_pairs_have_no_means_and_the_sum_keeps_its_differences(
    rng: np.random.Generator,
) -> None:
    terms = [(0,), (1,), (0, 1)]
    tables = [rng.standard_normal(shape) for shape in ((4,), (3,), (4, 3))]
    first, second = rng.integers(4, size=200), rng.integers(3, size=200)
    training = np.column_stack([first, second, 3 * first + second])
    a, b = np.divmod(np.arange(12), 3)
    grid = np.column_stack([a, b, np.arange(12)])
    values = purified(terms, tables, training, grid)
    before = sum(table.ravel()[grid[:, t]] for t, table in enumerate(tables))
    assert np.ptp(values.sum(1) - before) == pytest.approx(0, abs=1e-12)
    pair = values[:, 2].reshape(4, 3)
    masses = [np.bincount(first, minlength=4) / 200, np.bincount(second, minlength=3) / 200]
    assert np.ptp(pair @ masses[1]) == pytest.approx(0, abs=1e-12)
    assert np.ptp(masses[0] @ pair) == pytest.approx(0, abs=1e-12)


def test_components_that_a_fit_does_not_have_are_zero(tmp_path: Path) -> None:
    """Values survive the way through files; features of a component come in any order."""
    scores = np.arange(12.0).reshape(3, 2, 2)  # 3 rows, 2 components, 2 outputs
    for name, components in (("0", [(0,), (1, 0)]), ("1", [(1,), (0,)])):
        decompositions.write(
            tmp_path / f"{name}.npz", Decomposition(components, scores, {"fit": name})
        )
    fits = [decompositions.read(tmp_path / f"{name}.npz") for name in "01"]
    assert [fit.notes for fit in fits] == [{"fit": "0"}, {"fit": "1"}]
    components, values = align(fits)
    assert components == [(0,), (1,), (0, 1)]
    np.testing.assert_array_equal(values[0][:, [0, 2]], scores)
    np.testing.assert_array_equal(values[1][:, [1, 0]], scores)
    assert not values[0, :, 1].any()
    assert not values[1, :, 2].any()


def test_components_of_earlier_runs_can_still_be_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "old.npz", components="[[0], [0, 1]]", scores=np.ones((3, 2, 1)))
    kept = decompositions.read(tmp_path / "old.npz")
    assert kept.components == [(0,), (0, 1)]
    assert kept.notes == {}


def test_lines_survive_a_kill_while_one_is_written(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    assert cells.read(path) == []
    line = {"data": "wine", "model": "ebm", "split": 3, "scores": {"rmse": 0.5}}
    cells.append(path, line)
    with path.open("a") as file:
        file.write('{"data": "wi')
    assert cells.read(path) == [line]
    assert cells.cell_of(line) == cells.Cell("wine", "ebm", 3)


def test_codings_of_a_table_with_levels_and_missing_values() -> None:
    table = pd.DataFrame({"size": [2.0, np.nan, 6.0, 4.0], "town": ["b", "a", None, "b"]})
    assert ordinal(table).tolist() == [[2, 1], [1, 0], [6, -1], [4, 1]]
    coded = one_hot(table)
    assert list(coded.columns) == ["size", "town_a", "town_b"]
    assert coded.to_numpy().tolist() == [[2, 0, 1], [4, 1, 0], [6, 0, 0], [4, 0, 1]]


def test_rows_that_are_fitted_are_those_to_train_and_then_those_to_choose_by() -> None:
    parts = cut(Rows(np.arange(50.0)[:, None], np.arange(50)), seed=4, most_rows=30)
    assert [len(part.y) for part in parts] == [21, 3, 6]
    np.testing.assert_array_equal(parts.fitted.y, [*parts.training.y, *parts.validation.y])
    assert len({*parts.fitted.y, *parts.test.y}) == 30


@pytest.mark.parametrize("kind", ["regression", "binary", "multiclass"])
def test_raw_scores_and_predictions_are_judged_alike(kind: Any, rng: np.random.Generator) -> None:
    """A model's raw scores and what it predicts give the same RMSE or AUROC."""
    task = Task(kind, 3 if kind == "multiclass" else 1)
    raw = rng.normal(size=(60, task.n_outputs))
    classes = rng.integers(max(task.n_outputs, 2), size=60)
    y = rng.normal(size=60) if kind == "regression" else classes
    shares = np.exp(raw) / np.exp(raw).sum(1, keepdims=True)
    predicted = {"regression": raw[:, 0], "binary": 1 / (1 + np.exp(-raw[:, 0]))}.get(kind, shares)
    shared = "rmse" if kind == "regression" else "auroc"
    by_raw, by_prediction = prediction_scores(task, y, raw), predictive_scores(task, y, predicted)
    assert by_raw[shared] == pytest.approx(by_prediction[shared])


def test_predictions_of_an_estimator_are_those_of_its_raw_scores() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 2))
    rows = Rows(X, (X[:, 0] > 0).astype(np.int64))
    model = DefaultTPNN(Task("binary"), order=1, n_bags=2).fit(rows, rows)
    logit = model.raw_scores(X)[:, 0]
    np.testing.assert_allclose(model.predict(X), 1 / (1 + np.exp(-logit)), atol=1e-12)


def _square(number: int) -> int:
    if number == 2:
        raise ValueError("two")
    return number**2


def test_a_cell_that_fails_in_its_process_stops_no_other() -> None:
    found = dict(in_processes(_square, [1, 2, 3], jobs=2))
    assert (found[1].result(), found[3].result()) == (1, 9)
    assert isinstance(found[2].exception(), ValueError)
