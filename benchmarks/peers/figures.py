"""What the lines of the comparison say: errors, ratios and their means."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.common.cells import Line, cell_of
from benchmarks.peers.frames import TABLES
from benchmarks.peers.libraries import EBM, MODELS, OURS, TREES

SCORES = ("rmse", "log_loss")  # of which every table has one
TOLERANCE = 0.02  # ratios within it of 1 are called level


class Counts(NamedTuple):
    """Tables on which we are better, level and worse."""

    better: int
    level: int
    worse: int


def latest(lines: Iterable[Line]) -> list[Line]:
    """Return the last line of every cell: a cell of a new version is measured again."""
    return list({cell_of(line): line for line in lines}.values())


def error_of(line: Line) -> float:
    """Return the error that models are compared by.

    >>> error_of({"scores": {"log_loss": 0.3}})
    0.3
    """
    return next(float(line["scores"][score]) for score in SCORES if score in line["scores"])


def errors(lines: Iterable[Line]) -> dict[str, pd.DataFrame]:
    """Return, by table, the errors of the models (columns) on the splits (rows)."""
    return by_table({cell_of(line): error_of(line) for line in lines if "scores" in line})


def seconds(lines: Iterable[Line], quantity: str) -> dict[str, pd.DataFrame]:
    """Return a quantity of time by table, of the machine that we were measured on last."""
    timed = [line for line in lines if quantity in line]
    places = {line["data"]: _place(line) for line in timed if line["model"] == OURS}
    return by_table(
        {
            cell_of(line): line[quantity]
            for line in timed
            if places.get(line["data"]) == _place(line)
        }
    )


def by_table(values: Mapping[Any, float]) -> dict[str, pd.DataFrame]:
    """Return, by table, values of the models (columns) on the splits (rows)."""
    found: dict[str, dict[str, dict[int, float]]] = {}
    for (data, model, split), value in values.items():
        found.setdefault(data, {}).setdefault(model, {})[split] = value
    return {
        data: pd.DataFrame(found[data]).reindex(columns=list(MODELS))
        for data in TABLES
        if data in found
    }


def ratio(values: pd.DataFrame, rival: str) -> float:
    """Return our mean over a rival's, on the splits that both have; NaN where there is none."""
    both = values[[OURS, rival]].dropna()
    return float(both[OURS].mean() / both[rival].mean()) if len(both) else math.nan


def ratio_to_best(values: pd.DataFrame) -> float:
    """Return our mean over the smallest of the boosted trees', on the splits that all have."""
    common = values[[OURS, *TREES]].dropna()
    return (
        float(common[OURS].mean() / common[list(TREES)].mean().min()) if len(common) else math.nan
    )


def lag(values: pd.DataFrame) -> tuple[float, float]:
    """Return by how much our error is above EBM's, and the standard error over the splits."""
    paired = (values[OURS] - values[EBM]).dropna()
    n = len(paired)
    error = float(paired.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return (float(paired.mean()) if n else math.nan), error


def geometric_mean(ratios: Iterable[float]) -> float:
    """Return the geometric mean of those that are known.

    >>> round(geometric_mean([0.5, 2.0, float("nan")]), 6)
    1.0
    """
    known = [math.log(value) for value in ratios if not math.isnan(value)]
    return math.exp(float(np.mean(known))) if known else math.nan


def counts(ratios: Iterable[float]) -> Counts:
    """Count the tables on which we are better, level and worse.

    >>> counts([0.9, 1.01, 1.03, float("nan")])
    Counts(better=1, level=1, worse=1)
    """
    known = [value - 1 for value in ratios if not math.isnan(value)]
    better = sum(value < -TOLERANCE for value in known)
    worse = sum(value > TOLERANCE for value in known)
    return Counts(better, len(known) - better - worse, worse)


def three_digits(value: float) -> str:
    """Return a ratio with three digits, a dash where it is unknown."""
    return "-" if math.isnan(value) else f"{value:.3g}" if value < 0.1 else f"{value:.3f}"


def _place(line: Line) -> tuple[str, int]:
    return line["cpu"], line["cores"]
