"""Lines of finished cells, by data set and model: all that tables and figures are made from."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from benchmarks.common.cells import Line
from benchmarks.paper.models import members

DRAWN = "images drawn with known concepts, as those of CelebA were absent"
LABELS = {
    "jcbm": DRAWN,
    "icbm": DRAWN,
    "celeba_icbm": "CelebA's annotated attributes in place of what a network sees in its images",
}
UNKNOWN: Line = {"task": "", "label": "", "features": [], "nodes": []}
MEASURES = {"regression": "rmse", "binary": "auroc", "multiclass": "auroc", "": ""}


class Lines:
    """Cells, stability scores, failures, and what is known of each data set.

    Parameters
    ----------
    lines : iterable of dict
        What ``Results.read`` returns.
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
