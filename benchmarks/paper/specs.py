"""Specs: one file per table or figure of the paper, with its numbers."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.common.cells import Cell
from benchmarks.paper.families import members

FOLDER = Path(__file__).parent / "specs"


@dataclass(frozen=True)
class Spec:
    """A table or figure."""

    name: str
    title: str  # what it shows
    paper: str  # what it is called in the paper
    kind: str  # how it is drawn
    data: list[str]  # rows
    models: list[str]  # columns
    splits: int = 10  # of each data set, unless the command line says otherwise
    # the paper's numbers by data set and model: a number, or mean and standard deviation
    published: dict[str, dict[str, Any]] = field(default_factory=dict)
    note: str = ""  # what to say below it
    options: dict[str, Any] = field(default_factory=dict)  # what only this kind has

    def cells(self, splits: int | None = None) -> list[Cell]:
        """Return all cells, split by split, so that a run that is stopped has whole splits."""
        count = self.splits if splits is None else splits
        return [
            Cell(data, model, split)
            for split in range(count)
            for data in self.data
            for family in self.models
            for model in members(family, data)
        ]


def names() -> list[str]:
    """Return the names of all specs, in the order of the paper."""
    return [path.stem for path in sorted(FOLDER.glob("*.toml"), key=_place)]


def _place(path: Path) -> tuple[bool, int, str]:
    """Sort tables before figures, each by its number."""
    paper = str(tomllib.loads(path.read_text())["paper"])
    numbers = re.findall(r"(?:Table|Figures?) (\d+)", paper)
    return paper.startswith("Figure"), int(numbers[0]) if numbers else 99, path.stem


def read(name: str) -> Spec:
    """Read a spec by name."""
    path = FOLDER / f"{name}.toml"
    if not path.exists():
        raise ValueError(f"NAME: must be one of {', '.join(names())}, found {name!r}.")
    fields = tomllib.loads(path.read_text())
    known = {key: fields.pop(key) for key in list(fields) if key in Spec.__dataclass_fields__}
    return Spec(name=name, **known, options=fields)
