"""Command line of the measurements."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.accuracy import measure_bags, measure_grown, measure_mains, measure_pairs
from benchmarks.busy import measure_busy
from benchmarks.explanation import measure_explanation
from benchmarks.identifiability import measure_identifiability
from benchmarks.measure import Plan, Row, plan_for
from benchmarks.memory import measure_memory
from benchmarks.prediction import measure_prediction
from benchmarks.screening import (
    measure_madelon,
    measure_planted,
    measure_screen,
    measure_selection,
    measure_third_order,
    measure_wide,
)
from benchmarks.table import as_table, store

MEASUREMENTS: dict[str, Callable[[Plan], list[Row]]] = {
    "california": measure_pairs,
    "california-mains": measure_mains,
    "california-grow": measure_grown,
    "bags": measure_bags,
    "identifiability": measure_identifiability,
    "prediction": measure_prediction,
    "explanation": measure_explanation,
    "memory": measure_memory,
    "busy": measure_busy,
    "selection": measure_selection,
    "planted": measure_planted,
    "madelon": measure_madelon,
    "third-order": measure_third_order,
    "screening": measure_screen,
    "wide": measure_wide,
}


def run(names: Iterable[str], plan: Plan) -> None:
    """Take the measurements one after the other, store each, and print them all."""
    rows: list[Row] = []
    for name in names:
        print(f"measuring {name}", file=sys.stderr)
        measured = MEASUREMENTS[name](plan)
        store(name, measured, plan.folder)
        rows += measured
    print(as_table(rows))


def main() -> None:
    """Run the measurements named on the command line, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    known = ", ".join(MEASUREMENTS)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"all by default, or some of {known}"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes; stores nothing")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in MEASUREMENTS]
    if unknown:
        parser.error(f"NAME: must be one of {known}, found {', '.join(unknown)}")
    names = arguments.names or MEASUREMENTS
    if arguments.quick:
        with tempfile.TemporaryDirectory() as folder:
            run(names, plan_for(Path(folder), quick=True))
    else:
        run(names, plan_for(Path(__file__).parent))


if __name__ == "__main__":
    main()
