"""Fits that are killed at random moments and resumed: all end in the same bits.

    python -m benchmarks.truth.kills 20
    python -m benchmarks.truth.kills 20 distributed

A process fits with a checkpoint, or is the driver of a fit by two workers of Ray, and is killed
(SIGKILL) after a random time, again and again, until a call ends. The driver of a distributed fit
also loses workers, at random calls. The model is compared with that of a fit that nobody killed.
"""

from __future__ import annotations

import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from benchmarks.common.environment import say

FIT = """
import sys, time
from tpnn import Grow, TPNNRegressor, datasets
from tpnn.model.edit_log import digest
X, y = datasets.load("abalone")
model = TPNNRegressor(random_state=0, n_bags=2, verbose=0, solver=Grow(max_rounds=300))
print("ready", flush=True)
print(digest(model.fit(X, y, checkpoint=sys.argv[1]).model_))
"""

DISTRIBUTED = """
import random, sys
from pathlib import Path
import ray
from tpnn import Grow, TPNNRegressor, datasets, distributed
from tpnn.solvers.cluster.ray import Cluster
from tpnn.model.edit_log import digest
folder, draws = Path(sys.argv[1]), random.Random()
table, lost = folder.parent / "abalone.parquet", folder.parent / "lost"
n_left = [draws.randrange(MOST_CALLS_BETWEEN_LOSSES)]
def losing(method):
    def call(team, *given):
        n_left[0] -= 1
        if n_left[0] < 0:
            n_left[0] = draws.randrange(MOST_CALLS_BETWEEN_LOSSES)
            ray.kill(team.workers[draws.randrange(team.size)])
            with lost.open("a") as file:
                print(method.__name__, file=file)
        return method(team, *given)
    return call
if "whole" not in folder.name:
    Cluster.ask, Cluster.read = losing(Cluster.ask), losing(Cluster.read)
if not table.exists():
    X, y = datasets.load("abalone")
    X.assign(target=y).to_parquet(table, row_group_size=500)
ray.init(address="auto", log_to_driver=False, logging_level="error")
model = TPNNRegressor(
    random_state=0, n_bags=2, verbose=0, order=2, interactions=2, bands=False,
    solver=Grow(max_rounds=60, patience=60),
)
print("ready", flush=True)
found = distributed.fit(model, str(table), "target", storage=folder, workers=2)
print(digest(found.model_))
""".replace("MOST_CALLS_BETWEEN_LOSSES", "300")


@contextmanager
def cluster() -> Iterator[None]:
    """Two cores of this machine, which outlive every driver."""
    import ray

    ray.init(
        num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR,
        object_store_memory=100_000_000,
    )  # fmt: skip
    os.environ["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address
    try:
        yield
    finally:
        ray.shutdown()


def run(folder: Path, seconds: float | None, program: str) -> str | None:
    """Digest of the model, or None if the process was killed so many seconds after it was ready."""
    command = [sys.executable, "-c", program, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            out, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            return None
    return out.strip()


def timed(folder: Path, program: str) -> tuple[str | None, float]:
    """Digest of a model, and seconds until a process that fits it has ended."""
    began = time.monotonic()
    return run(folder, None, program), time.monotonic() - began


def n_lost(folder: Path) -> int:
    """Count the workers that were killed."""
    file = folder / "lost"
    return len(file.read_text().splitlines()) if file.exists() else 0


def main(n_kills: int, program: str) -> None:
    """Kill fits until so many were killed; say how many of their models have the same bits."""
    draws, killed, ended, same = random.Random(0), 0, 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        expected, seconds = timed(folder / "whole", program)
        while killed + n_lost(folder) < n_kills:
            found = None
            while found is None:
                is_enough = killed + n_lost(folder) >= n_kills
                found = run(
                    folder / str(ended), None if is_enough else draws.uniform(0, seconds), program
                )
                killed += found is None
            ended, same = ended + 1, same + (found == expected)
            counts = f"{killed} kills of fits, {n_lost(folder)} of workers"
            say(f"{counts}; {ended} fits ended, {same} of them with the bits of one without kills")


if __name__ == "__main__":
    asked = sys.argv[1:]
    is_distributed = "distributed" in asked
    with cluster() if is_distributed else nullcontext():
        main(int(asked[0]) if asked else 20, DISTRIBUTED if is_distributed else FIT)
