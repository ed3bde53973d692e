"""Results: lines of finished cells, by data set and model, and the components behind them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import cells
from benchmarks.common.cells import RESULTS, Cell, Line
from benchmarks.paper.families import members

FILE = "paper.jsonl"
KINDS = ("scores", "failed", "stability", "features")  # one of them is in every line
DRAWN = "images drawn with known concepts, as those of CelebA were absent"
LABELS = {
    "jcbm": DRAWN,
    "icbm": DRAWN,
    "celeba_icbm": "CelebA's annotated attributes in place of what a network sees in its images",
}
UNKNOWN: Line = {"task": "", "label": "", "features": [], "nodes": []}
MEASURES = {"regression": "rmse", "binary": "auroc", "multiclass": "auroc", "": ""}


class Results:
    """Lines of finished cells in a folder, and the components behind the stability scores.

    Components go to ``components``, which is not kept in the repository.
    """

    def __init__(self, folder: Path = RESULTS) -> None:
        self.folder, self.path = folder, folder / FILE
        folder.mkdir(parents=True, exist_ok=True)

    def read(self) -> list[Line]:
        """Return one line of each kind for every cell: the one with the latest date.

        Of lines with the same date the last counts. Kinds are scores, failures, stability scores
        and descriptions of data sets.
        """
        latest: dict[tuple[Any, ...], Line] = {}
        for line in cells.read(self.path):
            key = _kind(line), line["data"], line.get("model"), line.get("split")
            if key not in latest or line["date"] >= latest[key]["date"]:
                latest[key] = line
        return list(latest.values())

    def append(self, line: Line) -> None:
        """Add a line."""
        cells.append(self.path, line)

    def pack(self) -> None:
        """Leave out the lines that later ones supersede, and compress the others."""
        cells.pack(self.path, self.read())

    def finished(self) -> set[Cell]:
        """Return the cells that need not be run again."""
        return {cells.cell_of(line) for line in self.read() if "scores" in line}

    def components(self, cell: Cell) -> Path:
        """Return where a cell keeps its components at the probes."""
        return self.folder / "components" / cell.data / cell.model / f"{cell.split}.npz"

    def pairs(self, data: str) -> Path:
        """Return where the interactions that NID chose for a data set are kept."""
        return self.folder / f"{data}_pairs.json"


def _kind(line: Line) -> str:
    return next(kind for kind in KINDS if kind in line)


class Lines:
    """Cells, stability scores, failures, and what is known of each data set.

    Tables and figures are made from these lines of ``Results.read`` alone.
    """

    def __init__(self, lines: Iterable[Line]) -> None:
        self.cells: dict[tuple[str, str], dict[int, Line]] = {}
        self.stability: dict[tuple[str, str], Line] = {}
        self.failures: dict[tuple[str, str], str] = {}
        self.tables: dict[str, Line] = {}
        for line in lines:
            key = line["data"], line.get("model", "")
            if "features" in line:
                self.tables[line["data"]] = line
            elif "stability" in line:
                self.stability[key] = line
            elif "scores" in line:
                self.cells.setdefault(key, {})[line["split"]] = line
            else:
                self.failures[key] = line["failed"]

    def table(self, data: str) -> Line:
        """Return the description of a data set: its task, label, features, nodes of curves."""
        return self.tables.get(data, UNKNOWN)

    def measure(self, data: str) -> str:
        """Return what models are compared by on a data set; empty where no line describes it."""
        return "accuracy" if data in LABELS else MEASURES[self.table(data)["task"]]

    def label(self, data: str) -> str:
        """Return what to say beside every number of a data set."""
        return LABELS.get(data) or str(self.table(data)["label"])

    def of(self, data: str, family: str) -> list[Line]:
        """Return the lines of a family's member that is best on validation rows on average."""
        return list(self.cells.get((data, self.chosen(data, family)), {}).values())

    def chosen(self, data: str, family: str) -> str:
        """Return that member; compared on the splits that all finished members have."""
        found = [member for member in members(family, data) if (data, member) in self.cells]
        return self._best(data, found) if found else family

    def stability_of(self, data: str, family: str) -> Line | None:
        """Return the stability line of that member, of those that have one."""
        found = [member for member in members(family, data) if (data, member) in self.stability]
        return self.stability[data, self._best(data, found)] if found else None

    def _best(self, data: str, found: list[str]) -> str:
        if len(found) == 1:
            return found[0]
        shared = set.intersection(*(set(self.cells[data, member]) for member in found))

        def held_out(member: str) -> float:
            cells = self.cells[data, member]
            return float(np.mean([cells[split]["validation_loss"] for split in shared or cells]))

        return min(found, key=held_out)
