"""Results as a table, and the files that keep them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.environment import environment
from benchmarks.measure import Row

HEADER = ("measurement", "what", "value", "bar", "result")
RESULTS = {True: "reached", False: "missed", None: ""}


def as_table(rows: Iterable[Row]) -> str:
    """Return the rows as a Markdown table."""
    return markdown([HEADER, *map(_cells, rows)])


def markdown(lines: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table with columns of equal width, its header being the first line.

    >>> print(markdown([("a", "b"), ("1", "200")]))
    | a | b   |
    | - | --- |
    | 1 | 200 |
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = tuple("-" * width for width in widths)
    return "\n".join(_line(cells, widths) for cells in (lines[0], rule, *lines[1:]))


def store(name: str, rows: Sequence[Row], folder: Path) -> None:
    """Replace the results of one measurement in ``results.jsonl``, and write ``results.md``."""
    path = folder / "results.jsonl"
    by_name: dict[str, list[dict[str, Any]]] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        record = json.loads(line)
        by_name.setdefault(record["name"], []).append(record)
    place = environment()
    by_name[name] = [{**row._asdict(), **place} for row in rows]
    records = [record for group in by_name.values() for record in group]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    (folder / "results.md").write_text(_page(records))


def _page(records: Sequence[dict[str, Any]]) -> str:
    table = as_table(Row(*(record[field] for field in Row._fields)) for record in records)
    return f"# Benchmarks\n\n`make benchmark` writes this page.\n\n{table}\n\n{_places(records)}"


def _places(records: Sequence[dict[str, Any]]) -> str:
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
    value = f"{row.value:,.0f}" if abs(row.value) >= 1000 else f"{row.value:.4g}"
    return row.name, row.what, f"{value} {row.unit}".strip(), row.bar, RESULTS[row.reached]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return f"| {' | '.join(padded)} |"
