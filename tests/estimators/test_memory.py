"""estimate_memory, compared with what fits of their own process need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tpnn import estimate_memory

FIT = """
import json, sys
import numpy as np
from tpnn import TPNNClassifier, TPNNRegressor

def status(name):
    lines = open("/proc/self/status").read().splitlines()
    return 1000 * int(next(line for line in lines if line.startswith(name)).split()[1])

shape, n_classes, settings = json.loads(sys.argv[1])
rng = np.random.default_rng(0)
X = rng.normal(size=shape)
score = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * rng.normal(size=len(X))
y = score if n_classes == 1 else np.digitize(score, np.linspace(-1, 1, n_classes - 1))
TPNNRegressor(n_bags=1, max_nodes=8, verbose=0).fit(X[:200, :3], score[:200])
open("/proc/self/clear_refs", "w").write("5")
before = status("VmRSS")
estimator = TPNNRegressor if n_classes == 1 else TPNNClassifier
estimator(random_state=0, verbose=0, n_jobs=2, **settings).fit(X, y)
print(status("VmHWM") - before)
"""
CASES: list[Any] = [((1000, 5), 1, {}), ((50_000, 20), 1, {"order": 1})]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
@pytest.mark.parametrize(("shape", "n_classes", "settings"), CASES)
def test_a_fit_needs_what_was_estimated(shape: Any, n_classes: int, settings: Any) -> None:
    arguments = json.dumps([shape, n_classes, settings])
    run = [sys.executable, "-c", FIT, arguments]
    ended = subprocess.run(run, capture_output=True, text=True)
    if "PermissionError" in ended.stderr:
        pytest.skip("this machine does not reset the peak")
    needed = int(ended.stdout)
    estimate = estimate_memory(np.zeros(shape), n_outputs=max(n_classes, 1), **settings)
    assert 0.5 < estimate / needed < 2


def test_it_grows_with_rows_bags_outputs_and_orders() -> None:
    X = np.zeros((20_000, 40))
    alone = estimate_memory(X, order=1)
    assert alone < estimate_memory(np.zeros((40_000, 40)), order=1)
    assert alone < estimate_memory(X, order=1, n_bags=16)
    assert alone < estimate_memory(X, order=2) < estimate_memory(X, order=2, interactions="all")
    assert estimate_memory(X, order=2, interactions=5) < estimate_memory(
        X, order=2, interactions=50
    )
    listed = estimate_memory(X, interactions=[(0, 1)])
    assert listed < estimate_memory(X, interactions=[(0, 1), (1, 2), (2, 3)])


@pytest.mark.parametrize(
    ("y", "n_outputs"),
    [
        (np.arange(100.0), 1), (np.arange(100), 1), (np.arange(100) % 2, 1), (None, 1),
        (np.arange(100) % 5, 5), (np.array(list("abcd") * 25), 4), (np.zeros((100, 3)), 3),
        (pd.Series(list("abcde") * 20, dtype="category"), 5),
    ],
)  # fmt: skip
def test_targets_say_how_many_outputs(y: Any, n_outputs: int) -> None:
    X = np.zeros((100, 3))
    assert estimate_memory(X, y) == estimate_memory(X, n_outputs=n_outputs)


def test_files_have_a_shape(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    table = pd.DataFrame(np.zeros((100, 4)), columns=list("abcy"))
    table.to_parquet(tmp_path / "table.parquet")
    assert estimate_memory(str(tmp_path), "y") == estimate_memory(table[["a", "b", "c"]])


def test_refusals() -> None:
    with pytest.raises(ValueError, match=r"^n_outputs: must be a whole number"):
        estimate_memory(np.zeros((10, 2)), n_outputs=0)
    with pytest.raises(ValueError, match=r"^n_bags: must be"):
        estimate_memory(np.zeros((10, 2)), n_bags=-1)
