"""What is measured, and how to run it.

Without a name, the list. With names, or with ``all``, the measurements that have a bar; they are
stored one by one and printed at the end.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.common.bars import QUICK, Plan, Row, as_table, store
from benchmarks.common.environment import say
from benchmarks.speed.accuracy import measure_bags, measure_grown, measure_mains, measure_pairs
from benchmarks.speed.busy import measure_busy
from benchmarks.speed.explanation import measure_explanation
from benchmarks.speed.memory import measure_memory
from benchmarks.speed.prediction import measure_prediction
from benchmarks.truth.identifiability import measure_identifiability
from benchmarks.truth.screening import (
    measure_madelon,
    measure_planted,
    measure_screen,
    measure_selection,
    measure_third_order,
    measure_wide,
)

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
FOLDER = Path(__file__).parent
MAIN = '\nif __name__ == "__main__":\n'


def programs() -> dict[str, str]:
    """Return the modules that can be run, with the first line of what they say of themselves."""
    found = {}
    for path in sorted(FOLDER.rglob("*.py")):
        text = path.read_text("utf-8")
        parts = path.relative_to(FOLDER.parent).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__main__")
        if MAIN in text and parts[1] not in ("__main__", "common"):
            said = (ast.get_docstring(ast.parse(text)) or "").splitlines()[0]
            found[name] = said.partition(": ``python")[0].rstrip(".")
    return found


def listed() -> str:
    """Return the list of all that is measured."""
    width = max(map(len, programs()))
    lines = [f"python -m {name:{width}}  {said}" for name, said in programs().items()]
    named = [
        f"python -m benchmarks {name:{width - 11}}  {(measure.__doc__ or '').splitlines()[0]}"
        for name, measure in MEASUREMENTS.items()
    ]
    return "\n".join([*lines, "", "With a bar; `all` stands for all of them:", *named])


def run(names: Iterable[str], plan: Plan, is_stored: bool) -> None:
    """Take the measurements one after the other, store each, and print them all."""
    rows: list[Row] = []
    for name in names:
        say(f"measuring {name}")
        measured = MEASUREMENTS[name](plan)
        if is_stored:
            store(name, measured)
        rows += measured
    print(as_table(rows))


def main() -> None:
    """List what is measured, or measure what is named on the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog=listed(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="what to measure")
    parser.add_argument("--quick", action="store_true", help="small sizes; stores nothing")
    given = parser.parse_args()
    if not given.names:
        print(listed())
        return
    names = list(MEASUREMENTS) if given.names == ["all"] else given.names
    unknown = [name for name in names if name not in MEASUREMENTS]
    if unknown:
        parser.error(f"NAME must be one of {', '.join(MEASUREMENTS)}, not {', '.join(unknown)}")
    run(names, QUICK if given.quick else Plan(), is_stored=not given.quick)


if __name__ == "__main__":
    main()
