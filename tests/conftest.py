"""Shared data and settings: small tables, quick fits, no screen."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from tpnn import Descent, Grow

SMALL: dict[str, Any] = {
    "n_bags": 2, "max_nodes": {1: 32, 2: 12, 3: 6}, "random_state": 0, "verbose": 0,
}  # fmt: skip
# Fits of a fraction of a second, by the default solver and by gradient descent.
QUICK: dict[str, Any] = {**SMALL, "solver": Grow(max_rounds=40, patience=40)}
QUICK_DESCENT: dict[str, Any] = {
    **SMALL,
    "solver": Descent(n_bases={1: 8, 2: 6, 3: 4}, max_steps=40, patience=40),
}
BY_SOLVER = {"grow": QUICK, "descent": QUICK_DESCENT}


def told(model: Any) -> list[dict[str, Any]]:
    """What happened in a fit, without the seconds of its stages."""
    return [record for record in model.history_ if record["stage"] != "time"]


def with_solver(settings: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Settings whose solver has other parameters; the shared solver stays as it is."""
    return {**settings, "solver": clone(settings["solver"]).set_params(**changes)}


def pytest_configure() -> None:
    import matplotlib
    from hypothesis import settings

    matplotlib.use("agg")
    # A busy machine is no failure, and the same commit draws the same examples everywhere. New
    # examples: pytest --hypothesis-profile=random
    settings.register_profile("same", deadline=None, derandomize=True)
    settings.register_profile("random", deadline=None)
    settings.load_profile("same")


@pytest.fixture(scope="session")
def quick() -> dict[str, Any]:
    """Settings of a fit by the default solver that takes a fraction of a second."""
    return dict(QUICK)


@pytest.fixture(scope="session")
def quick_descent() -> dict[str, Any]:
    """Settings of a fit by gradient descent that takes a fraction of a second."""
    pytest.importorskip("torch", reason="gradient descent needs torch")
    return dict(QUICK_DESCENT)


@pytest.fixture(scope="session", params=BY_SOLVER)
def settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Quick settings of either solver."""
    if request.param == "descent":
        pytest.importorskip("torch", reason="gradient descent needs torch")
    return dict(BY_SOLVER[request.param])


@pytest.fixture(scope="session")
def table() -> tuple[pd.DataFrame, pd.Series]:
    """400 rows: two continuous features, one with a heavy atom, one with three levels."""
    rng = np.random.default_rng(7)
    X = pd.DataFrame(
        {
            "smooth": rng.normal(size=400),
            "skewed": rng.exponential(size=400),
            "atom": np.where(rng.random(400) < 0.6, 0.0, rng.normal(size=400)),
            "level": rng.integers(0, 3, 400).astype(float),
        }
    )
    signal = np.sin(X.smooth) + 0.5 * np.sqrt(X.skewed) * X.level + X["atom"] ** 2
    return X, signal + 0.1 * rng.normal(size=400)


@pytest.fixture(scope="session")
def labels(table: tuple[pd.DataFrame, pd.Series]) -> pd.Series:
    """Two classes for the same rows."""
    _, y = table
    return (y > y.median()).map({True: "high", False: "low"})


@pytest.fixture(scope="session", autouse=True)
def _interrupts_are_heard() -> Iterator[None]:
    """Undo what a shell does to the processes that it runs in the background: to ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
