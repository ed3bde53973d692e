"""Results as a table, and the files that keep them."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from pathlib import Path

import tpnn
from benchmarks.measure import Row
from evaluation.cells import Line, read, rewrite
from evaluation.environment import machine, today, versions
from evaluation.tables import four_digits, markdown

HEADER = ("measurement", "what", "value", "bar", "result")
RESULTS = {True: "reached", False: "missed", None: ""}


def as_table(rows: Iterable[Row]) -> str:
    """Return the rows as a Markdown table."""
    return markdown([HEADER, *map(_cells, rows)], padded=True)


def store(name: str, rows: Sequence[Row], folder: Path) -> None:
    """Replace the results of one measurement in ``results.jsonl``, and write ``results.md``."""
    path = folder / "results.jsonl"
    by_name: dict[str, list[Line]] = {}
    for record in read(path):
        by_name.setdefault(record["name"], []).append(record)
    place = environment()
    by_name[name] = [{**row._asdict(), **place} for row in rows]
    records = [record for group in by_name.values() for record in group]
    rewrite(path, records)
    (folder / "results.md").write_text(page(records))


def environment() -> Line:
    """Return date, versions and processor."""
    packages = ("numpy", "torch", "numba")
    return {
        "date": today(),
        "python": platform.python_version(),
        **dict.fromkeys(packages, "absent"),
        **versions(packages),
        "tpnn": tpnn.__version__,
        **machine(),
    }


def page(records: Sequence[Line]) -> str:
    """Return the page of all records."""
    table = as_table(Row(*(record[field] for field in Row._fields)) for record in records)
    return f"# Benchmarks\n\n`make benchmark` writes this page.\n\n{table}\n\n{_places(records)}"


def _places(records: Sequence[Line]) -> str:
    """Say where each measurement was taken, those of the same place together."""
    names: dict[str, dict[str, None]] = {}  # place -> names in order of appearance
    for record in records:
        place = (
            "{date}, Python {python}, NumPy {numpy}, torch {torch}, numba {numba}, tpnn {tpnn}, "
            "{cpu}, {cores} cores"
        ).format(**record)
        names.setdefault(place, {})[record["name"]] = None
    return "".join(f"- {', '.join(members)}: {place}\n" for place, members in names.items())


def _cells(row: Row) -> tuple[str, ...]:
    value = f"{four_digits(row.value)} {row.unit}".strip()
    return row.name, row.what, value, row.bar, RESULTS[row.reached]
