"""The search for triples: what is planted is found, and nothing where there is nothing."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.solvers.problem.test_problem import drawn, problem_of
from tpnn import Grow, TPNNClassifier, TPNNRegressor
from tpnn.anova.components import InteractionRules
from tpnn.search import confirm as judged
from tpnn.search.confirm import JudgedSearch
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Event, Limits, Verdict

SMALL: dict[str, Any] = {"n_bags": 4, "max_nodes": {1: 32, 2: 12, 3: 6}, "verbose": 0}
SEARCHED: dict[str, Any] = {**SMALL, "order": 3}  # without deep trees, which find by themselves
ALL_OF_FIVE = list(combinations(range(5), 3))


@dataclass
class KnownVerdict(Grow):
    """A solver whose verdict is known, and which remembers what it was asked about."""

    verdict: Verdict
    asked: list[Any] = field(default_factory=list)

    def judge(self, problem: Any, solution: Any, triples: Any, limits: Any) -> Verdict:
        self.asked = triples
        n_candidates = len(triples)
        falls = np.resize(self.verdict.falls, n_candidates)
        return Verdict(falls, self.verdict.change, self.verdict.error)


def find(
    falls: list[float],
    change: float = -1.0,
    error: float = 0.1,
    most: int = 10,
    limits: Limits | None = None,
    rules: InteractionRules | None = None,
    n_features: int = 5,
) -> tuple[list[Any], Event | None, list[Any]]:
    """What a search finds given a verdict, and the candidates, with features in any order."""
    problem = five_features(n_features)
    solver = KnownVerdict(Verdict(np.array(falls), change, error))
    search = JudgedSearch(rules or InteractionRules(), solver, limits or Limits(), most)
    found, event = search.find(problem, drawn(problem))
    return found, event, solver.asked


def five_features(n_features: int = 5) -> Problem:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, n_features))
    return problem_of(X, X[:, 0] + rng.normal(size=60))


# What becomes of a verdict


def test_all_triples_are_candidates_where_they_are_affordable() -> None:
    _, event, asked = find([1.0])
    assert sorted(tuple(sorted(triple)) for triple in asked) == ALL_OF_FIVE
    assert event is not None
    assert event.n_candidates == 10


def test_very_many_rows_are_judged_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judged, "MOST_JUDGED_ROWS", 30)
    monkeypatch.setattr(judged, "MOST_CANDIDATE_ROWS", 300)  # ten triples of as many rows
    solver = KnownVerdict(Verdict(np.ones(1), -1.0, 0.1))
    problem, rows = five_features(), []

    def judge(part: Problem, *others: Any) -> Verdict:
        rows.append(len(part.rows.y))
        return Verdict(np.ones(10), -1.0, 0.1)

    monkeypatch.setattr(solver, "judge", judge)
    JudgedSearch(InteractionRules(), solver, Limits(), 10).find(problem, drawn(problem))
    assert rows == [30]
    assert judged.features_grown_at_once(problem, 3) == 5


def test_those_with_most_of_the_fall_are_found_best_first() -> None:
    falls = [1.0, 0.0, 50.0, -3.0, 3.0, 46.0, 0.0, 0.0, 0.0, 0.0]  # 96 of 100 in two of them
    found, event, asked = find(falls)
    assert found == [tuple(sorted(asked[index])) for index in (2, 5)]
    assert event is not None
    assert (event.note, event.n_found) == ("triples: add 2", 2)
    assert (event.best_score, event.noise_floor) == (1.0, pytest.approx(0.2))


def test_falls_that_rises_cancel_are_no_falls() -> None:
    """One candidate has the whole fall; the others are as often below zero as above."""
    found, _, asked = find([50.0, 9.0, -9.0, 8.0, -8.0, 7.0, -7.0, 6.0, -6.0, 0.0])
    assert found == [tuple(sorted(asked[0]))]


def test_a_fall_must_be_clearly_larger_than_any_rise() -> None:
    """A candidate that lowers the loss by what another one raises it may be as useless."""
    found, _, asked = find([50.0, 21.0, 19.0, -10.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    assert found == [tuple(sorted(asked[index])) for index in (0, 1)]


def test_given_candidates_are_judged_by_themselves() -> None:
    problem, solver = five_features(), KnownVerdict(Verdict(np.ones(1), -1.0, 0.1))
    search = JudgedSearch(InteractionRules(), solver, Limits(), most=10)
    found, event = search.find(problem, drawn(problem), [(1, 2, 4)])
    assert (found, [tuple(sorted(triple)) for triple in solver.asked]) == 2 * ([(1, 2, 4)],)
    assert event is not None
    assert event.note == "triples above the noise: add 1"
    assert search.find(problem, drawn(problem), []) == ([], None)


def test_candidates_that_gain_nothing_are_never_added() -> None:
    found, _, asked = find([12.0, -1.0, -1.0, 0.0, -5.0, -1.0, 0.0, 0.0, 0.0, -2.0])
    assert found == [tuple(sorted(asked[0]))]
    found, event, _ = find([-1.0])
    assert found == []
    assert event is not None
    assert event.note == "triples: not confirmed"


@pytest.mark.parametrize(("change", "is_confirmed"), [(-0.21, True), (-0.19, False), (0.5, False)])
def test_the_fall_must_exceed_some_standard_errors(change: float, is_confirmed: bool) -> None:
    found, event, _ = find([1.0], change=change)
    assert bool(found) == is_confirmed
    assert event is not None
    assert (event.note == "triples: not confirmed") == (not is_confirmed)


def test_the_history_says_what_did_not_fit_into_memory() -> None:
    found, event, asked = find([1.0], most=3)
    assert found == [tuple(sorted(triple)) for triple in asked[:3]]
    assert event is not None
    assert (event.note, event.n_found) == ("triples: add 3 of 10", 10)
    found, event, asked = find([1.0], most=0)
    assert (found, asked) == ([], [])
    assert event is not None
    assert event.note == "triples: not searched, the memory holds none"


def test_a_verdict_that_the_time_limit_cut_short_confirms_nothing() -> None:
    found, event, _ = find([1.0], change=-100.0, limits=Limits(deadline=time.monotonic()))
    assert found == []
    assert event is not None
    assert "time limit" in event.note


@pytest.mark.parametrize(
    ("rules", "permitted"),
    [
        (
            InteractionRules(forbidden=((1, 3),)),
            [triple for triple in ALL_OF_FIVE if not {1, 3} <= set(triple)],
        ),
        (InteractionRules(groups=((0, 1, 2), (2, 3, 4))), [(0, 1, 2), (2, 3, 4)]),
        (InteractionRules(groups=((0, 1), (2, 3))), []),
    ],
)
def test_only_permitted_triples_are_candidates(rules: InteractionRules, permitted: Any) -> None:
    found, _, asked = find([1.0], rules=rules)
    assert sorted(tuple(sorted(triple)) for triple in asked) == permitted
    assert sorted(found) == permitted


@pytest.mark.parametrize("most", [1, 3, 4, 10, 50])
def test_many_features_give_no_more_candidates_than_are_affordable(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judged, "MOST_CANDIDATES", most)
    *_, asked = find([1.0], n_features=9)
    n_features = len({feature for triple in asked for feature in triple})
    assert len(asked) == math.comb(n_features, 3) <= most < math.comb(n_features + 1, 3)
    monkeypatch.setattr(judged, "MOST_CANDIDATES", 10**6)
    monkeypatch.setattr(judged, "MOST_CANDIDATE_ROWS", 60 * most)  # of the sixty rows
    *_, again = find([1.0], n_features=9)
    assert again == asked


# Whole fits


def surface(name: str, seed: int, n_rows: int = 500) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X, noise = rng.uniform(-1, 1, (n_rows, 5)), rng.normal(size=n_rows)
    signals = {
        "noise": noise,
        "main effects": 3 * np.abs(X[:, 0]) + np.sin(4 * X[:, 1]) + 0.5 * noise,
        "pairs": X[:, 0] + 4 * X[:, 1] * X[:, 2] + 2 * (X[:, 0] > 0) * (X[:, 3] > 0) + 0.3 * noise,
        "triple": X[:, 0] + 6 * X[:, 1] * X[:, 2] * X[:, 3] + 0.3 * noise,
    }
    return X, signals[name]


def triples_of(model: Any) -> list[tuple[str, ...]]:
    return [component for component in model.components_ if len(component) == 3]


def verdicts(model: Any) -> list[dict[str, Any]]:
    return [record for record in model.history_ if record["note"].startswith("triples: ")]


@pytest.mark.parametrize("seed", range(4))
def test_a_planted_triple_is_found(seed: int) -> None:
    X, y = surface("triple", seed)
    model = TPNNRegressor(**SEARCHED, random_state=seed).fit(X, y)
    pairs = TPNNRegressor(order=2, **SMALL, random_state=seed).fit(X, y)
    assert ("x1", "x2", "x3") in triples_of(model)
    assert len(triples_of(model)) <= 3
    rows, truth = surface("triple", seed + 100)
    errors = [np.mean((fit.predict(rows) - truth) ** 2) for fit in (model, pairs)]
    assert errors[0] < 0.7 * errors[1]


@pytest.mark.slow
@pytest.mark.parametrize("order", ["auto", 3])
@pytest.mark.parametrize(("n_rows", "n_features"), [(1000, 12), (1500, 20), (1500, 33)])
def test_one_triple_is_found_among_many_features(
    n_rows: int, n_features: int, order: int | str
) -> None:
    """Hundreds of useless triples that grow at once would drown it, and come along with it.

    Deep trees may leave a trace of another one.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features))
    y = 2 * X[:, 1] * X[:, 2] * X[:, 3] + X[:, 4] + 0.5 * rng.normal(size=n_rows)
    model = TPNNRegressor(order=order, random_state=0, verbose=0, n_bags=4).fit(X, y)
    sizes = dict(zip(model.components_, map(np.std, model.model_.tables), strict=True))
    found = sorted(triples_of(model), key=lambda s: -sizes[s])
    assert found[0] == ("x1", "x2", "x3")
    assert len(found) == 1 or (order == "auto" and sizes[found[1]] < 0.1 * sizes[found[0]])


