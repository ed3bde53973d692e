"""Command line of the comparison of stability."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from benchmarks.peers.data import is_here
from benchmarks.pool import each_on_a_core
from benchmarks.stability.cells import Cell, measure, summary
from benchmarks.stability.models import FITTERS, MODELS

FOLDER = Path(__file__).parents[1]
LINES, VALUES = "stability.jsonl", "stability-values"
DATA = ("calhousing", "fico_heloc", "abalone")  # the slowest first


def wanted(data: Sequence[str], models: Sequence[str], resamples: int, folder: Path) -> list[Cell]:
    """Return the cells that are asked for, can be measured here and have no file yet."""
    cells = [
        Cell(name, resample, number)
        for name in filter(_available, data)
        for number, fitter in enumerate(FITTERS)
        if set(fitter.names) & set(models) and _installed(fitter.module)
        for resample in range(resamples)
    ]
    return [c for c in cells if not all(path.exists() for path in c.paths(folder).values())]


def _available(name: str) -> bool:
    here = is_here(name)
    if not here:
        _say(f"skipping {name}: the folder TPNN_DATA has no file {name}.parquet")
    return here


def _installed(module: str) -> bool:
    found = find_spec(module) is not None
    if not found:
        _say(f"skipping {module}, not installed")
    return found


def store(data: Sequence[str], resamples: int, folder: Path) -> None:
    """Replace the lines whose values are all here, and keep the others."""
    path = folder / LINES
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    by_cell = {(line["data"], line["model"]): line for line in lines}
    for name in data:
        for line in map(partial(summary, folder / VALUES, name, resamples=resamples), MODELS):
            if line is not None:
                by_cell[name, line["model"]] = line
    path.write_text("".join(json.dumps(line) + "\n" for line in by_cell.values()))


def _say(line: str) -> None:
    print(f"{datetime.now():%H:%M:%S} {line}", file=sys.stderr)


def main() -> None:
    """Measure what has no file yet, and write the lines that ``benchmarks.peers page`` reads."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stability", description=__doc__)
    for option, names in (("--data", DATA), ("--models", MODELS)):
        parser.add_argument(
            option, nargs="+", choices=names, default=names, metavar="NAME",
            help=f"of {', '.join(names)}; all by default",
        )  # fmt: skip
    parser.add_argument("--resamples", type=int, default=10, metavar="J", help="10 by default")
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="fits at a time, 1 core each"
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of the results")
    arguments = parser.parse_args()
    values = arguments.folder / VALUES
    cells = wanted(arguments.data, arguments.models, arguments.resamples, values)
    values.mkdir(exist_ok=True)
    each_on_a_core(partial(measure, folder=values), cells, arguments.jobs, _say)
    store(arguments.data, arguments.resamples, arguments.folder)


if __name__ == "__main__":
    main()
