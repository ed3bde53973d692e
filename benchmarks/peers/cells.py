"""Cells of the comparison: one model on one split of one data set."""

from __future__ import annotations

import multiprocessing
import os
import signal
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np

from benchmarks.peers.data import is_unseen, split
from benchmarks.peers.models import Maker
from evaluation.cells import Cell, Line, failure
from evaluation.data import TASKS
from evaluation.environment import machine, seconds, today
from evaluation.interface import Rows, Split, Task
from evaluation.models.estimator import EstimatorModel
from evaluation.pool import ignore_warnings
from evaluation.scores import predictive_scores
from tpnn._typing import FloatArray

PREDICTED_ROWS = 50_000  # at least, so that what every call costs anyway is a small part
REPEATS = 3
GRACE = 1  # second in which a process may end by itself
WITH_DUPLICATES = ("wine",)


def measure(
    cell: Cell,
    maker: Maker,
    version: str,
    most_rows: int | None = None,
    limit: float | None = None,
) -> Line:
    """Return the line of a cell; where the model failed, what it said.

    The cell has a process of its own. A fit that takes longer than ``limit`` seconds is stopped,
    together with all processes that it has started, and the line says ``timed_out``.
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
        "task": TASKS[cell.data].kind,
        **results,
        **machine(),
        "date": today(),
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
    assert process.pid is not None
    with suppress(ProcessLookupError):  # all have ended by themselves
        os.killpg(process.pid, signal.SIGTERM)
    process.join()


def _work(sender: Connection, cell: Cell, maker: Maker, most_rows: int | None) -> None:
    """Send the results of a cell, each part as soon as it is known."""
    os.setpgrp()  # whatever is started from here on can be stopped together
    ignore_warnings()
    task, data = TASKS[cell.data], split(cell.data, cell.split, most_rows)
    n_train = len(data.training.X) + len(data.validation.X)
    sizes = {"n_train": n_train, "n_features": data.training.X.shape[1]}
    try:
        _warm_up(maker, task)
        model = maker.build(task, cell.split)
        sender.send(sizes)
        took = seconds(lambda: model.fit(data.training, data.validation))
        sender.send({"fit_seconds": took})
        sender.send(_test(model, data, cell.data))
    except Exception as error:  # whatever another library raises is a result
        sender.send({**sizes, "failed": failure(error)})


def _warm_up(maker: Maker, task: Task) -> None:
    """Fit a few random rows and predict them, so that what happens once is not timed."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4))
    y = X[:, 0] + X[:, 1] + rng.standard_normal(200)
    cuts = {"regression": [], "binary": [0], "multiclass": [-1, 1]}[task.kind]
    target = np.digitize(y, cuts) if cuts else y
    model = maker.build(task, 0)
    model.fit(Rows(X[:150], target[:150]), Rows(X[150:], target[150:]))
    model.predict(X)


def _test(model: EstimatorModel, data: Split, name: str) -> dict[str, Any]:
    return {
        "scores": scores(name, data, model.predict(data.test.X)),
        "predict_rows_per_second": _rows_per_second(model, data.test.X),
    }


def _rows_per_second(model: EstimatorModel, X: FloatArray) -> float:
    """Return the rate of prediction on rows drawn at random, so that no pattern can be learned."""
    drawn = np.random.default_rng(0).integers(len(X), size=max(len(X), PREDICTED_ROWS))
    many = X[drawn]
    times = [seconds(lambda: model.predict(many)) for _ in range(REPEATS)]
    return len(many) / float(np.median(times))


def scores(name: str, data: Split, predicted: FloatArray) -> dict[str, float]:
    """Return the scores of the test rows, on some data sets also of those that no fit has seen."""
    task, y = TASKS[name], data.test.y
    found = predictive_scores(task, y, predicted)
    if name in WITH_DUPLICATES:
        unseen = is_unseen(data)
        found["rmse_unseen"] = predictive_scores(task, y[unseen], predicted[unseen])["rmse"]
    return found
