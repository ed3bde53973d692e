"""Screening: closed forms against brute force, the noise floor."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from tests.solvers.problem.test_problem import problem_of
from tpnn.anova.measure import Marginal
from tpnn.search import screen
from tpnn.search.screen import SIGN_DRAWS, principal_bases, rank_pairs
from tpnn.solvers.problem.problem import Problem

EVERY = 10  # pairs of five features


@pytest.fixture(scope="module")
def problem() -> Problem:
    """Five features, some of them dependent or discrete; one pair matters."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(600, 5))
    X[:, 1] += X[:, 0]
    X[:, 2] = X[:, 2] > 0.3
    X[:, 3] = X[:, 3].round()
    return problem_of(X, X[:, 0] * X[:, 4] + rng.normal(size=600))


def residual_of(problem: Problem) -> np.ndarray:
    return np.asarray(problem.distinct.weights[:, None] * problem.rows.y, float)


def scores(problem: Problem, residual: np.ndarray, count: int = 4) -> dict[tuple[int, int], float]:
    """Squared projections of the residual, divided by their variance, cell by cell."""
    codes, axes = problem.codes.by_order[1], problem.encoder.axes[1]
    bases = principal_bases(Marginal.of(axes), count).astype(float)
    found = {}
    for pair in combinations(range(5), 2):
        one, other = (bases[j][codes[j]] for j in pair)  # (n, D)
        products = one[:, :, None] * other[:, None]
        projections = np.tensordot(residual, products, (0, 0))
        variance = ((residual**2).sum(1)[:, None, None] * products**2).sum()
        found[pair] = float((projections**2).sum() / variance)
    return found


def test_bases_are_orthonormal_and_centred(problem: Problem) -> None:
    axes = problem.encoder.axes[1]
    for bases, axis in zip(principal_bases(Marginal.of(axes), 4), axes, strict=True):
        psi = bases[: axis.n_nodes].astype(float)
        rank = min(4, axis.n_nodes - 1)
        gram = psi.T @ (axis.weights[:, None] * psi)
        np.testing.assert_allclose(gram, np.diag(np.arange(4) < rank), atol=1e-5)
        np.testing.assert_allclose(axis.weights @ psi, 0, atol=1e-6)


@pytest.mark.parametrize("products", [1e11, 600 * 5 * 9.0**2])
def test_pairs_are_ranked_by_their_projections(
    problem: Problem, products: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "MOST_PRODUCTS", products)
    residual = residual_of(problem)
    expected = scores(problem, residual, 4 if products > 1e6 else 1)
    ranking = rank_pairs(problem, residual, list(range(5)), 2)
    assert ranking.pairs == sorted(expected, key=lambda s: -expected[s])
    assert ranking.pairs[0] == (0, 4)
    assert 1 <= ranking.n_above < EVERY


@pytest.mark.parametrize("n_threads", [1, 3])
def test_blocks_and_threads_change_nothing(
    problem: Problem, n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    residual = residual_of(problem)
    whole = rank_pairs(problem, residual, list(range(5)), 2)
    monkeypatch.setattr(screen, "ROWS_PER_BLOCK", 100)
    assert rank_pairs(problem, residual, list(range(5)), n_threads) == whole


def test_noise_stays_below_the_floor_about_as_often_as_it_should() -> None:
    """The residual is one of five draws that are alike."""
    rng, n_false, n_tables = np.random.default_rng(1), 0, 60
    X = rng.normal(size=(400, 8))
    X[:, 4:] = X[:, :4] + 0.3 * X[:, 4:]
    problem = problem_of(X, rng.normal(size=400))
    for _ in range(n_tables):
        noise = rng.normal(size=(len(problem.rows.y), 1))
        problem = replace(problem, bagging=replace(problem.bagging, seed=problem.seed + 1))
        n_false += rank_pairs(problem, noise, list(range(8)), 1).n_above > 0
    share = 1 / (1 + SIGN_DRAWS)
    assert abs(n_false / n_tables - share) < 4 * np.sqrt(share * (1 - share) / n_tables)


def test_some_features_only(problem: Problem) -> None:
    residual = residual_of(problem)
    every = rank_pairs(problem, residual, list(range(5)), 1).pairs
    some = rank_pairs(problem, residual, [4, 0, 2], 1).pairs
    assert some == [pair for pair in every if set(pair) <= {0, 2, 4}]
    assert rank_pairs(problem, residual, [3], 1) == ([], 0)


def test_the_first_features_are_seen_where_there_are_too_many(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "MOST_COLUMNS", 3)
    pairs = rank_pairs(problem, residual_of(problem), [4, 1, 0, 2, 3], 1).pairs
    assert {j for pair in pairs for j in pair} == {0, 1, 4}


def test_outputs_share_a_score(problem: Problem) -> None:
    residual = residual_of(problem)
    once = rank_pairs(problem, residual, list(range(5)), 1)
    nothing: Any = np.zeros_like(residual)
    for several in ([residual, residual], [nothing, residual]):
        assert rank_pairs(problem, np.hstack(several), list(range(5)), 1) == once


def test_a_constant_residual_finds_nothing(problem: Problem) -> None:
    nothing = np.zeros((len(problem.rows.y), 1))
    assert rank_pairs(problem, nothing, list(range(5)), 1).n_above == 0
