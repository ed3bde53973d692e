"""The figures of the comparison that the README shows, losses included."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import pandas as pd

from benchmarks.common.cells import Line
from benchmarks.common.page import markdown
from benchmarks.peers.figures import (
    TOLERANCE,
    counts,
    errors,
    geometric_mean,
    latest,
    ratio,
    seconds,
    three_digits,
)
from benchmarks.peers.models import NAMES, OURS, RIVALS

BEGIN, END = "<!-- figures of benchmarks/peers.md -->", "<!-- end of the figures -->"
SHOWN = "calhousing"


def with_figures(text: str, records: Iterable[Line]) -> str:
    """Return the text with the figures of the records between the two marks."""
    block = f"{BEGIN}\n{figures(latest(records))}\n{END}"
    return re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: block, text, flags=re.DOTALL)


def figures(lines: Sequence[Line]) -> str:
    """Return the table of the README: a column for each rival."""
    tables = errors(lines)
    fits = seconds(lines, "fit_seconds")
    rows = [
        ["tpnn beside", *(NAMES[rival] for rival in RIVALS)],
        ["tables", *_cells(lambda rival: str(sum(_counts(tables.values(), rival))))],
        ["error, geometric mean of the ratios", *_mean_ratios(tables.values())],
        [
            f"better by more than {TOLERANCE:.0%}, level, worse",
            *_cells(lambda rival: ", ".join(map(str, _counts(tables.values(), rival)))),
        ],
    ]
    if SHOWN in tables:
        means = tables[SHOWN].mean()
        ours = f"California housing, RMSE (tpnn: {means[OURS]:.3f})"
        rows.append([ours, *_cells(lambda rival: three_digits(means[rival]))])
    if fits:
        rows.append(["seconds of a fit, likewise", *_mean_ratios(fits.values())])
    return markdown(rows)


def _cells(text: Callable[[str], str]) -> list[str]:
    return [text(rival) for rival in RIVALS]


def _counts(tables: Iterable[pd.DataFrame], rival: str) -> tuple[int, int, int]:
    return counts(ratio(values, rival) for values in tables)


def _mean_ratios(tables: Iterable[pd.DataFrame]) -> list[str]:
    return _cells(lambda rival: three_digits(geometric_mean(ratio(v, rival) for v in tables)))
