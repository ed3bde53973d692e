"""Time of a fit while something else keeps every core busy."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.accuracy import steady_fit_seconds, warm_up
from benchmarks.data import california
from benchmarks.measure import Plan, Row, row

START_SECONDS = 1.0  # until the other processes are at work


def measure_busy(plan: Plan) -> list[Row]:
    """Compare the time of a fit on busy cores with that on idle ones."""
    warm_up(2, n_bags=1)
    data = california(0, plan.training_rows)
    quiet = steady_fit_seconds(data, 1, plan.timed_steps)
    with _busy_cores():
        busy = steady_fit_seconds(data, 1, plan.timed_steps)
    return [row("busy", "fit on busy cores / on idle cores", busy / quiet, "", "<= 4")]


@contextmanager
def _busy_cores() -> Iterator[None]:
    """Run one endless loop per core."""
    loops: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(os.cpu_count() or 1):
            loops.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
        time.sleep(START_SECONDS)
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
