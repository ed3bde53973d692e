"""Cells of the comparison: one model on one split of one table."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss

from benchmarks.common.cells import Cell, Line, failure
from benchmarks.common.environment import machine, seconds, today
from benchmarks.common.interface import Halves, Kind
from benchmarks.common.pool import ignore_warnings
from benchmarks.common.scores import rmse
from benchmarks.peers.frames import TABLES, is_unseen, levels, split, table
from benchmarks.peers.libraries import Maker, Peer
from tpnn._utils.arrays import FloatArray

PREDICTED_ROWS = 50_000  # at least, so that what every call costs anyway is a small part
REPEATS = 3
GRACE = 1  # second in which a process may end by itself
WITH_DUPLICATES = ("wine",)


class Job(NamedTuple):
    """Splits of one table that one model is measured on."""

    data: str
    model: str
    splits: Sequence[int]
    timed: bool = False  # whether seconds are measured: that needs an idle machine
    limit: float | None = None  # seconds after which a fit is stopped, and no split follows


def measure(job: Job, maker: Maker, version: str) -> Iterator[Line]:
    """Give the line of each split as soon as it is known; where a model failed, what it said.

    The job has a process of its own. A fit that takes longer than the limit is stopped, together
    with all processes that it has started, and its line says ``timed_out``.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(sender, job, maker))
    process.start()
    sender.close()  # what is left is the copy of the process
    try:
        for number in job.splits:
            results = _received(receiver, job.limit)
            yield {
                **Cell(job.data, job.model, number)._asdict(),
                "version": version,
                "kind": TABLES[job.data].kind,
                **results,
                **machine(),
                "date": today(),
            }
            if "timed_out" in results:
                break
    finally:
        _stop(process)


def _received(receiver: Connection, limit: float | None) -> dict[str, Any]:
    """Return what ``_work`` sends of a split: sizes before the fit, and the results after it."""
    results: dict[str, Any] = {}
    for patience in (None, limit):
        if not receiver.poll(patience):
            return {**results, "timed_out": limit}
        try:
            results |= receiver.recv()
        except EOFError:
            return {**results, "failed": "its process was killed"}
    return results


def _stop(process: BaseProcess) -> None:
    """End a process and all that it has started, but for those that remove its files."""
    process.join(GRACE)
    assert process.pid is not None
    with suppress(ProcessLookupError):  # all have ended by themselves
        os.killpg(process.pid, signal.SIGTERM)
    process.join()


def _work(sender: Connection, job: Job, maker: Maker) -> None:
    """Send sizes and results of every split, each as soon as it is known."""
    os.setpgrp()  # whatever is started from here on can be stopped together
    ignore_warnings()
    if job.timed:
        _warm_up(maker, TABLES[job.data].kind)
    for number in job.splits:
        data = split(job.data, number)
        sender.send(_sizes(job.data))
        try:
            sender.send(_results(data, job, maker.build(TABLES[job.data].kind, number)))
        except Exception as error:  # whatever another library raises is a result
            sender.send({"failed": failure(error)})


def _sizes(name: str) -> dict[str, int]:
    X = table(name).X
    return {"n_rows": len(X), "n_features": X.shape[1], "n_features_of_levels": len(levels(X))}


def _results(data: Halves, job: Job, model: Peer) -> dict[str, Any]:
    """Fit a model and test it."""
    took = seconds(lambda: model.fit(data.fitted.X, data.fitted.y))
    found: dict[str, Any] = {"scores": scores(job.data, data, model.predict(data.test.X))}
    if (components := model.components()) is not None:
        found["components"] = components
    if job.timed:
        found["fit_seconds"] = took
        found["predict_rows_per_second"] = _rows_per_second(model, data.test.X)
    return found


def _warm_up(maker: Maker, kind: Kind) -> None:
    """Fit a few random rows and predict them, so that what happens once is not timed."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((200, 4)), columns=list("abcd"))
    y = X["a"] + X["b"] + rng.standard_normal(200)
    cuts = {"regression": [], "binary": [0], "multiclass": [-1, 1]}[kind]
    X["level"] = np.where(rng.random(200) < 0.5, "u", "v").astype(object)
    maker.build(kind, 0).fit(X, np.digitize(y, cuts) if cuts else y.to_numpy()).predict(X)


def _rows_per_second(model: Peer, X: pd.DataFrame) -> float:
    """Return the rate of prediction on rows drawn at random, so that no pattern can be learned."""
    drawn = np.random.default_rng(0).integers(len(X), size=max(len(X), PREDICTED_ROWS))
    many = X.iloc[drawn].reset_index(drop=True)
    times = [seconds(lambda: model.predict(many)) for _ in range(REPEATS)]
    return len(many) / float(np.median(times))


def scores(name: str, data: Halves, predicted: FloatArray) -> dict[str, float]:
    """Return the error of the test rows, on some tables also of those that no fit has seen."""
    y = data.test.y
    if predicted.ndim == 2:
        return {"log_loss": float(log_loss(y, predicted, labels=range(predicted.shape[1])))}
    found = {"rmse": rmse(y, predicted)}
    if name in WITH_DUPLICATES:
        unseen = is_unseen(data)
        found["rmse_unseen"] = rmse(y[unseen], predicted[unseen])
    return found
