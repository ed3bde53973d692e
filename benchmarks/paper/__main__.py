"""The paper's tables and figures: list, run, write."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

from benchmarks.common.cells import RECOMPUTED, RESULTS, Cell
from benchmarks.paper import specs, writing
from benchmarks.paper.results import Lines, Results
from benchmarks.paper.runner import add_stability, run


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="say what there is")
    running = commands.add_parser("run", help="run the cells that have no line yet")
    running.add_argument("name", metavar="NAME", help="a table or figure, or all")
    running.add_argument("--splits", type=int, metavar="N", help="10 by default, 5 for figures")
    running.add_argument("--jobs", type=int, default=2, metavar="N", help="processes, 2 by default")
    running.add_argument("--quick", action="store_true", help="small; stores nothing, prints all")
    running.add_argument("--models", default="", metavar="REGEX", help="only these models")
    running.add_argument("--data", default="", metavar="REGEX", help="only these data sets")
    running.add_argument(
        "--seconds", type=float, default=float("inf"), metavar="S", help="then begin no more cells"
    )
    running.add_argument(
        "--results", type=Path, default=RECOMPUTED, metavar="FOLDER",
        help=f"of the lines, {RECOMPUTED.name} by default; {RESULTS} has those of docs/paper.md",
    )  # fmt: skip
    writing = commands.add_parser("table", help="print a table, or write docs/paper.md")
    writing.add_argument("name", metavar="NAME", help="a table or figure, or all")
    writing.add_argument(
        "--results", type=Path, default=RESULTS, metavar="FOLDER",
        help="of the lines; by default those of docs/paper.md, which all writes",
    )  # fmt: skip
    return parser


def _cells(arguments: argparse.Namespace) -> list[Cell]:
    """Return the cells asked for; those of all specs are taken split by split."""
    names = specs.names() if arguments.name == "all" else [arguments.name]
    splits = 1 if arguments.quick else arguments.splits
    found = [cell for name in names for cell in specs.read(name).cells(splits)]
    wanted = [
        cell
        for cell in dict.fromkeys(found)
        if re.search(arguments.models, cell.model) and re.search(arguments.data, cell.data)
    ]
    return sorted(wanted, key=lambda cell: cell.split)


def _run(arguments: argparse.Namespace) -> int:
    cells = _cells(arguments)
    if not arguments.quick:
        results = Results(arguments.results)
        failed = run(cells, results, arguments.jobs, deadline=arguments.seconds)
        add_stability(cells, results)
        return failed
    with tempfile.TemporaryDirectory() as folder:
        results = Results(Path(folder))
        failed = run(cells, results, arguments.jobs, quick=True)
        _print(arguments.name, results)
    return failed


def _print(name: str, results: Results) -> None:
    lines = Lines(results.read())
    for each in specs.names() if name == "all" else [name]:
        print(writing.part(specs.read(each), lines), end="\n\n")


def main() -> int:
    """List, run, or write."""
    arguments = _parser().parse_args()
    if arguments.command == "run":
        return _run(arguments)
    if arguments.command == "list":
        for name in specs.names():
            spec = specs.read(name)
            print(f"{name:28}{spec.paper:28}{len(spec.cells()):5} cells  {spec.title}")
    elif arguments.name == "all" and arguments.results == RESULTS:
        writing.write(Results())
    else:
        _print(arguments.name, Results(arguments.results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
