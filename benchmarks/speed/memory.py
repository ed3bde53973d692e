"""Memory that a fit needs beside its table, watched from outside the process that fits."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import psutil

from benchmarks.common.bars import Plan, Row, child_command, row
from benchmarks.common.data import N_FEATURES
from benchmarks.common.environment import ROOT, peak_memory
from benchmarks.common.settings import described

FITS: list[dict[str, Any]] = [  # each long enough for its peak, not to converge
    {"solver": {"name": "gradient", "max_steps": 10}, "n_bags": 1},
    {"solver": {"name": "gradient", "max_steps": 10}, "n_bags": 8},
    {"n_bags": 8, "time_limit": 20},
]


def measure_memory(plan: Plan) -> list[Row]:
    """Measure the peak of resident memory during a fit of main effects beyond that before it."""
    table = f"{plan.fitted_rows:,} x {N_FEATURES}"
    rows = []
    for settings in FITS:
        peak = _extra_bytes(plan.fitted_rows, settings) / 1e9
        what = f"peak of a fit on {table}, {described(settings)}"
        rows.append(row("memory", what, peak, "GB", "<= 1"))
    return rows


def _extra_bytes(n_rows: int, settings: dict[str, Any]) -> int:
    command = child_command("fit_when_told", n_rows, json.dumps(settings))
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()
        before = int(psutil.Process(child.pid).memory_info().rss)
        child.stdin.write("fit\n")
        child.stdin.flush()
        return peak_memory(child) - before
