"""Fits that are killed at random moments and resumed: all end in the same bits.

    python -m benchmarks.kills 20
    python -m benchmarks.kills 20 distributed

A process fits with a checkpoint, or is the driver of a fit by two workers of Ray, and is killed
(SIGKILL) after a random time, again and again, until a call ends. Of a distributed fit, every
driver that is not killed loses a worker. The model is compared with that of a fit that nobody
killed.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FIT = """
import sys, time
from tpnn import Grow, TPNNRegressor, datasets
from tpnn.edits.digest import digest
X, y = datasets.load("abalone")
model = TPNNRegressor(random_state=0, n_bags=2, verbose=0, solver=Grow(max_rounds=300))
print("ready", flush=True)
print(digest(model.fit(X, y, checkpoint=sys.argv[1]).model_))
"""

DISTRIBUTED = """
import sys
from pathlib import Path
import ray
from tpnn import Grow, TPNNRegressor, datasets, distributed
from tpnn.distributed.cluster import Cluster
from tpnn.edits.digest import digest
folder, ask, asked = Path(sys.argv[1]), Cluster.ask, []
def losing(team, requests):
    asked.append(1)
    if len(asked) == 200:
        ray.kill(team.workers[0])
    return ask(team, requests)
if "whole" not in folder.name:
    Cluster.ask = losing
table = folder.parent / "abalone.parquet"
if not table.exists():
    X, y = datasets.load("abalone")
    X.assign(target=y).to_parquet(table)
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
model = TPNNRegressor(random_state=0, n_bags=2, verbose=0, solver=Grow(max_rounds=300))
print("ready", flush=True)
print(digest(distributed.fit(model, str(table), "target", storage=folder).model_))
"""


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
    """Digest of a model, and seconds until a process that goes on with its fit again has ended."""
    expected, began = run(folder, None, program), time.monotonic()
    run(folder, None, program)
    return expected, (time.monotonic() - began) / 2


def main(n_kills: int, program: str) -> None:
    """Kill fits until so many were killed; say how many of their models have the same bits."""
    draws, killed, ended, same = random.Random(0), 0, 0, 0
    with tempfile.TemporaryDirectory() as name:
        expected, seconds = timed(Path(name, "whole"), program)
        while killed < n_kills:
            found = None
            while found is None:
                wait = draws.uniform(0, seconds) if killed < n_kills else None
                found = run(Path(name, str(ended)), wait, program)
                killed += found is None
            ended, same = ended + 1, same + (found == expected)
    print(f"{killed} kills, {ended} fits, {same} of them with the bits of a fit without kills")


if __name__ == "__main__":
    asked = sys.argv[1:]
    main(int(asked[0]) if asked else 20, DISTRIBUTED if "distributed" in asked else FIT)
