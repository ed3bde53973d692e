"""Time of a fit while something else keeps every core busy."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.common.bars import Plan, Row, row
from benchmarks.common.data import california
from benchmarks.common.settings import described
from benchmarks.speed.accuracy import ONE_BAG, steady_fit_seconds, warm_up

START_SECONDS = 1.0  # until the other processes are at work


def measure_busy(plan: Plan) -> list[Row]:
    """Compare the time of a fit of either solver on busy cores with that on idle ones."""
    data, rows = california(0, plan.training_rows), []
    for settings in (ONE_BAG, {}):
        warm_up(settings)
        quiet = steady_fit_seconds(data, settings, plan.timed_steps)
        with _busy_cores():
            busy = steady_fit_seconds(data, settings, plan.timed_steps)
        what = f"fit on busy cores / on idle cores, {described(settings)}"
        rows.append(row("busy", what, busy / quiet, "", "<= 4"))
    return rows


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
