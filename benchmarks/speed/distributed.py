"""Fits on a cluster of this machine beside a fit in one process: bits, busy time, overhead.

    python -m benchmarks.speed.distributed 300000 3000000

Tables are those of ``benchmarks.speed.out_of_core``: 20 columns, squared error, pairs. Every fit
uses one core for each worker. The results are written as ``distributed.md``, with an estimate for
a billion rows.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from benchmarks.common.cells import PAGES, RESULTS
from benchmarks.common.environment import circumstances, described, say
from benchmarks.common.markdown import markdown, paragraph
from benchmarks.speed.out_of_core import N_COLUMNS, bits, write_files
from tpnn import Grow, TPNNRegressor, distributed
from tpnn.estimators import distributed as fitting
from tpnn.solvers.cluster.messages import SUMS, Answer, Request
from tpnn.solvers.cluster.passes import Pass, Read
from tpnn.solvers.cluster.ray import Cluster
from tpnn.solvers.cluster.storage import Storage

STORED, PAGE = RESULTS / "distributed.json", PAGES / "distributed.md"
TINY_ROWS, TINY_ROUNDS = 2_000, 10  # whose sums take no time: a message costs its overhead
WORKERS = (1, 2)
LARGE_ROWS, LARGE_WORKERS, LARGE_ROUNDS = 1_000_000_000, 64, 500  # of the estimate
BYTES_OF_SLOPES, BYTES_OF_TARGETS = 8, 16  # a row: residual and hessian; target, offset, key

HEADING = """`python -m benchmarks.speed.distributed` writes this page. A table of {columns} columns
in Parquet files is fitted with squared error, pairs, {bags} bags and at most {rounds} rounds, in
one process with one thread and by workers of Ray on the same machine, each with one core. Core is
the time that the core of this process, the driver, worked. Read is that of the core of each worker
for its passes over the table, and grow for the rest. Overhead is the time of a message beyond that
of the busiest worker: what Ray, the adding, the decisions and waiting for a core cost. A message
serves the visits of all bags."""
ESTIMATE = """With two workers, a visit of one bag took {row_ns:.2f} ns of a core for each row. At
that cost, {rows:,} rows and {large_rounds} rounds with as many visits would keep {workers} workers
busy for {busy_minutes:.0f} minutes each; {messages:,} messages, at the overhead above, would take
{overhead_minutes:.1f} minutes more. Each worker would hold {worker_rows:,} rows, in {worker_gb:.0f}
GB. The workers' passes over the table took {reading_seconds:.1f} s of a core for {largest_rows:,}
rows. Passes for nodes are by column, and there are {columns} of these: if no more workers than that
are busy, {rows:,} rows take {reading_minutes:.0f} minutes. What the driver does alone (sorting
keys, drawing bags, search, selection) took {driver_seconds:.1f} s of a core, of which
{growing_seconds:.1f} s come with more rows; in proportion that is {driver_minutes:.0f} minutes of
one core, or fewer with its threads. This is an estimate on paper: messages to {workers} workers
were not measured."""


class Plan(NamedTuple):
    """Number of bags, and largest number of rounds."""

    bags: int
    rounds: int


class Watched(Cluster):
    """A cluster that counts messages and visits, and takes times."""

    def __init__(self, ray: Any, storage: Storage, size: int) -> None:
        super().__init__(ray, storage, size)
        self.messages, self.visits, self.asking_seconds = 0, 0, 0.0
        self.reading = size * [0.0]
        WATCHED.append(self)

    def read(self, passes: Sequence[Pass]) -> list[Read]:
        """Let each worker, or the first few, make a pass over a part of the table."""
        before = self.busy_seconds()
        found = super().read(passes)
        after = self.busy_seconds()
        self.reading = [a + b - c for a, b, c in zip(self.reading, after, before, strict=True)]
        return found

    def ask(self, requests: Mapping[int, Request]) -> Answer:
        """Pass on the steps of all growths, and answer their questions in order."""
        began = time.perf_counter()
        answer = super().ask(requests)
        self.asking_seconds += time.perf_counter() - began
        self.messages += 1
        asked = (question for request in requests.values() for question in request.questions)
        self.visits += sum(question.kind == SUMS for question in asked)
        return answer

    def __exit__(self, *exception: object) -> None:
        self.busy = [a - b for a, b in zip(self.busy_seconds(), self.reading, strict=True)]
        super().__exit__(*exception)

    def found(self) -> dict[str, Any]:
        """Return what was counted."""
        return {
            "messages": self.messages, "visits": self.visits,
            "asking_seconds": self.asking_seconds, "busy_seconds": self.busy,
            "reading_seconds": self.reading,
        }  # fmt: skip


WATCHED: list[Watched] = []


def fresh(plan: Plan) -> TPNNRegressor:
    """Return the estimator that is fitted everywhere."""
    return TPNNRegressor(
        order=2, n_bags=plan.bags, n_jobs=1, bands=False, random_state=0, verbose=0,
        solver=Grow(max_rounds=plan.rounds),
    )  # fmt: skip


def in_one_process(folder: str, plan: Plan) -> dict[str, Any]:
    """Fit in this process, with one thread."""
    began, used = time.perf_counter(), time.process_time()
    model = fresh(plan).fit(folder, "y")
    return {
        "workers": 0, "seconds": time.perf_counter() - began,
        "core_seconds": time.process_time() - used, "bits": bits(model),
    }  # fmt: skip


def by_workers(folder: str, plan: Plan, workers: int) -> dict[str, Any]:
    """Fit on a cluster of this machine."""
    with tempfile.TemporaryDirectory() as storage, patch.object(fitting, "Cluster", Watched):
        began, used = time.perf_counter(), time.process_time()
        model = distributed.fit(fresh(plan), folder, storage=storage, workers=workers)
        seconds, core_seconds = time.perf_counter() - began, time.process_time() - used
    return {
        "workers": workers, "seconds": seconds, "core_seconds": core_seconds, "bits": bits(model),
        **WATCHED[-1].found(),
    }  # fmt: skip


def measured(n_rows: int, plan: Plan) -> list[dict[str, Any]]:
    """Fit a table of some rows in all ways."""
    with tempfile.TemporaryDirectory() as name:
        say(f"writing {n_rows:,} rows")
        write_files(Path(name), n_rows)
        fits = [in_one_process(name, plan)]
        say(f"{fits[0]}")
        for workers in WORKERS:
            fits.append(by_workers(name, plan, workers))
            say(f"{fits[-1]}")
    return [{"rows": n_rows, **plan._asdict(), **fit} for fit in fits]


def run(sizes: list[int], plan: Plan) -> dict[str, Any]:
    """Measure tables of all sizes on a cluster with two workers."""
    import ray

    os.environ |= {"RAY_worker_niceness": "0"}  # else workers stand back behind the driver
    ray.init(num_cpus=max(WORKERS), include_dashboard=False, log_to_driver=False,
             logging_level=logging.ERROR)  # fmt: skip
    try:
        fits = measured(TINY_ROWS, plan._replace(rounds=TINY_ROUNDS))
        fits += [fit for n_rows in sizes for fit in measured(n_rows, plan)]
    finally:
        ray.shutdown()
    return {"fits": fits, **circumstances(["tpnn", "ray", "numpy", "numba"])}


def overhead(fit: dict[str, Any]) -> float:
    """Seconds of a message beyond those of the busiest worker."""
    return float((fit["asking_seconds"] - max(fit["busy_seconds"])) / fit["messages"])


def row_seconds_of_driver(fits: list[dict[str, Any]], largest: dict[str, Any]) -> float:
    """Seconds of the driver's core for each row beyond those of a smaller table."""
    alike = [fit for fit in fits if fit["workers"] == largest["workers"]]
    smaller = [fit for fit in alike if TINY_ROWS < fit["rows"] < largest["rows"]]
    base = smaller[-1] if smaller else {"core_seconds": 0.0, "rows": 0}
    seconds = largest["core_seconds"] - base["core_seconds"]
    return float(seconds / (largest["rows"] - base["rows"]))


