"""Neural interaction detection: strengths by hand, repeatable, within its time."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.search.test_found import QUIET, wide
from tests.solvers.problem.test_problem import problem_of
from tpnn import ComponentSet, Grow, TPNNRegressor
from tpnn.solvers.solution import Limits, NoProgress

nid = pytest.importorskip("tpnn.search.nid", reason="torch is not installed")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads that spin for so small a network take minutes on a busy machine."""
    before = nid.torch.get_num_threads()
    nid.torch.set_num_threads(1)
    yield
    nid.torch.set_num_threads(before)


def test_strengths_of_a_network_by_hand() -> None:
    first, last = np.array([[1.0, -3.0, 0.0], [0.5, 0.0, -2.0]]), np.array([[2.0, -4.0]])
    strengths = nid.pair_strengths([first, last])
    assert strengths[0, 1] == 2 * 1.0
    assert strengths[0, 2] == 4 * 0.5
    assert strengths[1, 2] == 0


def test_network_finds_a_pair_and_repeats_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nid, "MAX_EPOCHS", 20)
    X = np.random.default_rng(0).uniform(-1, 1, (1500, 5))
    problem = problem_of(X, X[:, 1] * X[:, 3])
    nothing = problem.with_components(ComponentSet(((0,),)))
    solution = Grow(growth="none").solve(nothing, Limits(), NoProgress())
    rankings = [nid.rank_pairs(problem, solution, most=3) for _ in range(2)]
    assert rankings[0][0] == (1, 3)
    assert len(rankings[0]) == 3
    assert rankings[0] == rankings[1]


def test_network_is_not_trained_beyond_the_deadline() -> None:
    X = np.random.default_rng(0).uniform(-1, 1, (300, 3))
    untrained = [nid.fit_network(X, X[:, j : j + 1], seed=0, deadline=0.0) for j in (0, 1)]
    for one, other in zip(*untrained, strict=True):
        np.testing.assert_array_equal(one, other)


def test_nid_behind_the_same_interface() -> None:
    X, y = wide(n_features=8)
    model = TPNNRegressor(interactions={"method": "nid", "count": 6}, **QUIET).fit(X, y)
    pairs = [s for s in model.components_ if len(s) == 2]
    assert len(pairs) == 6
    assert ("x2", "x3") in pairs


def test_nid_leaves_time_for_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    deadlines: list[float] = []
    rank = nid.rank_pairs

    def spy(*arguments: Any) -> Any:
        deadlines.append(arguments[-1])
        return rank(*arguments[:-1], 0.0)

    monkeypatch.setattr(nid, "rank_pairs", spy)
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    X, y = wide(n_rows=200, n_features=7)
    for limit in (1000.0, None):
        asked = {"method": "nid", "count": 2}
        TPNNRegressor(interactions=asked, time_limit=limit, **QUIET).fit(X, y)
    assert deadlines == [100.0 + 0.25 * 850.0, math.inf]  # bands have the rest
