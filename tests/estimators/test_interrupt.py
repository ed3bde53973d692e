"""Ctrl-C: a fit stops soon, in every stage and on any number of threads, and leaves the old model.

Training is endless in these tests, and each stage interrupts itself: what cannot be stopped fails
after a number of visits that no stage needs.
"""

from __future__ import annotations

import _thread
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sklearn.base import clone

import tpnn
from tests.conftest import QUICK, QUICK_DESCENT, with_solver
from tpnn import TPNNRegressor
from tpnn.solvers.grow.deep import DeepGrowth

ENDLESS_GROWTH = with_solver(QUICK, max_rounds=10**9, patience=10**9)
ENDLESS_DESCENT = with_solver(QUICK_DESCENT, max_steps=10**9, patience=10**9)
STAGES: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "ridge start": ("tpnn.solvers.grow.ridge_start", "RidgeStart", "_loss", ENDLESS_GROWTH),
    "main effects and pairs": (
        "tpnn.solvers.grow.forest", "RectangleForest", "visit", ENDLESS_GROWTH,
    ),
    "shaped": (
        "tpnn.solvers.grow.forest", "RectangleForest", "visit",
        {**ENDLESS_GROWTH, "shapes": {"smooth": "increasing"}},
    ),
    "triples": (
        "tpnn.solvers.grow.deep", "DeepGrowth", "_rules_of",
        {**QUICK, "interactions": [(0, 1, 3)]},
    ),
    "judging triples": (
        "tpnn.solvers.grow.deep", "DeepGrowth", "_rules_of", {**QUICK, "order": 3},
    ),
    "deep trees": ("tpnn.solvers.grow.deep", "DeepGrowth", "_rules_of", QUICK),
    "four features": (
        "tpnn.solvers.grow.deep", "DeepGrowth", "_rules_of",
        {**QUICK, "interactions": [(0, 1, 2, 3)]},
    ),
    "gradient descent": ("tpnn.solvers.descent.cpu", "_Part", "advance", ENDLESS_DESCENT),
}  # fmt: skip
MOST_CALLS = 100_000  # seconds: threads are told within a tenth of one


class Interrupting:
    """A function that does what Ctrl-C does at one of its calls, and gives up long after it."""

    def __init__(self, function: Callable[..., Any], at_call: int) -> None:
        self.function, self.at_call = function, at_call
        self.calls, self.gave_up = count(1), False

    def __get__(self, instance: Any, owner: Any = None) -> Callable[..., Any]:
        return self if instance is None else partial(self, instance)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        call = next(self.calls)
        if call == self.at_call:
            _thread.interrupt_main()
        if call > MOST_CALLS:
            self.gave_up = True
            raise AssertionError("nothing stopped")
        return self.function(*arguments, **named)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("stage", STAGES)
def test_an_interrupt_stops_every_stage(
    stage: str, n_jobs: int, table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, owner, method, settings = STAGES[stage]
    if "descent" in module:
        pytest.importorskip("torch")
    X, y = table
    model = clone(TPNNRegressor(**{**settings, "solver": QUICK["solver"]})).fit(X, y)
    old, solver = dict(vars(model)), clone(settings["solver"])
    if owner == "DeepGrowth":  # what grows before it ends as usual
        make_endless(monkeypatch)
    kind = getattr(import_module(module), owner)
    spy = Interrupting(getattr(kind, method), at_call=3)
    monkeypatch.setattr(kind, method, spy)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(solver=solver, n_jobs=n_jobs).fit(X, y)
    assert not spy.gave_up
    fitted = {name: value for name, value in vars(model).items() if name.endswith("_")}
    assert "model_" in fitted
    assert all(value is old[name] for name, value in fitted.items())


def make_endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make deep trees grow for as long as nothing stops them."""
    grow = DeepGrowth.grow

    def endless(growth: DeepGrowth, n_bags: int | None = None) -> Any:
        return grow(replace(growth, max_rounds=10**9, patience=10**9), n_bags)

    monkeypatch.setattr(DeepGrowth, "grow", endless)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
@pytest.mark.parametrize(
    "solver", ["Grow(max_rounds=10**9, patience=10**9)", "Descent(max_steps=10**9)"]
)
def test_control_c_ends_the_process(solver: str) -> None:
    """A process of its own says that its fit is under way, and gets the signal of Ctrl-C."""
    if solver.startswith("Descent"):
        pytest.importorskip("torch")
    code = (
        "import threading\n"
        "import numpy as np\n"
        "from tpnn import Descent, Grow, TPNNRegressor\n"
        "from tpnn.solvers import solution as stopping\n"
        "is_reached, first = stopping.Limits.are_reached, threading.Lock()\n"
        "def spy(limits):\n"
        "    if first.acquire(blocking=False):\n"  # one of the threads
        "        print('under way', flush=True)\n"
        "    return is_reached(limits)\n"
        "stopping.Limits.are_reached = spy\n"
        "X = np.random.default_rng(0).normal(size=(2000, 3))\n"
        f"model = TPNNRegressor(solver={solver}.set_params(patience=10**9), verbose=0)\n"
        "try:\n"
        "    model.fit(X, X[:, 0] * X[:, 1])\n"
        "except KeyboardInterrupt:\n"
        "    print(hasattr(model, 'model_'), flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True,
        cwd=Path(tpnn.__file__).parents[1],
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "under way\n"
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert output == "False\n"
    assert process.returncode == 0