def estimate(fits: list[dict[str, Any]]) -> dict[str, Any]:
    """Estimate a billion rows on 64 workers from the costs of the largest table."""
    largest = max((fit for fit in fits if fit["workers"]), key=lambda f: (f["rows"], f["workers"]))
    row_seconds = sum(largest["busy_seconds"]) / largest["rows"] / largest["visits"]
    worker_rows, more_rounds = LARGE_ROWS // LARGE_WORKERS, LARGE_ROUNDS / largest["rounds"]
    bytes_a_row = 2 * N_COLUMNS + BYTES_OF_TARGETS
    bytes_a_row += largest["bags"] * (2 * N_COLUMNS + 2 * BYTES_OF_SLOPES + BYTES_OF_TARGETS)
    messages = round(more_rounds * largest["messages"])
    reading_seconds = sum(largest["reading_seconds"])
    most_readers = min(LARGE_WORKERS, N_COLUMNS)
    driver_row_seconds = row_seconds_of_driver(fits, largest)
    return {
        "rows": LARGE_ROWS,
        "workers": LARGE_WORKERS,
        "large_rounds": LARGE_ROUNDS,
        "row_ns": 1e9 * row_seconds,
        "largest_rows": largest["rows"],
        "columns": N_COLUMNS,
        "reading_seconds": reading_seconds,
        "reading_minutes": reading_seconds / largest["rows"] * LARGE_ROWS / most_readers / 60,
        "driver_seconds": largest["core_seconds"],
        "growing_seconds": driver_row_seconds * largest["rows"],
        "driver_minutes": driver_row_seconds * LARGE_ROWS / 60,
        "busy_minutes": row_seconds * more_rounds * largest["visits"] * worker_rows / 60,
        "messages": messages,
        "overhead_minutes": messages * overhead(largest) / 60,
        "worker_rows": worker_rows,
        "worker_gb": worker_rows * bytes_a_row / 1e9,
    }


