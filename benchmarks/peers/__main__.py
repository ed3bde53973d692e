"""Command line of the comparison with other libraries."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import growth
from benchmarks.peers.cells import measure
from benchmarks.peers.data import DATA
from benchmarks.peers.models import MODELS, QUICK_MODELS, Maker, version
from benchmarks.peers.page import as_page
from benchmarks.say import available, say
from benchmarks.stability import page as stability
from evaluation.cells import Cell, Line, append, cell_of, read
from evaluation.data import TASKS

FOLDER = Path(__file__).parents[1]
CELLS, PAGE = "peers.jsonl", "peers.md"
QUICK_ROWS = {"calhousing": 2_000, "abalone": 5_000}
LIMIT = 3600.0


@dataclass(frozen=True)
class Plan:
    """What to run.

    Parameters
    ----------
    path : Path
        File of the finished cells.
    data : sequence of str
        Data sets.
    models : dict from name to Maker
        Models.
    splits : int
        Splits of each data set.
    most_rows : dict from data set to int
        Rows of the data sets that are not used in full.
    limit : float
        Seconds after which a fit is stopped.
    """

    path: Path
    data: Sequence[str]
    models: Mapping[str, Maker]
    splits: int
    most_rows: Mapping[str, int] = field(default_factory=dict)
    limit: float = LIMIT


def run(plan: Plan) -> None:
    """Measure every cell that the file does not have yet, and add each as soon as it is done."""
    models, done = _installed(plan.models), set(map(cell_of, read(plan.path)))
    for name in filter(available, plan.data):
        for seed in range(plan.splits):
            for model, installed in models.items():
                cell, maker = Cell(name, model, seed), plan.models[model]
                if cell not in done and TASKS[name].kind in maker.tasks:
                    rows = plan.most_rows.get(name)
                    record = measure(cell, maker, installed, rows, plan.limit)
                    append(plan.path, record)
                    say(_summary(record))


def _installed(models: Mapping[str, Maker]) -> dict[str, str]:
    """Return the version of each model whose library is installed."""
    versions = {name: version(maker) for name, maker in models.items()}
    for name in [name for name, found in versions.items() if found is None]:
        say(f'skipping {name}, not installed: pip install "tpnn[benchmarks]"')
    return {name: found for name, found in versions.items() if found is not None}


def _summary(record: Line) -> str:
    cell = "{data}, split {split}, {model}: ".format(**record)
    if "failed" in record:
        return f"{cell}failed, {record['failed']}"
    if "timed_out" in record:
        return f"{cell}timed out after {record['timed_out']:.4g} s"
    scores = ", ".join(f"{score} {value:.4g}" for score, value in record["scores"].items())
    return f"{cell}{scores}, fit {record['fit_seconds']:.3g} s"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("run", help="measure what is not measured yet")
    for option, names in (("--data", DATA), ("--models", MODELS)):
        measuring.add_argument(
            option, nargs="+", choices=tuple(names), metavar="NAME", help=f"of {', '.join(names)}"
        )
    measuring.add_argument("--splits", type=int, default=5, metavar="N", help="5 by default")
    measuring.add_argument(
        "--limit", type=float, default=LIMIT, metavar="S", help="stop a fit then; 3600 s by default"
    )
    measuring.add_argument(
        "--quick", action="store_true", help="small data, one split; stores nothing, prints all"
    )
    commands.add_parser("page", help=f"write {PAGE}")
    return parser


def _run_quickly(data: Sequence[str], names: Sequence[str]) -> None:
    """Run small sizes in a folder of their own, and print the page."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / CELLS
        models = {name: QUICK_MODELS[name] for name in names}
        say("quick: few rows, one split, and ebm with outer_bags=2, unlike what the page says")
        run(Plan(path, data, models, 1, QUICK_ROWS))
        print(as_page(read(path)))


def main() -> None:
    """Measure, or write the page."""
    arguments = _parser().parse_args()
    if arguments.command == "page":
        further = [
            section(lines)
            for section, path in (
                (stability.section, "stability.jsonl"),
                (growth.section, growth.LINES),
            )
            if (lines := read(FOLDER / path))
        ]
        (FOLDER / PAGE).write_text(as_page(read(FOLDER / CELLS), further))
        return
    names = arguments.models or list(MODELS)
    if arguments.quick:
        _run_quickly(arguments.data or list(QUICK_ROWS), names)
    else:
        models = {name: MODELS[name] for name in names}
        data, limit = arguments.data or DATA, arguments.limit
        run(Plan(FOLDER / CELLS, data, models, arguments.splits, limit=limit))


if __name__ == "__main__":
    main()
