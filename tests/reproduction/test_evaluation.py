"""Tests of what benchmarks and experiments share, and that they share nothing else."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evaluation import cells, stability
from evaluation.data import cut, one_hot, ordinal
from evaluation.interface import Rows, Task
from evaluation.models.default_tpnn import DefaultTPNN
from evaluation.models.ebm import purified
from evaluation.pool import in_processes
from evaluation.scores import prediction_scores, predictive_scores
from evaluation.stability import Decomposition, align, centred_scores

ROOT = Path(__file__).parents[2]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def imported(path: Path) -> set[str]:
    """First part of the name of every module that a file imports, late imports included."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
    return found


@pytest.mark.parametrize(
    ("folder", "forbidden"),
    [
        ("src", {"evaluation", "benchmarks", "experiments"}),
        ("evaluation", {"benchmarks", "experiments"}),
        ("benchmarks", {"experiments"}),
        ("experiments", {"benchmarks"}),
    ],
)
def test_neither_of_the_two_imports_the_other(folder: str, forbidden: set[str]) -> None:
    paths = list((ROOT / folder).rglob("*.py"))
    assert paths
    assert not {str(path) for path in paths if imported(path) & forbidden}


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
        stability.write(tmp_path / f"{name}.npz", Decomposition(components, scores, {"fit": name}))
    fits = [stability.read(tmp_path / f"{name}.npz") for name in "01"]
    assert [fit.notes for fit in fits] == [{"fit": "0"}, {"fit": "1"}]
    components, values = align(fits)
    assert components == [(0,), (1,), (0, 1)]
    np.testing.assert_array_equal(values[0][:, [0, 2]], scores)
    np.testing.assert_array_equal(values[1][:, [1, 0]], scores)
    assert not values[0, :, 1].any()
    assert not values[1, :, 2].any()


def test_components_of_earlier_runs_can_still_be_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "old.npz", components="[[0], [0, 1]]", scores=np.ones((3, 2, 1)))
    kept = stability.read(tmp_path / "old.npz")
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
