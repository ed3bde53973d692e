"""Cells: one model on one split of one data set, each a line of JSON once it is finished.

A run that was stopped continues where it stopped: cells that have a line are not run again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from fcntl import LOCK_EX, flock
from pathlib import Path
from typing import Any, NamedTuple

Line = dict[str, Any]


class Cell(NamedTuple):
    """What one line is about."""

    data: str
    model: str
    split: int


def cell_of(line: Line) -> Cell:
    """Return the cell that a line is about."""
    return Cell(line["data"], line["model"], line["split"])


def read(*paths: Path) -> list[Line]:
    """Return the lines of all files, none of a file that does not exist yet.

    A line that a kill has cut short is left out.
    """
    return [line for path in paths if path.exists() for line in _whole(path)]


def _whole(path: Path) -> Iterator[Line]:
    for text in path.read_text().splitlines():
        try:
            yield json.loads(text)
        except json.JSONDecodeError:
            continue


def append(path: Path, line: Line) -> None:
    """Add a line, whole, whatever other processes do."""
    with path.open("a") as file:
        flock(file, LOCK_EX)
        file.write(json.dumps(line) + "\n")


def rewrite(path: Path, lines: Iterable[Line]) -> None:
    """Replace all lines of a file."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def failure(error: Exception) -> str:
    """Return what an error says, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