def page(stored: dict[str, Any]) -> str:
    """Write the results as Markdown."""
    lines: list[tuple[str, ...]] = [
        ("rows", "by", "seconds", "core", "read", "grow", "messages", "visits", "overhead", "bits")
    ]
    for fit in stored["fits"]:
        by = f"workers: {fit['workers']}" if fit["workers"] else "one process"
        cells = (f"{fit['core_seconds']:.1f}", "", "", "", "", "")
        if fit["workers"]:
            read, grow = (
                ", ".join(f"{value:.1f}" for value in fit[kind])
                for kind in ("reading_seconds", "busy_seconds")
            )
            counts = (f"{fit['messages']:,}", f"{fit['visits']:,}")
            cells = (cells[0], read, grow, *counts, f"{1000 * overhead(fit):.1f} ms")
        lines.append((f"{fit['rows']:,}", by, f"{fit['seconds']:.1f}", *cells, fit["bits"]))
    last = stored["fits"][-1]
    where = f"{described(stored, stored['load'])}; Ray {stored['versions']['ray']}."
    heading = HEADING.format(columns=N_COLUMNS, bags=last["bags"], rounds=last["rounds"])
    texts = [heading, ESTIMATE.format(**estimate(stored["fits"])), where]
    first, *others = map(paragraph, texts)
    table = markdown(lines, padded=True)
    return "\n\n".join(["# Distributed fits", first, table, *others]) + "\n"


def main() -> None:
    """Measure, and store what is found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rows", type=int, nargs="*", default=[300_000])
    parser.add_argument("--bags", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    stored = run(given.rows, Plan(given.bags, given.rounds))
    STORED.write_text(json.dumps(stored, indent=1) + "\n")
    PAGE.write_text(page(stored))


if __name__ == "__main__":
    main()
