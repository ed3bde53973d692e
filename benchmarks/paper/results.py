"""Results: lines of finished cells in a folder, and the components behind the stability scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.common import cells
from benchmarks.common.cells import RESULTS, Cell, Line

FILE = "paper.jsonl"
KINDS = ("scores", "failed", "stability", "features")  # one of them is in every line


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
