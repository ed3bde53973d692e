"""Command line of the comparison of stability."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from benchmarks.say import available, say
from benchmarks.stability.cells import Fit, measure, summary
from benchmarks.stability.models import FITTERS, MODELS
from evaluation.cells import read, rewrite
from evaluation.pool import in_processes

FOLDER = Path(__file__).parents[1]
LINES, VALUES = "stability.jsonl", "stability-values"
DATA = ("calhousing", "fico_heloc", "abalone")  # the slowest first


def wanted(data: Sequence[str], models: Sequence[str], resamples: int, folder: Path) -> list[Fit]:
    """Return the fits that are asked for, can be measured here and have no file yet."""
    fits = [
        Fit(name, resample, number)
        for name in filter(available, data)
        for number, fitter in enumerate(FITTERS)
        if set(fitter.names) & set(models) and _installed(fitter.module)
        for resample in range(resamples)
    ]
    return [f for f in fits if not all(path.exists() for path in f.paths(folder).values())]


def _installed(module: str) -> bool:
    found = find_spec(module) is not None
    if not found:
        say(f"skipping {module}, not installed")
    return found


def store(data: Sequence[str], resamples: int, folder: Path) -> None:
    """Replace the lines whose values are all here, and keep the others."""
    path = folder / LINES
    by_model = {(line["data"], line["model"]): line for line in read(path)}
    for name in data:
        for line in map(partial(summary, folder / VALUES, name, resamples=resamples), MODELS):
            if line is not None:
                by_model[name, line["model"]] = line
    rewrite(path, by_model.values())


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
    fits = wanted(arguments.data, arguments.models, arguments.resamples, values)
    work = partial(measure, folder=values)
    for fit, future in in_processes(work, fits, arguments.jobs, one_core=True):
        error = future.exception()  # which stops no other fit
        say(f"{fit} failed: {error!r}" if error else future.result())
    store(arguments.data, arguments.resamples, arguments.folder)


if __name__ == "__main__":
    main()
