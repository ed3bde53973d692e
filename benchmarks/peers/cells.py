"""Cells of the comparison: one model on one split of one data set."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import signal
import warnings
from contextlib import suppress
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.environment import cores, processor
from benchmarks.measure import seconds
from benchmarks.peers.data import FloatArray, Split, Task, is_unseen, split, task_of
from benchmarks.peers.models import Maker, Model

PREDICTED_ROWS = 50_000  # at least, so that what every call costs anyway is a small part
REPEATS = 3
GRACE = 1  # second in which a process may end by itself
WITH_DUPLICATES = ("wine",)
OTHERS = "interpret|xgboost|lightgbm|pygam|sklearn|joblib|numpy|scipy"  # not ours to warn about


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


def measure(
    cell: Cell,
    maker: Maker,
    version: str,
    most_rows: int | None = None,
    limit: float | None = None,
) -> dict[str, Any]:
    """Return the record of a cell; where the model failed, what it said.

    The cell has a process of its own. A fit that takes longer than ``limit`` seconds is stopped,
    together with all processes that it has started, and the record says ``timed_out``.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(sender, cell, maker, most_rows))
    process.start()
    sender.close()  # what is left is the copy of the process
    try:
        results = _received(receiver, limit)
    finally:
        _stop(process)
    return {
        **cell._asdict(),
        "version": version,
        "task": task_of(cell.data),
        **results,
        "cpu": processor(),
        "cores": cores(),
        "date": datetime.now(UTC).date().isoformat(),
    }


def _received(receiver: Connection, limit: float | None) -> dict[str, Any]:
    """Return what ``_work`` sends: sizes before the fit, seconds after it, then the rest."""
    results: dict[str, Any] = {}
    for patience in (None, limit, None):
        if not receiver.poll(patience):
            return {**results, "timed_out": limit}
        try:
            results |= receiver.recv()
        except EOFError:
            return {**results, "failed": "its process was killed"}
        if "failed" in results:
            break
    return results


def _stop(process: BaseProcess) -> None:
    """End a process and all that it has started, but for those that remove its files."""
    process.join(GRACE)
    with suppress(ProcessLookupError):  # all have ended by themselves
        os.killpg(process.pid, signal.SIGTERM)
    process.join()


def _work(sender: Connection, cell: Cell, maker: Maker, most_rows: int | None) -> None:
    """Send the results of a cell, each part as soon as it is known."""
    os.setpgrp()  # whatever is started from here on can be stopped together
    warnings.filterwarnings("ignore", module=OTHERS)
    task = task_of(cell.data)
    data = split(cell.data, cell.split, most_rows)
    sizes = {"n_train": len(data.X), "n_features": data.X.shape[1]}
    try:
        _warm_up(maker, task)
        model = maker.build(task, cell.split)
        sender.send(sizes)
        sender.send({"fit_seconds": seconds(lambda: model.fit(data))})
        sender.send(_test(model, data, cell.data))
    except Exception as error:  # whatever another library raises is a result
        message = " ".join(str(error).split())
        sender.send({**sizes, "failed": f"{type(error).__name__}: {message}"})


def _warm_up(maker: Maker, task: Task) -> None:
    """Fit a few random rows and predict them, so that what happens once is not timed."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4))
    y = X[:, 0] + X[:, 1] + rng.standard_normal(200)
    n_classes = 2 if task == "binary" else 3
    target = y if task == "regression" else np.digitize(y, [-1, 1][: n_classes - 1])
    model = maker.build(task, 0)
    model.fit(Split(X, target, 150, X, target))
    model.predict(X)


def _test(model: Model, data: Split, name: str) -> dict[str, Any]:
    return {
        "scores": _scores(data, model.predict(data.X_test), name),
        "predict_rows_per_second": _rows_per_second(model, data.X_test),
    }


def _rows_per_second(model: Model, X: FloatArray) -> float:
    """Return the rate of prediction on rows drawn at random, so that no pattern can be learned."""
    drawn = np.random.default_rng(0).integers(len(X), size=max(len(X), PREDICTED_ROWS))
    many = X[drawn]
    times = [seconds(lambda: model.predict(many)) for _ in range(REPEATS)]
    return len(many) / float(np.median(times))


def _scores(data: Split, predicted: FloatArray, name: str) -> dict[str, float]:
    from sklearn.metrics import log_loss, roc_auc_score

    if task_of(name) != "regression":
        return {
            "log_loss": float(log_loss(data.y_test, predicted)),
            "auroc": float(roc_auc_score(data.y_test, predicted, multi_class="ovr")),
        }
    squares = (data.y_test - predicted) ** 2
    scores = {"rmse": math.sqrt(squares.mean())}
    if name in WITH_DUPLICATES:
        scores["rmse_unseen"] = math.sqrt(squares[is_unseen(data)].mean())
    return scores
