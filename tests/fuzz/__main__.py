"""The long run of the fuzzers, each case from one seed.

There are random tables, also fitted by deep trees, damaged model files, hostile edit files and
damaged checkpoints.

    python -m tests.fuzz tables --count 100000 --workers 16
    python -m tests.fuzz deep --count 100000 --workers 16
    python -m tests.fuzz files --count 100000 --workers 16
    python -m tests.fuzz edits --count 100000 --workers 16
    python -m tests.fuzz checkpoints --count 10000 --workers 16
    python -m tests.fuzz tables --seed 12345     # one case, shown in full

``--minutes 9`` ends a run before all is tried; the counts are of what was. Tables that need a
library that is not installed are skipped and counted. With ``--store`` the counts go to
``results.json`` and, as a page, to ``results.md``, here or in the folder that is named.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import asdict
from math import inf, nan
from pathlib import Path
from typing import Any

from benchmarks.common.environment import circumstances
from benchmarks.common.markdown import markdown
from tests.fuzz.checkpoints import try_checkpoint
from tests.fuzz.containers import CONTAINERS, INSTALLED
from tests.fuzz.edits import try_edits
from tests.fuzz.faults import case_of
from tests.fuzz.files import try_file
from tests.fuzz.outcome import Outcome, try_deep, try_table
from tests.fuzz.settings import HAS_TORCH
from tests.fuzz.workers import Job, outcomes

JOBS: dict[str, Job] = {
    "tables": try_table, "deep": try_deep, "files": try_file, "edits": try_edits,
    "checkpoints": try_checkpoint,
}  # fmt: skip
FOLDER, RESULTS, PAGE = Path(__file__).parent, "results.json", "results.md"
HEADING = """# Fuzzing

`python -m tests.fuzz tables --store`, and the same with `deep`, `files`, `edits` and
`checkpoints`, writes this page. Every case is made from a seed, from which a failure is found
again.
"""
CASES = {"deep": "tables, fitted by deep trees,"}
MOST_STORED = 50  # failures
LIBRARIES = ("numpy", "pandas", "polars", "pyarrow", "scikit-learn", "numba", "torch")


def run(name: str, seeds: range, n_workers: int, minutes: float = inf) -> dict[str, Any]:
    """Try the seeds that there is time for; print every failure; return counts."""
    began, counts, failures = time.monotonic(), Counter({"failed": 0}), list[Outcome]()
    found = outcomes(JOBS[name], seeds, n_workers, 60 * minutes)
    for number, outcome in enumerate(found, 1):
        counts["failed" if outcome.is_failure else outcome.kind] += 1
        if outcome.is_failure:
            failures.append(outcome)
            print(f"seed {outcome.seed}: {outcome.kind} ({outcome.detail})", flush=True)
        if number % 5000 == 0:
            print(f"{number} of {len(seeds)}, {time.monotonic() - began:.0f} s", flush=True)
    n_skipped = sum(number for kind, number in counts.items() if kind.startswith("skipped"))
    return {
        "first": seeds.start,
        "count": counts.total() - n_skipped,
        "outcomes": dict(sorted(counts.items())),
        "failures": [asdict(failure) for failure in failures[:MOST_STORED]],
        "seconds": round(time.monotonic() - began),
        "seconds_of_cores": round(seconds_of_cores()),
        "workers": n_workers,
        "tables_of": [*INSTALLED],
        "gradient_solver": HAS_TORCH,
        **circumstances(LIBRARIES),
    }


def seconds_of_cores() -> float:
    """Return what all processes that have ended took, where the system counts it."""
    try:
        import resource
    except ImportError:  # Windows
        return nan
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def store(name: str, result: dict[str, Any], folder: Path) -> None:
    """Write the counts of a run, beside those of the other kind, as JSON and as a page."""
    path = folder / RESULTS
    stored = json.loads(path.read_text("utf-8")) if path.exists() else {}
    stored[name] = result
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(stored, indent=1, ensure_ascii=True) + "\n", "utf-8")
    (folder / PAGE).write_text(as_page(stored), "utf-8")


def as_page(results: dict[str, dict[str, Any]]) -> str:
    """Return the counts of the last runs as Markdown."""
    parts = [HEADING]
    for name, result in results.items():
        missing = [] if result["gradient_solver"] else ["the gradient solver"]
        missing += [library for library in CONTAINERS if library not in result["tables_of"]]
        where = f"{result['machine']['cpu']}, {result['workers']} processes"
        without = f", without {' and '.join(missing)}" if missing else ""
        rows = [(kind, f"{count:,}") for kind, count in result["outcomes"].items()]
        counted = f"{result['count']:,} {CASES.get(name, name)} in {result['seconds']:,} s"
        parts.append(f"## {name.capitalize()}\n\n{counted} ({result['date']}, {where}{without}).\n")
        parts.append(markdown([("outcome", "count"), *rows], padded=True) + "\n")
    return "\n".join(parts)


def show(name: str, seed: int) -> None:
    """Print one case and what becomes of it."""
    if name in ("tables", "deep"):
        case = case_of(seed, is_deep=name == "deep")
        print(f"{case.task}, {case.n_rows} rows in {case.container}, wrong: {sorted(case.faults)}")
        print(f"settings {case.settings}")
        for column in case.columns:
            print(f"{column.name!r}, {column.kind} {column.levels or ''}: {column.values[:8]}")
        print(f"y {case.target[:8].tolist()}, weights {case.weights}, offset {case.offset}")
    print(JOBS[name](seed))


def main() -> int:
    """Run what the command line asks for; the exit status says whether anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("what", choices=JOBS)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=inf)
    parser.add_argument("--seed", type=int, help="show one case and try it in this process")
    parser.add_argument(
        "--store", nargs="?", const=FOLDER, type=Path, metavar="FOLDER",
        help=f"write {RESULTS}, {PAGE}",
    )  # fmt: skip
    given = parser.parse_args()
    if given.seed is not None:
        show(given.what, given.seed)
        return 0
    seeds = range(given.first, given.first + given.count)
    result = run(given.what, seeds, given.workers, given.minutes)
    print(json.dumps(result["outcomes"], indent=1))
    if given.store:
        store(given.what, result, given.store)
    return int(result["outcomes"]["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