@pytest.mark.parametrize("name", ["noise", "main effects", "pairs"])
@pytest.mark.parametrize("seed", range(4))
def test_without_triples_the_model_is_that_of_order_two(
    name: str, seed: int, tmp_path: Path
) -> None:
    """Bit for bit, in memory and as a file, although candidates were tried."""
    X, y = surface(name, seed)
    triples = TPNNRegressor(**SEARCHED, random_state=seed).fit(X, y)
    pairs = TPNNRegressor(order=2, **SMALL, random_state=seed).fit(X, y)
    assert [record["note"] for record in verdicts(triples)] == ["triples: not confirmed"]
    assert triples.components_ == pairs.components_
    np.testing.assert_array_equal(triples.predict(X), pairs.predict(X))
    for model, file in ((triples, "triples"), (pairs, "pairs")):
        replace(model.model_, provenance=None).save(tmp_path / file)
    assert (tmp_path / "triples").read_bytes() == (tmp_path / "pairs").read_bytes()


def test_noise_in_classes_gives_no_triple() -> None:
    for seed in range(4):
        X, y = surface("noise", seed, n_rows=300)
        assert not triples_of(TPNNClassifier(**SEARCHED, random_state=seed).fit(X, y > 0))


def test_a_parity_of_levels_is_found_in_classes() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, (800, 4))
    X = pd.DataFrame(np.array(list("badc"))[codes], columns=list("uvwz"))
    label = np.where((codes[:, :3] % 2).sum(1) % 2, "odd", "even")
    label = np.where(rng.random(800) < 0.05, "odd", label)
    model = TPNNClassifier(**SMALL, random_state=0).fit(X[:600], label[:600])
    assert ("u", "v", "w") in triples_of(model)
    assert model.score(X[600:], label[600:]) > 0.85


