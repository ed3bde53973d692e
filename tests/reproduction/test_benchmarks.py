"""Tests of what the benchmarks compute themselves."""

from __future__ import annotations

import math
import os
import select
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.growth import exponent
from benchmarks.peers.cells import measure, scores
from benchmarks.peers.models import Maker
from benchmarks.peers.page import Amount, _geometric_mean, as_page
from evaluation.cells import Cell
from evaluation.data import TASKS
from evaluation.interface import Rows, Split, Task
from evaluation.models.estimator import EstimatorModel
from tpnn._typing import FloatArray


def test_exponent_of_a_power():
    assert exponent([10, 100, 1_000], [5e2, 5e4, 5e6]) == pytest.approx(2)


@dataclass(frozen=True)
class Classifier:
    """Says the same of every row, or waits for ever for a helper process."""

    probabilities: tuple[float, ...]
    pipe: Path | None = None  # that the helper holds open as long as it runs

    def fit(self, X: FloatArray, y: FloatArray) -> None:
        if self.pipe and len(X) > 1_000:  # not when it is warmed up
            with self.pipe.open("w") as held:
                held.write("begun")
                held.flush()
                subprocess.run(["cat"], stdin=os.pipe()[0], stdout=held, check=True)

    def predict(self, X: FloatArray) -> FloatArray:
        return np.full(len(X), self.probabilities[0])

    def predict_proba(self, X: FloatArray) -> FloatArray:
        return np.tile(self.probabilities, (len(X), 1))


def _constant(task: Task, seed: int, **settings: Any) -> EstimatorModel:
    return EstimatorModel(Classifier(**settings), task)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe")
def test_a_fit_beyond_the_limit_is_stopped_with_all_its_processes(tmp_path):
    """The pipe is at its end once no process holds it open any more."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        maker = Maker("tpnn", partial(_constant, probabilities=(1.0,), pipe=path))
        record = measure(Cell("abalone", "slow", 0), maker, "1", limit=0.5)
        assert record["timed_out"] == 0.5
        assert not {"fit_seconds", "scores", "failed"} & set(record)
        assert os.read(pipe, 5) == b"begun"
        readable, _, _ = select.select([pipe], [], [], 10)
        assert readable, "the helper is still running"
        assert os.read(pipe, 1) == b""
    finally:
        os.close(pipe)


def test_a_model_that_raises_is_a_record_that_says_so():
    maker = Maker("tpnn", partial(_constant, unknown=1))
    record = measure(Cell("abalone", "broken", 0), maker, "1")
    assert record["failed"].startswith("TypeError")
    assert record["n_train"] == 3341


def test_scores_of_several_classes():
    """Constant shares have no AUROC to speak of, and the cross-entropy of the true shares."""
    y = np.repeat([0, 1, 2], [10, 20, 70])
    X = np.zeros((100, 1))
    data = Split(Rows(X[:70], y[:70]), Rows(X[70:], y[70:]), Rows(X, y))
    shares = EstimatorModel(Classifier((0.1, 0.2, 0.7)), TASKS["drybean"]).predict(X)
    entropy = -sum(p * math.log(p) for p in (0.1, 0.2, 0.7))
    assert scores("drybean", data, shares) == pytest.approx({"log_loss": entropy, "auroc": 0.5})
    assert scores("drybean", data, np.eye(3)[y])["auroc"] == 1


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
