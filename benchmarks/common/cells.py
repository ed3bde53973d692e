"""Cells: what is measured at once, each a line of JSON as soon as it is finished.

The lines of a finished run lie in ``results/NAME.jsonl.gz``. A run adds its own to
``results/NAME.jsonl``, so that one that was stopped continues where it stopped, and packs all of
them at its end.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common.environment import ROOT, say

PAGES = ROOT / "benchmarks"
RESULTS = PAGES / "results"  # of the pages, in the repository
RECOMPUTED = PAGES.parent / "recomputed"  # where a run begins anew

Line = dict[str, Any]


class Cell(NamedTuple):
    """One model on one split of one data set."""

    data: str
    model: str
    split: int


def cell_of(line: Line) -> Cell:
    """Return the cell that a line is about."""
    return Cell(line["data"], line["model"], line["split"])


def read(path: Path) -> list[Line]:
    """Return the lines of a file ``NAME.jsonl``, after those that are packed beside it.

    A line that a kill has cut short is left out.
    """
    packed = _packed(path)
    texts = [gzip.decompress(packed.read_bytes()).decode()] if packed.exists() else []
    texts += [path.read_text()] if path.exists() else []
    return [line for text in texts for line in _whole(text)]


def _packed(path: Path) -> Path:
    return path.with_name(f"{path.name}.gz")


def _whole(text: str) -> Iterator[Line]:
    for row in text.splitlines():
        try:
            yield json.loads(row)
        except json.JSONDecodeError:
            continue


def append(path: Path, line: Line) -> None:
    """Add a line, whole, whatever other processes do."""
    from fcntl import LOCK_EX, flock  # which Windows has not

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        flock(file, LOCK_EX)
        file.write(json.dumps(line) + "\n")


def pack(path: Path, lines: Sequence[Line]) -> None:
    """Let the packed file have these lines and no other, whatever was added to the plain one."""
    text = "".join(json.dumps(line) + "\n" for line in lines)
    _packed(path).write_bytes(gzip.compress(text.encode(), mtime=0))
    path.unlink(missing_ok=True)


def complete(
    name: str,
    fields: Sequence[str],
    cells: Iterable[tuple[Hashable, ...]],
    measure: Callable[..., Line],
) -> list[Line]:
    """Measure the cells that have no line yet; return the lines of all that were ever measured.

    Parameters
    ----------
    name : str
        Name of the file.
    fields : sequence of str
        What the parts of a cell are called in its line.
    cells : iterable of tuple
        What is asked for, in order.
    measure : callable
        From the parts of a cell to what its line says beside them.
    """
    path = RESULTS / f"{name}.jsonl"
    finished = {tuple(line[field] for field in fields) for line in read(path)}
    for cell in cells:
        if cell not in finished:
            append(path, {**dict(zip(fields, cell, strict=True)), **measure(*cell)})
            say(", ".join(map(str, cell)))
    lines = read(path)
    pack(path, lines)
    return lines


def failure(error: Exception) -> str:
    """Return what an error says, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