@pytest.mark.parametrize(
    ("interactions", "expected"),
    [
        ({"forbidden": [(1, 2)]}, []),
        ({"groups": [(1, 2, 3)]}, [("x1", "x2", "x3")]),
        ({"groups": [(0, 1, 2), (2, 3, 4)]}, []),
    ],
)
def test_rules_hold_for_triples_that_are_found(interactions: Any, expected: Any) -> None:
    X, y = surface("triple", 0)
    model = TPNNRegressor(**SEARCHED, random_state=0, interactions=interactions).fit(X, y)
    assert triples_of(model) == expected


def test_found_triples_leave_a_required_one_as_good_as_it_was() -> None:
    """What a required triple has learned before the search stays in the model."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (800, 5))
    y = 6 * X[:, 0] * X[:, 1] * X[:, 4] + 6 * X[:, 1] * X[:, 2] * X[:, 3]
    y += 0.3 * rng.normal(size=800)
    settings = {**SEARCHED, "random_state": 0}
    free = TPNNRegressor(**settings).fit(X[:500], y[:500])
    asked = TPNNRegressor(**settings, interactions={"required": [(0, 1, 4)]}).fit(X[:500], y[:500])
    for model in (free, asked):
        assert {("x0", "x1", "x4"), ("x1", "x2", "x3")} <= set(triples_of(model))
    errors = [np.mean((model.predict(X[500:]) - y[500:]) ** 2) for model in (free, asked)]
    assert errors[1] < 1.2 * errors[0]


def test_no_more_triples_than_the_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A share of the free memory is for triples that a search finds: here none, one, and all."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (500, 5))
    y = 6 * X[:, 0] * X[:, 1] * X[:, 4] + 6 * X[:, 1] * X[:, 2] * X[:, 3]
    settings = {**SEARCHED, "random_state": 0}
    one_triple, free = 40.0 * 4 * 6**3, 1e9  # bytes, in four bags
    monkeypatch.setattr("tpnn.estimators.pipeline.available_memory", lambda: free)
    for count in (0, 1, 2):
        share = (count + 0.5) * one_triple / free
        monkeypatch.setattr("tpnn.estimators.pipeline.TRIPLE_MEMORY_SHARE", share)
        model = TPNNRegressor(**settings).fit(X, y)
        assert len(triples_of(model)) == count
        assert [record["note"] for record in verdicts(model)] == [
            [
                "triples: not searched, the memory holds none",
                "triples: add 1 of 2",
                "triples: add 2",
            ][count]
        ]
    free = 10 * one_triple
    with pytest.raises(MemoryError, match=r"^interactions: the components of 5 features up to or"):
        TPNNRegressor(**settings, interactions="all").fit(X, y)
