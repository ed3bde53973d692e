"""Fits to Parquet files that are read as a whole, or column by column as if they did not fit.

    python -m benchmarks.out_of_core 500000 2000000

For each number of rows, a generator writes files of 20 columns; each fit runs in a process of its
own. Printed are its seconds, the peak of its memory beside that of mapped files, its error on new
rows beside that of the true function, and whether the two models agree in every bit.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.measure import ROOT
from benchmarks.say import say

N_COLUMNS, ROWS_PER_FILE, NOISE = 20, 1_000_000, 0.5
NEW_ROWS = 100_000
SECONDS_BETWEEN_LOOKS = 0.01
WAYS = ("in memory", "in files")


def block(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns (n_rows, 20), uniform, and the true function of them."""
    X = np.random.default_rng(seed).uniform(-1, 1, size=(n_rows, N_COLUMNS))
    truth = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + np.abs(X[:, 2]) + 0.5 * X[:, 3]
    truth += 2 * X[:, 4] * X[:, 5] + np.where(X[:, 6] > 0.2, X[:, 7], 0.0)
    return X, truth


def write_files(folder: Path, n_rows: int) -> None:
    """Write files of a million rows each, with a column ``y``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for number, start in enumerate(range(0, n_rows, ROWS_PER_FILE)):
        X, truth = block(min(ROWS_PER_FILE, n_rows - start), seed=number + 1)
        noise = np.random.default_rng([number, 7]).normal(scale=NOISE, size=len(X))
        columns = {f"x{place:02}": X[:, place] for place in range(N_COLUMNS)}
        pq.write_table(pa.table(columns | {"y": truth + noise}), folder / f"{number:05}.parquet")


def fit(folder: str, way: str, n_bags: int) -> None:
    """Fit in this process, and print what came out as JSON."""
    from tpnn import TPNNRegressor
    from tpnn.estimators import checks

    checks.TABLE_MEMORY_SHARE = 0.0 if way == "in files" else 1.0
    began = time.perf_counter()
    model = TPNNRegressor(order=2, n_bags=n_bags, random_state=0).fit(folder, "y")
    seconds = time.perf_counter() - began
    X, truth = block(NEW_ROWS, seed=0)
    columns = {f"x{place:02}": X[:, place] for place in range(N_COLUMNS)}
    error = float(np.sqrt(np.mean((model.predict(columns) - truth) ** 2)))
    bits = hashlib.sha256()
    for table in (*model.model_.tables, model.model_.intercepts):
        bits.update(np.ascontiguousarray(table).tobytes())
    print(json.dumps({"seconds": seconds, "error": error, "bits": bits.hexdigest()}))


def measured(folder: Path, way: str, n_bags: int) -> dict[str, Any]:
    """Fit in a process of its own, with the peak of its memory in GB."""
    command = [sys.executable, "-m", "benchmarks.out_of_core", "--fit", str(folder), way]
    child = subprocess.Popen(
        [*command, "--bags", str(n_bags)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    process, peak = psutil.Process(child.pid), 0
    while child.poll() is None:
        with contextlib.suppress(psutil.NoSuchProcess):  # it may end between the two looks
            memory = process.memory_info()
            peak = max(peak, memory.rss - getattr(memory, "shared", 0))  # mapped files are shared
        time.sleep(SECONDS_BETWEEN_LOOKS)
    assert child.stdout is not None
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)
    found: dict[str, Any] = json.loads(child.stdout.read().splitlines()[-1])
    return {**found, "GB": peak / 1e9}


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rows", type=int, nargs="*", default=[500_000])
    parser.add_argument("--bags", type=int, default=2)
    parser.add_argument("--ways", nargs="*", default=WAYS, choices=WAYS)
    parser.add_argument("--fit", nargs=2, metavar=("FOLDER", "WAY"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.fit:
        folder, way = given.fit
        fit(folder, way, given.bags)
        return
    print(f"{'rows':>12} {'way':>10} {'seconds':>8} {'GB':>6} {'B/row':>6} {'error':>7}  bits")
    for n_rows in given.rows:
        with tempfile.TemporaryDirectory() as name:
            say(f"writing {n_rows:,} rows")
            write_files(Path(name), n_rows)
            for way in given.ways:
                found = measured(Path(name), way, given.bags)
                line = f"{n_rows:12,} {way:>10} {found['seconds']:8.1f} {found['GB']:6.2f}"
                each = 1e9 * found["GB"] / n_rows
                print(f"{line} {each:6.0f} {found['error']:7.4f}  {found['bits'][:12]}", flush=True)


if __name__ == "__main__":
    main()
