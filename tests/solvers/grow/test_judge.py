"""The judge of triples: what held-out rows say about candidates that grow beside a control."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from tests.solvers.problem.test_problem import problem_of
from tpnn import ComponentSet, Grow
from tpnn.solvers.grow import judge
from tpnn.solvers.grow.deep import DeepBag, DeepGrowth, raw_scores
from tpnn.solvers.grow.judge import Judge, subsets
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Limits, NoProgress, Solution, Verdict

TRIPLES = list(combinations(range(4), 3))
PAIRS = list(combinations(range(4), 2))


def uniform(seed: int = 0, n_rows: int = 600) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, (n_rows, 4)), 0.2 * rng.normal(size=n_rows)


def solved(problem: Problem, order: int) -> tuple[Problem, Solution]:
    whole = problem.with_components(ComponentSet.up_to(4, order))
    return whole, Grow(max_rounds=60).solve(whole, Limits(n_threads=2), NoProgress())


def judged(problem: Problem, solution: Solution, n_threads: int = 2) -> Verdict:
    return Grow().judge(problem, solution, TRIPLES, Limits(n_threads=n_threads))


def test_growth_confirms_the_planted_triple() -> None:
    X, noise = uniform()
    problem, solution = solved(problem_of(X, 4 * X[:, 0] * X[:, 1] * X[:, 3] + noise), 2)
    verdict = judged(problem, solution)
    assert verdict.change < -2 * verdict.error
    assert np.argmax(verdict.falls) == TRIPLES.index((0, 1, 3))
    assert verdict.falls.max() > 0.8 * verdict.falls.clip(0).sum()


def test_what_pairs_mend_too_is_no_triple() -> None:
    """A solution without pairs leaves a product behind; triples fit it, but so do pairs."""
    X, noise = uniform(1)
    problem, solution = solved(problem_of(X, 4 * X[:, 0] * X[:, 1] + noise), 1)
    verdict = judged(problem, solution)
    assert verdict.falls.clip(0).sum() > 0.05  # most of the variance of the product
    assert verdict.change > -2 * verdict.error


def test_growth_confirms_the_planted_pair() -> None:
    X, noise = uniform()
    problem, solution = solved(problem_of(X, 4 * X[:, 0] * X[:, 3] + X[:, 1] + noise), 1)
    verdict = Grow().judge(problem, solution, PAIRS, Limits(n_threads=2))
    assert verdict.change < -2 * verdict.error
    assert np.argmax(verdict.falls) == PAIRS.index((0, 3))


def test_what_main_effects_mend_too_is_no_pair() -> None:
    """A solution of a few steps leaves a main effect behind; pairs fit it, but so do others."""
    X, noise = uniform(1)
    problem = problem_of(X, 3 * np.sin(4 * X[:, 0]) + noise)
    solution = Grow(growth="none").solve(problem, Limits(n_threads=2), NoProgress())
    verdict = Grow().judge(problem, solution, PAIRS, Limits(n_threads=2))
    assert verdict.change > -2 * verdict.error


@pytest.mark.parametrize("seed", range(3))
def test_noise_confirms_nothing(seed: int) -> None:
    X, noise = uniform(seed)
    problem, solution = solved(problem_of(X, noise), 2)
    verdict = judged(problem, solution)
    assert verdict.change >= -2 * verdict.error


def test_threads_and_repetition_change_nothing() -> None:
    X, noise = uniform()
    problem, solution = solved(problem_of(X, X[:, 0] * X[:, 1] * X[:, 2] + noise, n_bags=3), 2)
    first, *others = (judged(problem, solution, n) for n in (2, 1, 2))
    for other in others:
        np.testing.assert_array_equal(first.falls, other.falls)
        assert (first.change, first.error) == (other.change, other.error)


def make_judge(problem: Problem, solution: Solution, max_rounds: int = 60) -> Judge:
    solver = Grow(max_rounds=max_rounds)
    growth = solver._deep(problem, None, Limits(n_threads=1), NoProgress())
    return Judge(growth, solution, TRIPLES)


def test_falls_are_those_of_trees_that_ask_about_all_features_of_a_candidate() -> None:
    X, noise = uniform(2)
    problem, solution = solved(problem_of(X, 3 * X[:, 0] * X[:, 1] * X[:, 2] + noise), 2)
    court = make_judge(problem, solution)
    start = problem.raw_scores_by_bag(solution)
    bags = court.growth.within(TRIPLES, start).grow()
    expected = np.zeros(len(TRIPLES))
    for number, bag in enumerate(bags):
        own = problem.rows.validation[:, number].astype(float)
        losses = []
        for n_trees in range(len(bag.trees) + 1):
            part = replace(bag, trees=bag.trees[:n_trees])
            raw = start[number] + raw_scores(problem, part, slice(None), 3)
            losses.append(float(own @ (0.5 * (problem.rows.y - raw) ** 2)[:, 0]))
        for asked, fall in zip(bag.asked, -np.diff(losses), strict=True):
            if len(asked) == 3:
                expected[TRIPLES.index(tuple(sorted(asked)))] += fall / len(bags)
    assert court.verdict().falls == pytest.approx(expected, abs=1e-6)
    assert expected.max() > 0.1


def test_change_and_error_are_those_of_the_rows() -> None:
    """Against growth bag by bag: mean difference of the losses, and its standard error by row."""
    X, noise = uniform(3)
    problem, solution = solved(problem_of(X, 3 * X[:, 0] * X[:, 1] * X[:, 2] + noise), 2)
    court = make_judge(problem, solution)
    verdict, start = court.verdict(), problem.raw_scores_by_bag(solution)
    grown = [(court.growth.within(s, start).grow(), len(s[0])) for s in (TRIPLES, PAIRS)]
    by_row, weight_of_row = np.zeros(len(X)), np.zeros(len(X))
    for bag in range(problem.n_bags):
        rows = np.flatnonzero(problem.rows.validation[:, bag])
        losses = []
        for bags, order in grown:
            raw = start[bag][rows] + raw_scores(problem, bags[bag], rows, order)
            losses.append(0.5 * (problem.rows.y[rows, 0] - raw[:, 0]) ** 2)
        weights = problem.rows.validation[rows, bag]
        by_row[rows] += weights * (losses[0] - losses[1]) / problem.n_bags
        weight_of_row[rows] += weights / problem.n_bags
    assert verdict.change == pytest.approx(by_row.sum(), rel=1e-6)
    spread = by_row - weight_of_row * by_row.sum()
    assert verdict.error == pytest.approx(np.sqrt((spread**2).sum()), rel=1e-6)


@pytest.mark.parametrize(
    ("needed", "n_bags", "expected"),
    [(100, 32, 8), (8, 32, 8), (4, 32, 4), (3, 8, 3), (1, 8, 2), (1, 1, 1), (100, 3, 3)],
)
def test_few_held_out_rows_need_more_bags(
    needed: int, n_bags: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many bags as have enough held-out rows together, from two to eight."""
    X, noise = uniform(0, n_rows=60)
    problem = problem_of(X, noise, n_bags=n_bags)
    own = np.count_nonzero(problem.rows.validation[:, 0])
    monkeypatch.setattr(judge, "ENOUGH_HELD_OUT_ROWS", needed * own - 1)
    asked: list[int] = []
    grow_bag = DeepGrowth._grow_bag

    def spy(growth: DeepGrowth, bag: int) -> DeepBag:
        asked.append(bag)
        return grow_bag(growth, bag)

    monkeypatch.setattr(DeepGrowth, "_grow_bag", spy)
    solution = Grow(growth="none").solve(problem, Limits(n_threads=1), NoProgress())
    make_judge(problem, solution, max_rounds=1).verdict()
    assert sorted(asked) == sorted(2 * list(range(expected)))  # candidates and control


def test_the_control_has_every_pair_of_the_candidates() -> None:
    problem = problem_of(*uniform(0, n_rows=60))
    pairs = {tuple(sorted(pair)) for pair in subsets([(0, 1, 2), (1, 2, 3)], problem)}
    assert pairs == {(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)}
