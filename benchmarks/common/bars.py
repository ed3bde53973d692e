"""Measurements that are compared with a bar: their sizes, their lines and their page."""

from __future__ import annotations

import operator
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import tpnn
from benchmarks.common.cells import PAGES, RESULTS, Line, pack, read
from benchmarks.common.environment import ROOT, machine, today, versions
from benchmarks.common.markdown import four_digits, markdown

LINES, PAGE = RESULTS / "bars.jsonl", PAGES / "results.md"
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
}
HEADER = ("measurement", "what", "value", "bar", "result")
VERDICTS = {True: "reached", False: "missed", None: ""}
PLACE = (
    "{date}, Python {python}, NumPy {numpy}, torch {torch}, numba {numba}, tpnn {tpnn}, "
    "{cpu}, {cores} cores"
)


class Plan(NamedTuple):
    """How large the measurements are; the defaults are what the bars refer to."""

    splits: int = 5  # of California housing
    steps: int = 2000  # most gradient steps of fits that are judged by their error,
    timed_steps: int = 150  # of fits whose times are compared,
    short_steps: int = 60  # and of fits that need not converge
    training_rows: int = 20_000  # most rows that a fit on California housing sees
    predicted_rows: int = 1_000_000
    fitted_rows: int = 1_000_000  # of the measurement of memory
    synthetic_sets: int = 10  # data sets of each synthetic function
    synthetic_rows: int = 15_000
    planted_sets: int = 3  # data sets with planted components
    screened_rows: int = 20_000  # of tables whose pairs are screened
    madelon_splits: int = 3
    wide_rows: int = 2_000  # of the table with thousands of features
    wide_features: int = 5_000


QUICK = Plan(2, 10, 5, 3, 1_000, 20_000, 20_000, 1, 1_000, 1, 1_000, 1, 200, 500)


class Row(NamedTuple):
    """One line of the table."""

    name: str
    what: str
    value: float
    unit: str
    bar: str
    reached: bool | None  # None where there is no bar


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


def as_table(rows: Iterable[Row]) -> str:
    """Return the rows as a Markdown table."""
    return markdown([HEADER, *map(_cells, rows)], padded=True)


def _cells(row: Row) -> tuple[str, ...]:
    value = f"{four_digits(row.value)} {row.unit}".strip()
    return row.name, row.what, value, row.bar, VERDICTS[row.reached]


def store(name: str, rows: Sequence[Row]) -> None:
    """Replace the results of one measurement, and write the page."""
    packages = ("numpy", "torch", "numba")
    place = {
        "date": today(),
        "python": platform.python_version(),
        **dict.fromkeys(packages, "absent"),
        **versions(packages),
        "tpnn": tpnn.__version__,
        **machine(),
    }
    by_name: dict[str, list[Line]] = {}
    for line in read(LINES):
        by_name.setdefault(line["name"], []).append(line)
    by_name[name] = [{**row._asdict(), **place} for row in rows]
    lines = [line for group in by_name.values() for line in group]
    pack(LINES, lines)
    PAGE.write_text(as_page(lines))


def as_page(lines: Sequence[Line]) -> str:
    """Return the page of all lines, with where each measurement was taken."""
    table = as_table(Row(*(line[field] for field in Row._fields)) for line in lines)
    names: dict[str, dict[str, None]] = {}  # place -> names in order of appearance
    for line in lines:
        names.setdefault(PLACE.format(**line), {})[line["name"]] = None
    places = "".join(f"- {', '.join(members)}: {place}\n" for place, members in names.items())
    return f"# Benchmarks\n\n`make benchmark` writes this page.\n\n{table}\n\n{places}"


def resident_bytes(peak: bool = False) -> int:
    """Resident memory of this process, or its peak so far, as Linux says it."""
    name = "VmHWM" if peak else "VmRSS"
    lines = Path("/proc/self/status").read_text().splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith(name))
    return 1024 * int(kilobytes)


def child_command(task: str, *arguments: object) -> list[str]:
    """Command that runs a function of ``benchmarks.common.child`` in a fresh interpreter."""
    return [sys.executable, "-m", "benchmarks.common.child", task, *map(str, arguments)]


def child_output(task: str, *arguments: object, **environment: str) -> str:
    """Return what a function of ``benchmarks.common.child`` prints in a fresh interpreter."""
    finished = subprocess.run(
        child_command(task, *arguments),
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return finished.stdout.strip()
