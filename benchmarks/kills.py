"""Fits that are killed at random moments and resumed: all end in the same bits.

    python -m benchmarks.kills 20

A process fits with a checkpoint and is killed (SIGKILL) after a random time, again and again, until
a call ends. Its model is compared with that of a fit that nobody killed.
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


def run(folder: Path, seconds: float | None) -> str | None:
    """Digest of the model, or None if the process was killed so many seconds after it was ready."""
    command = [sys.executable, "-c", FIT, str(folder)]
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


def timed(folder: Path) -> tuple[str | None, float]:
    """Digest of a model, and seconds until a process that goes on with its fit again has ended."""
    expected, began = run(folder, None), time.monotonic()
    run(folder, None)
    return expected, (time.monotonic() - began) / 2


def main(n_kills: int) -> None:
    """Kill fits until so many were killed; say how many of their models have the same bits."""
    draws, killed, ended, same = random.Random(0), 0, 0, 0
    with tempfile.TemporaryDirectory() as name:
        expected, seconds = timed(Path(name, "whole"))
        while killed < n_kills:
            found = None
            while found is None:
                may_kill = killed < n_kills
                found = run(Path(name, str(ended)), draws.uniform(0, seconds) if may_kill else None)
                killed += found is None
            ended, same = ended + 1, same + (found == expected)
    print(f"{killed} kills, {ended} fits, {same} of them with the bits of a fit without kills")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
