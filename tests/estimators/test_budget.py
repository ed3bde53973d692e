"""The budget of time: how many bags fit into a limit, and when a solver must stop."""

from __future__ import annotations

import time
from itertools import count
from typing import Any

import numpy as np
import pytest

from tests.solvers.problem.test_problem import problem_of
from tpnn import ComponentSet
from tpnn.estimators import inputs as budget
from tpnn.estimators.inputs import seconds_of_components, time_budget
from tpnn.solvers.solution import Limits


@pytest.fixture
def problem() -> Any:
    X = np.random.default_rng(0).normal(size=(60, 4))
    return problem_of(X, X[:, 0]).with_components(ComponentSet.up_to(4, 2))


def test_without_a_limit_nothing_is_timed(problem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any) -> float:
        raise AssertionError("timed")

    monkeypatch.setattr(budget, "seconds_of_components", refuse)
    limits = Limits()
    found = time_budget(problem, 8, limits)
    assert (found.n_bags, found.limits, found.events) == (8, limits, [])


@pytest.mark.parametrize(
    ("seconds", "n_bags", "deadline"),
    [
        (1000.0, 8, 1000.0 - 2.5 * 10),  # 3 s for the first bag and 1 s for each other one
        (80.0, 8, 80.0 - 2.5 * 10),
        (79.0, 7, 79.0 - 2.5 * 9),
        (40.0, 3, 40.0 - 2.5 * 5),
        (24.0, 1, 24.0 - 2.5 * 3),
        (10.0, 1, 10.0 - 5.0),  # not even one bag: half of the time is for the solver
        (-1.0, 1, -1.0),
    ],
)
def test_bags_and_deadline(
    problem: Any,
    seconds: float,
    n_bags: int,
    deadline: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All work on the components, 4 times what is timed, must fit into half of the time left."""
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    monkeypatch.setattr(budget, "seconds_of_components", lambda problem, count: 2.0 + count)
    found = time_budget(problem, 8, Limits(deadline=seconds))
    assert found.n_bags == n_bags
    assert found.limits.deadline == pytest.approx(deadline)
    notes = [event.note for event in found.events]
    assert notes == ([] if n_bags == 8 else [f"the time limit affords {n_bags} of 8 bags"])


def test_one_component_of_each_order_is_timed(
    problem: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that moves one second at every look: a second for each component."""
    ticks = count()
    monkeypatch.setattr(time, "monotonic", lambda: float(next(ticks)))
    assert seconds_of_components(problem, 3) == 4 + 6
