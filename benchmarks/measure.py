"""What every measurement uses: its sizes, its rows of results, fresh interpreters."""

from __future__ import annotations

import operator
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Plan:
    """How large the measurements are.

    Parameters
    ----------
    folder : Path
        Where results and figures are written.
    splits : int
        Splits of California housing.
    steps, timed_steps, short_steps : int
        Most gradient steps of fits that are judged by their error, of fits whose times are
        compared, and of fits that need not converge.
    training_rows : int
        Most rows that a fit on California housing sees.
    predicted_rows, fitted_rows : int
        Rows of the measurements of prediction and memory.
    synthetic_sets, synthetic_rows : int
        Data sets of each synthetic function, and their rows.
    planted_sets, screened_rows : int
        Data sets with planted components, and rows of tables whose pairs are screened.
    madelon_splits : int
        Splits of madelon.
    wide_rows, wide_features : int
        Size of the table with thousands of features.
    """

    folder: Path
    splits: int
    steps: int
    timed_steps: int
    short_steps: int
    training_rows: int
    predicted_rows: int
    fitted_rows: int
    synthetic_sets: int
    synthetic_rows: int
    planted_sets: int
    screened_rows: int
    madelon_splits: int
    wide_rows: int
    wide_features: int


SIZES = {  # those that the bars refer to, and those that show in seconds whether all works
    "splits": (5, 2),
    "steps": (2000, 10),
    "timed_steps": (150, 5),
    "short_steps": (60, 3),
    "training_rows": (20_000, 1_000),
    "predicted_rows": (1_000_000, 20_000),
    "fitted_rows": (1_000_000, 20_000),
    "synthetic_sets": (10, 1),
    "synthetic_rows": (15_000, 1_000),
    "planted_sets": (3, 1),
    "screened_rows": (20_000, 1_000),
    "madelon_splits": (3, 1),
    "wide_rows": (2_000, 200),
    "wide_features": (5_000, 500),
}


def plan_for(folder: Path, quick: bool = False) -> Plan:
    """Return the full sizes, or quick ones."""
    return Plan(folder, **{name: sizes[quick] for name, sizes in SIZES.items()})


class Row(NamedTuple):
    """One line of the table; ``reached`` is None where there is no bar."""

    name: str
    what: str
    value: float
    unit: str
    bar: str
    reached: bool | None


def row(name: str, what: str, value: float, unit: str, bar: str = "") -> Row:
    """Return a line of the table, judged by a bar such as ``"<= 4"``.

    >>> row("busy", "slowdown", 2.5, "times", "<= 4").reached
    True
    """
    value, reached = float(value), None
    if bar:
        comparison, limit = bar.split()
        reached = COMPARISONS[comparison](value, float(limit))
    return Row(name, what, value, unit, bar, reached)


def resident_bytes(peak: bool = False) -> int:
    """Resident memory of this process, or its peak so far, as Linux says it."""
    name = "VmHWM" if peak else "VmRSS"
    lines = Path("/proc/self/status").read_text().splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith(name))
    return 1024 * int(kilobytes)


def child_command(task: str, *arguments: object) -> list[str]:
    """Command that runs a function of ``benchmarks.child`` in a fresh interpreter."""
    return [sys.executable, "-m", "benchmarks.child", task, *map(str, arguments)]


def child_output(task: str, *arguments: object, **environment: str) -> str:
    """Return what a function of ``benchmarks.child`` prints in a fresh interpreter."""
    finished = subprocess.run(
        child_command(task, *arguments),
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return finished.stdout.strip()
