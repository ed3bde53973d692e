"""Tests of what the benchmarks compute themselves."""

from __future__ import annotations

import math
import subprocess
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.growth import exponent
from benchmarks.peers.cells import Cell, _scores, measure
from benchmarks.peers.data import FloatArray, Split, Task, task_of
from benchmarks.peers.models import Maker, Model
from benchmarks.peers.page import Amount, _geometric_mean, as_page
from benchmarks.stability.cells import align
from benchmarks.stability.models import purified
from benchmarks.stability.score import centred_scores


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_score_of_independent_noise_is_its_share_of_the_second_moment(rng):
    """With f^j = signal + noise the ratio is near s^2 (J - 1) / (J m^2 + J s^2), row by row."""
    signal = np.where(np.arange(4_000) % 2, 1.0, -1.0)
    values = signal[:, None] + 0.5 * rng.standard_normal((10, 4_000, 1))
    assert centred_scores(values)[0] == pytest.approx(0.25 * 0.9 / 1.25, rel=0.05)


def test_score_does_not_depend_on_scale_or_constant(rng):
    values = rng.standard_normal((3, 50, 2))
    moved = 7 * values + rng.standard_normal((3, 1, 2))
    np.testing.assert_allclose(centred_scores(moved), centred_scores(values))


def test_a_component_that_nobody_has_is_stable():
    assert centred_scores(np.zeros((2, 5, 1))).tolist() == [0.0]


def test_purified_pairs_have_no_means_and_the_sum_keeps_its_differences(rng):
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


def test_components_that_a_fit_has_not_chosen_are_zero():
    union, aligned = align(
        [[[0], [1]], [[1], [1, 0]]], [np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]])]
    )
    assert union == [(0,), (1,), (0, 1)]
    assert aligned[:, 0].tolist() == [[1, 2, 0], [0, 3, 4]]


def test_exponent_of_a_power():
    assert exponent([10, 100, 1_000], [5e2, 5e4, 5e6]) == pytest.approx(2)


@dataclass(frozen=True)
class Classifier:
    """Says the same of every row, after a helper process has slept for an hour or not."""

    probabilities: tuple[float, ...]
    helper: Path | None = None  # where to write the number of the helper

    def fit(self, X: FloatArray, y: FloatArray) -> None:
        if self.helper and len(X) > 1_000:  # not when it is warmed up
            process = subprocess.Popen(["sleep", "3600"])
            self.helper.write_text(str(process.pid))
            process.wait()

    def predict(self, X: FloatArray) -> FloatArray:
        return np.full(len(X), self.probabilities[0])

    def predict_proba(self, X: FloatArray) -> FloatArray:
        return np.tile(self.probabilities, (len(X), 1))


def _constant(task: Task, seed: int, **settings: Any) -> Model:
    return Model(Classifier(**settings), task)


def _is_running(process: int) -> bool:
    status = Path(f"/proc/{process}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for a process in /proc")
def test_a_fit_beyond_the_limit_is_stopped_with_all_its_processes(tmp_path):
    path = tmp_path / "helper"
    maker = Maker("tpnn", partial(_constant, probabilities=(1.0,), helper=path))
    record = measure(Cell("abalone", 0, "slow"), maker, "1", limit=0.5)
    assert record["timed_out"] == 0.5
    assert not {"fit_seconds", "scores", "failed"} & set(record)
    for _ in range(100):
        if not _is_running(int(path.read_text())):
            return
        time.sleep(0.1)
    raise AssertionError("the helper is still running")


def test_a_model_that_raises_is_a_record_that_says_so():
    maker = Maker("tpnn", partial(_constant, unknown=1))
    record = measure(Cell("abalone", 0, "broken"), maker, "1")
    assert record["failed"].startswith("TypeError")
    assert record["n_train"] == 3341


def test_scores_of_several_classes():
    """Constant shares have no AUROC to speak of, and the cross-entropy of the true shares."""
    y = np.repeat([0, 1, 2], [10, 20, 70])
    X = np.zeros((100, 1))
    data = Split(X, y, 80, X, y)
    shares = Model(Classifier((0.1, 0.2, 0.7)), "multiclass").predict(X)
    scores = _scores(data, shares, "drybean")
    entropy = -sum(p * math.log(p) for p in (0.1, 0.2, 0.7))
    assert scores == pytest.approx({"log_loss": entropy, "auroc": 0.5})
    assert _scores(data, np.eye(3)[y], "drybean")["auroc"] == 1
    assert task_of("drybean") == "multiclass"


def _record(model: str, split: int, seconds: float, **further: Any) -> dict[str, Any]:
    return {
        **{"data": "abalone", "split": split, "model": model, "version": "1", "date": "today"},
        **{"n_train": 10, "n_features": 2, "cpu": "A", "cores": 2},
        **({} if "timed_out" in further else {"scores": {"rmse": 1.0}, "fit_seconds": seconds}),
        **{"predict_rows_per_second": 1.0, **further},
    }


def _line(page: str, title: str, name: str) -> list[str]:
    part = page.split(f"## {title}")[1]
    line = next(line for line in part.splitlines() if line.startswith(f"| {name} "))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_ratios_of_times_are_within_one_machine():
    here = [_record("tpnn", split, 2.0) for split in range(2)] + [_record("ebm", 0, 100.0)]
    there = [
        _record(model, split, seconds, cpu="B")
        for model, seconds in (("tpnn", 1.0), ("ebm", 10.0))
        for split in range(2)
    ]
    line = _line(as_page([*here, *there]), "Seconds of a fit", "abalone")
    assert line[3] == "B, 2 cores"
    assert line[-2] == "0.1"
    only_far = _line(as_page([*here[:2], *there[2:]]), "Seconds of a fit", "abalone")
    assert only_far[-2] == "-"


def test_a_stopped_fit_bounds_the_ratio():
    records = [_record("tpnn", 0, 3.0), _record("ebm", 0, 0, timed_out=1200.0)]
    page = as_page(records)
    line = _line(page, "Seconds of a fit", "abalone")
    assert line[6] == "> 1,200"
    assert line[-2] == "< 0.0025"
    assert _line(page, "Seconds of a fit", "geometric mean")[-2] == "< 0.0025"
    assert _line(page, "Rows predicted per second", "abalone")[-2] == "-"
    assert "ebm on abalone, split 0: timed out after 1,200 s" in page


def test_bounds_on_both_sides_say_nothing_of_the_mean():
    assert str(_geometric_mean([Amount(2.0, "<"), Amount(8.0)])) == "< 4"
    assert str(_geometric_mean([Amount(2.0, "<"), Amount(8.0, ">")])) == "-"
