"""Command line of the comparison with other libraries."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.common.cells import PAGES, RESULTS, Line, append, pack, read
from benchmarks.common.environment import machine, say
from benchmarks.peers.figures import latest
from benchmarks.peers.frames import SMALL, TABLES, absence
from benchmarks.peers.jobs import Job, measure
from benchmarks.peers.libraries import MODELS, QUICK_MODELS, TUNED, Maker, version
from benchmarks.peers.page import as_page
from benchmarks.peers.tuned import TunedCatBoost
from benchmarks.speed import growth
from benchmarks.truth import stability

LINES, PAGE = RESULTS / "peers.jsonl", PAGES / "peers.md"
QUICK_DATA = ("solder_180", "birthwt", "penguins")
LIMIT = 3600.0
ALL_MODELS = {**MODELS, TUNED: Maker("catboost", TunedCatBoost)}


class Plan(NamedTuple):
    """What to run."""

    path: Path  # of the lines
    data: Sequence[str]
    models: Mapping[str, Maker]
    splits: int  # of each table
    timed: bool = False  # whether seconds are measured
    limit: float = LIMIT  # seconds after which a fit is stopped


def run(plan: Plan) -> None:
    """Measure every cell that the file does not have yet, and add each as soon as it is done."""
    versions = _installed(plan.models)
    for name in filter(_available, plan.data):
        for model, installed in versions.items():
            done = _done(read(plan.path), name, model, installed, plan.timed)
            left = [number for number in range(plan.splits) if number not in done]
            if left:
                job = Job(name, model, left, plan.timed, plan.limit)
                for line in measure(job, plan.models[model], installed):
                    append(plan.path, line)
                    say(_summary(line))


def _done(lines: Iterable[Line], data: str, model: str, version: str, timed: bool) -> set[int]:
    """Return the splits that this version has been measured on; if timed, here and with seconds."""
    here = machine()
    return {
        line["split"]
        for line in lines
        if (line["data"], line["model"], line["version"]) == (data, model, version)
        and (not timed or (here.items() <= line.items() and "fit_seconds" in line))
    }


def _available(name: str) -> bool:
    reason = absence(name)
    if reason:
        say(f"skipping {name}: {reason}")
    return reason is None


def _installed(models: Mapping[str, Maker]) -> dict[str, str]:
    """Return the version of each model whose library is installed."""
    versions = {name: version(maker) for name, maker in models.items()}
    for name in [name for name, found in versions.items() if found is None]:
        say(f"skipping {name}, not installed: run `make rivals`")
    return {name: found for name, found in versions.items() if found is not None}


def _summary(line: Line) -> str:
    cell = "{data}, split {split}, {model}: ".format(**line)
    if "failed" in line:
        return f"{cell}failed, {line['failed']}"
    if "timed_out" in line:
        return f"{cell}timed out after {line['timed_out']:.4g} s"
    scores = ", ".join(f"{score} {value:.4g}" for score, value in line["scores"].items())
    return cell + scores + (f", fit {line['fit_seconds']:.3g} s" if "fit_seconds" in line else "")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("run", help="measure what is not measured yet")
    groups = {"small": "all that come with packages"}
    measuring.add_argument(
        "--data", nargs="+", choices=(*groups, *TABLES), metavar="NAME",
        help=f"of {', '.join(TABLES)}; small: {groups['small']}; all by default",
    )  # fmt: skip
    measuring.add_argument(
        "--models",
        nargs="+",
        choices=tuple(ALL_MODELS),
        metavar="NAME",
        help=f"of {', '.join(ALL_MODELS)}",
    )
    measuring.add_argument("--splits", type=int, default=5, metavar="N", help="5 by default")
    measuring.add_argument(
        "--timing", action="store_true", help="measure seconds too, on a machine that is quiet"
    )
    measuring.add_argument(
        "--limit", type=float, default=LIMIT, metavar="S", help="stop a fit then; 3600 s by default"
    )
    measuring.add_argument(
        "--quick", action="store_true", help="few tables, one split; stores nothing, prints all"
    )
    measuring.add_argument(
        "--results", type=Path, default=LINES, metavar="FILE",
        help="of the lines, by default those of the page; a new file begins anew",
    )  # fmt: skip
    commands.add_parser("page", help=f"write {PAGE.name}")
    return parser


def _run_quickly(data: Sequence[str], names: Sequence[str]) -> None:
    """Run few tables in a folder of their own, and print the page."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / LINES.name
        models = {name: QUICK_MODELS[name] for name in names}
        say("quick: few tables, one split, and ebm with outer_bags=2, unlike what the page says")
        run(Plan(path, data, models, 1))
        print(as_page(read(path)))


def _write_page() -> None:
    """Write the page with the sections of other benchmarks.

    Lines that a later one of the same cell supersedes go.
    """
    parts = ((stability.section, "stability.jsonl"), (growth.section, "growth.jsonl"))
    further = [section(lines) for section, name in parts if (lines := read(RESULTS / name))]
    lines = latest(read(LINES))
    pack(LINES, lines)
    PAGE.write_text(as_page(lines, further))


def main() -> None:
    """Measure, or write the page."""
    arguments = _parser().parse_args()
    if arguments.command == "page":
        _write_page()
        return
    names = arguments.models or list(MODELS)
    if arguments.quick:
        _run_quickly(_named(arguments.data or QUICK_DATA), names)
    else:
        models = {name: ALL_MODELS[name] for name in names}
        data, limit = _named(arguments.data or TABLES), arguments.limit
        run(Plan(arguments.results, data, models, arguments.splits, arguments.timing, limit))


def _named(data: Iterable[str]) -> list[str]:
    """Return the tables of the names, where ``small`` stands for many."""
    return [table for name in data for table in (SMALL if name == "small" else [name])]


if __name__ == "__main__":
    main()
