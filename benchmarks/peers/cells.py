"""Cells of the comparison: one model on one split of one data set."""

from __future__ import annotations

import json
import math
import os
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.environment import processor
from benchmarks.measure import seconds
from benchmarks.peers.data import FloatArray, Split, Task, is_unseen, split, task_of
from benchmarks.peers.models import Maker, Model

PREDICTED_ROWS = 50_000  # at least, so that what every call costs anyway is a small part
REPEATS = 3
WITH_DUPLICATES = ("wine",)


class Cell(NamedTuple):
    """What one line of the file is about."""

    data: str
    split: int
    model: str


def read(path: Path) -> list[dict[str, Any]]:
    """Return the records of the file, none where it is not there yet."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def finished(path: Path) -> set[Cell]:
    """Return the cells that the file has."""
    return {Cell(*(record[field] for field in Cell._fields)) for record in read(path)}


def append(path: Path, record: dict[str, Any]) -> None:
    """Add a record to the file."""
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")


def measure(cell: Cell, maker: Maker, version: str, most_rows: int | None) -> dict[str, Any]:
    """Return the record of a cell; where the model failed, what it said."""
    task = task_of(cell.data)
    data = split(cell.data, cell.split, most_rows)
    try:
        _warm_up(maker, task)
        results = _fit_and_test(maker.build(task, cell.split), data, cell.data)
    except Exception as error:  # whatever another library raises is a result
        message = " ".join(str(error).split())
        results = {"failed": f"{type(error).__name__}: {message}"}
    return {
        **cell._asdict(),
        "version": version,
        "task": task,
        "n_train": len(data.X),
        "n_features": data.X.shape[1],
        **results,
        "cpu": processor(),
        "cores": os.cpu_count() or 1,
        "date": datetime.now(UTC).date().isoformat(),
    }


@lru_cache
def _warm_up(maker: Maker, task: Task) -> None:
    """Fit a few random rows and predict them, so that what happens once is not timed."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4))
    y = X[:, 0] + X[:, 1] + rng.standard_normal(200)
    target = y if task == "regression" else (y > 0).astype(np.int64)
    model = maker.build(task, 0)
    model.fit(Split(X, target, 150, X, target))
    model.predict(X)


def _fit_and_test(model: Model, data: Split, name: str) -> dict[str, Any]:
    fit_seconds = seconds(lambda: model.fit(data))
    scores = _scores(data, model.predict(data.X_test), name)
    return {
        "fit_seconds": fit_seconds,
        "predict_rows_per_second": _rows_per_second(model, data.X_test),
        "scores": scores,
    }


def _rows_per_second(model: Model, X: FloatArray) -> float:
    """Return the rate of prediction on rows drawn at random, so that no pattern can be learned."""
    drawn = np.random.default_rng(0).integers(len(X), size=max(len(X), PREDICTED_ROWS))
    many = X[drawn]
    times = [seconds(lambda: model.predict(many)) for _ in range(REPEATS)]
    return len(many) / float(np.median(times))


def _scores(data: Split, predicted: FloatArray, name: str) -> dict[str, float]:
    from sklearn.metrics import log_loss, roc_auc_score

    if task_of(name) == "binary":
        return {
            "log_loss": float(log_loss(data.y_test, predicted)),
            "auroc": float(roc_auc_score(data.y_test, predicted)),
        }
    squares = (data.y_test - predicted) ** 2
    scores = {"rmse": math.sqrt(squares.mean())}
    if name in WITH_DUPLICATES:
        scores["rmse_unseen"] = math.sqrt(squares[is_unseen(data)].mean())
    return scores
