"""How long a table takes from columns to codes: nodes, masses, keys and codes of every row.

    python -m benchmarks.speed.encoding
    python -m benchmarks.speed.encoding 960000 136 --threads 16

The first lines are the calls that a fit makes, and their sum, which is compared with a bar where
there is one for the size: 3 s for 1,000,000 x 50 on two cores and for 960,000 x 136 on sixteen.
The lines below take the same work apart. Seconds are those of a clock, core seconds those of all
threads together, which other work on the machine changes less. Each is the least of some runs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common.environment import cores
from tpnn._utils.threads import Workers
from tpnn.solvers.problem.rows import distinct_rows, row_keys
from tpnn.solvers.solver import FINEST_NODES
from tpnn.table.axis import distinct, make_axis, nested_axes, place_nodes
from tpnn.table.codes import code_rows
from tpnn.table.encoder import TableEncoder
from tpnn.table.table import Table

MAX_NODES = {order: min(FINEST_NODES[order], 256) for order in (1, 2, 3)}  # as by default
BARS = {(1_000_000, 50, 2): 3.0, (960_000, 136, 16): 3.0}  # rows, columns, cores: seconds
WARM_ROWS, N_RUNS = 1000, 3


class Timing(NamedTuple):
    """Seconds of a clock, and of all cores together."""

    seconds: float
    core_seconds: float


def made(n_rows: int, n_columns: int) -> np.ndarray:
    """Columns of six kinds in turn, (n_rows, n_columns)."""
    rng = np.random.default_rng(0)
    kinds: list[Callable[[], np.ndarray]] = [
        lambda: rng.normal(size=n_rows),
        lambda: rng.uniform(size=n_rows),
        lambda: rng.exponential(size=n_rows),
        lambda: rng.normal(size=n_rows).round(2),
        lambda: rng.integers(0, 100, n_rows).astype(np.float64),
        lambda: np.where(rng.random(n_rows) < 0.1, np.nan, rng.normal(size=n_rows)),
    ]
    X = np.empty((n_rows, n_columns), order="F")  # as data frames have them
    for column in range(n_columns):
        X[:, column] = kinds[column % len(kinds)]()
    return X


def timed(work: Callable[[], Any], timings: dict[str, Timing], name: str) -> Any:
    """Do some work; keep its time if it is the least so far."""
    clock, used = time.perf_counter(), time.process_time()
    answer = work()
    found = Timing(time.perf_counter() - clock, time.process_time() - used)
    timings[name] = min(found, timings.get(name, found), key=lambda timing: timing.core_seconds)
    return answer


def as_in_a_fit(X: np.ndarray, n_threads: int, timings: dict[str, Timing]) -> None:
    """Encode as a fit does."""
    n_rows, target = len(X), np.zeros((1, len(X)))
    table = timed(lambda: Table(X), timings, "reading")
    encoder = timed(
        lambda: TableEncoder.fit(table, MAX_NODES, n_threads=n_threads),
        timings,
        "nodes and masses",
    )

    def keys_of() -> np.ndarray:
        columns = (encoder.numbers(table, j) for j in range(table.n_features))
        return row_keys(columns, n_rows, n_threads)

    keys = timed(keys_of, timings, "keys")
    rows = timed(lambda: distinct_rows(keys, target, None), timings, "distinct rows").rows
    timed(lambda: code_rows(table, encoder, rows, n_threads), timings, "codes")


def in_parts(X: np.ndarray, n_threads: int, timings: dict[str, Timing]) -> None:
    """Do the work of nodes and masses in its parts."""
    table, sizes = Table(X), list(MAX_NODES.values())
    with Workers(n_threads) as workers:

        def mapped(work: Callable[[Any], Any], tasks: Any, name: str) -> Any:
            return timed(lambda: workers.map(work, tasks), timings, name)

        places = range(table.n_features)
        columns = mapped(lambda place: table.column(place).values, places, "reading columns")
        found = mapped(lambda column: distinct(column, None), columns, "sorting")
        known = [
            tuple(part[: np.count_nonzero(~np.isnan(values))] for part in (values, masses))
            for values, masses in found
        ]
        nodes = mapped(lambda one: place_nodes(one[0], one[1], sizes[0]), known, "finest nodes")
        placed = [(*one, own) for one, own in zip(found, nodes, strict=True)]
        mapped(lambda one: make_axis(one[0], one[1], one[2]), placed, "finest masses")
        mapped(
            lambda one: nested_axes(one[0], one[1], sizes, "number", ()),
            found,
            "all nodes and masses",
        )


def report(heading: str, timings: dict[str, Timing]) -> Timing:
    """Print times and their sums; return these."""
    total = Timing(*map(sum, zip(*timings.values(), strict=True)))
    for name, timing in {heading: total, **timings}.items():
        print(f"  {name:24} {timing.seconds:8.2f} s {timing.core_seconds:8.2f} core s")
    return total


def main() -> None:
    """Measure one table, or those that have a bar on this machine."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", type=int, nargs="?", default=1_000_000)
    parser.add_argument("columns", type=int, nargs="?", default=50)
    parser.add_argument("--threads", type=int, default=cores(), help="(%(default)s here)")
    parser.add_argument("--runs", type=int, default=N_RUNS, help="(%(default)s)")
    given = parser.parse_args()
    as_in_a_fit(made(WARM_ROWS, 6), given.threads, {})  # compiled
    X = made(given.rows, given.columns)
    whole, parts = dict[str, Timing](), dict[str, Timing]()
    for _ in range(given.runs):
        as_in_a_fit(X, given.threads, whole)
        in_parts(X, given.threads, parts)
    print(f"{given.rows:,} x {given.columns} on {given.threads} threads")
    total = report("all", whole)
    bar = BARS.get((given.rows, given.columns, given.threads))
    if bar is not None:
        print(f"  bar: {bar:g} s, {'reached' if total.seconds <= bar else 'missed'}")
    report("parts of nodes", parts)


if __name__ == "__main__":
    main()
