"""Screening: closed forms against brute force, the noise floor, NID."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from tpnn.anova.measure import Marginal, centre
from tpnn.search.screen import (
    FEWEST_FLIPS,
    Ranking,
    ResidualScreen,
    affordable_features,
    principal_bases,
)
from tpnn.table.axis import Axis
from tpnn.table.encoder import TableEncoder
from tpnn.table.frame import Table


def coded(X: np.ndarray, n_nodes: int = 16) -> tuple[np.ndarray, Marginal, tuple[Axis, ...]]:
    table = Table(X)
    encoder = TableEncoder.fit(table, {1: n_nodes})
    axes = encoder.axes[1]
    marginal = Marginal.stack([axis.positions for axis in axes], [axis.weights for axis in axes])
    return encoder.codes(table, 1, np.arange(len(X))), marginal, axes


@pytest.fixture(scope="module")
def dependent() -> tuple[np.ndarray, np.ndarray]:
    """Five features, some of them dependent or discrete, and a residual with one pair in it."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(600, 5))
    X[:, 1] += X[:, 0]
    X[:, 2] = X[:, 2] > 0.3
    X[:, 3] = X[:, 3].round()
    return X, (X[:, 0] * X[:, 4] + rng.normal(size=600))[:, None]


def test_bases_are_orthonormal_and_centred(dependent: Any) -> None:
    _, marginal, axes = coded(dependent[0])
    for bases, axis in zip(principal_bases(marginal, 4), axes, strict=True):
        psi = bases[: axis.n_nodes].astype(float)
        rank = min(4, axis.n_nodes - 1)
        gram = psi.T @ (axis.weights[:, None] * psi)
        np.testing.assert_allclose(gram, np.diag(np.arange(4) < rank), atol=1e-5)
        np.testing.assert_allclose(axis.weights @ psi, 0, atol=1e-6)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_scores_are_projections_of_the_histogram(dependent: Any, order: int) -> None:
    X, residual = dependent
    codes, marginal, _ = coded(X)
    ranking = ResidualScreen(codes, marginal, residual, seed=0).rank(order, 100)
    bases = principal_bases(marginal, 2 if order == 3 else 4).astype(float)
    assert sorted(ranking.components) == list(combinations(range(5), order))
    assert ranking.n_candidates == len(ranking.components)
    for component, score in zip(ranking.components, ranking.scores, strict=True):
        cells = tuple(codes[feature] for feature in component)
        squares, histogram = (np.zeros([marginal.n_nodes] * order) for _ in range(2))
        np.add.at(histogram, cells, residual[:, 0])
        np.add.at(squares, cells, residual[:, 0] ** 2)
        for feature in component:
            histogram = np.tensordot(histogram, bases[feature], axes=(0, 0))
            squares = np.tensordot(squares, bases[feature] ** 2, axes=(0, 0))
        assert score == pytest.approx((histogram**2).sum() / squares.sum(), rel=1e-3)


def test_a_full_basis_gives_the_norm_of_the_pure_part() -> None:
    """With as many functions as nodes allow, c'c is the squared norm of the centred table."""
    rng = np.random.default_rng(0)
    a, b = (axis.ravel() for axis in np.meshgrid(np.arange(3.0), np.arange(4.0), indexing="ij"))
    f = rng.normal(size=12)
    codes, marginal, axes = coded(np.column_stack([a, b]))
    screen = ResidualScreen(codes, marginal, f[:, None], seed=0)
    (score,) = screen.rank(2, 1).scores
    pure = centre(f.reshape(3, 4), [axis.weights for axis in axes])
    bases = principal_bases(marginal, 4).astype(float)
    noise = (f**2 * (bases[0] ** 2).sum(1)[codes[0]] * (bases[1] ** 2).sum(1)[codes[1]]).sum()
    assert score * noise / 12**2 == pytest.approx((pure**2).mean(), rel=1e-4)


def test_noise_stays_below_the_floor_about_as_often_as_it_should() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 12))
    X[:, 6:] = X[:, :6] + 0.3 * X[:, 6:]
    codes, marginal, _ = coded(X)
    rankings = [
        ResidualScreen(codes, marginal, rng.normal(size=(400, 1)), seed).rank(2, 5)
        for seed in range(60)
    ]
    false = np.mean([len(ranking.found) > 0 for ranking in rankings])
    assert abs(false - 1 / (1 + FEWEST_FLIPS)) < 3 * np.sqrt(0.16 / 60)


def test_blocks_change_nothing(dependent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, residual = dependent
    codes, marginal, _ = coded(X)
    whole = [ResidualScreen(codes, marginal, residual, 0).rank(order, 4) for order in (2, 3, 4)]
    monkeypatch.setattr("tpnn.search.screen.BLOCK_COLUMNS", 1)
    monkeypatch.setattr("tpnn.search.screen.BLOCK_ROWS", 100)
    for order, expected in zip((2, 3, 4), whole, strict=True):
        ranking = ResidualScreen(codes, marginal, residual, 0).rank(order, 4)
        assert list(ranking.components) == list(expected.components)
        np.testing.assert_allclose(ranking.scores, expected.scores, rtol=1e-4)
        assert ranking.floor == pytest.approx(expected.floor, rel=1e-4)


def test_some_features_only(dependent: Any) -> None:
    X, residual = dependent
    codes, marginal, _ = coded(X)
    screen = ResidualScreen(codes, marginal, residual, 0)
    every = dict(zip(screen.rank(2, 10).components, screen.rank(2, 10).scores, strict=True))
    some = screen.rank(2, 10, features=[4, 0, 2])
    assert set(some.components) == {(0, 2), (0, 4), (2, 4)}
    assert some.components[0] == (0, 4)
    for component, score in zip(some.components, some.scores, strict=True):
        assert score == pytest.approx(every[component], rel=1e-5)


def test_outputs_share_a_score(dependent: Any) -> None:
    X, residual = dependent
    codes, marginal, _ = coded(X)
    once = ResidualScreen(codes, marginal, residual, 0).rank(2, 10)
    noise = np.zeros_like(residual)
    twice = ResidualScreen(codes, marginal, np.hstack([residual, residual]), 0).rank(2, 10)
    with_zero = ResidualScreen(codes, marginal, np.hstack([noise, residual]), 0).rank(2, 10)
    for other in (twice, with_zero):
        assert other.components == once.components
        np.testing.assert_allclose(other.scores, once.scores, rtol=1e-5)
        assert other.floor == pytest.approx(once.floor, rel=1e-5)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_torch_gives_the_same_scores(dependent: Any, order: int) -> None:
    card = pytest.importorskip("tpnn.search.screen_cuda", reason="torch is not installed")
    X, residual = dependent
    codes, marginal, _ = coded(X)
    expected = ResidualScreen(codes, marginal, residual, 0).rank(order, 10)
    screen = ResidualScreen(codes, marginal, residual, 0)
    screen.block_scores = card.CardScorer(codes, screen.residuals, "cpu").block_scores
    ranking = screen.rank(order, 10)
    assert ranking.components == expected.components
    np.testing.assert_allclose(ranking.scores, expected.scores, rtol=1e-4)
    assert ranking.floor == pytest.approx(expected.floor, rel=1e-4)


def test_a_constant_residual_finds_nothing() -> None:
    codes, marginal, _ = coded(np.random.default_rng(0).normal(size=(50, 3)))
    assert not ResidualScreen(codes, marginal, np.zeros((50, 1)), 0).rank(2, 3).found


def test_budget_of_features() -> None:
    assert affordable_features(3, 20_000) >= 200
    assert affordable_features(3, 960_000) < affordable_features(3, 20_000)
    assert affordable_features(4, 10**15) == 4


def test_strengths_of_a_network_by_hand() -> None:
    nid = pytest.importorskip("tpnn.search.nid", reason="torch is not installed")
    first, last = np.array([[1.0, -3.0, 0.0], [0.5, 0.0, -2.0]]), np.array([[2.0, -4.0]])
    strengths = nid.pair_strengths([first, last])
    assert strengths[0, 1] == 2 * 1.0
    assert strengths[0, 2] == 4 * 0.5
    assert strengths[1, 2] == 0


def test_network_finds_a_pair_and_repeats_itself() -> None:
    nid = pytest.importorskip("tpnn.search.nid", reason="torch is not installed")
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1500, 5))
    rankings: list[Ranking] = [
        nid.rank_pairs(X, X[:, 1:2] * X[:, 3:4], most=3, seed=0) for _ in range(2)
    ]
    assert rankings[0].components[0] == (1, 3)
    assert rankings[0].components == rankings[1].components
    np.testing.assert_array_equal(rankings[0].scores, rankings[1].scores)


def test_network_is_not_trained_beyond_the_deadline() -> None:
    nid = pytest.importorskip("tpnn.search.nid", reason="torch is not installed")
    X = np.random.default_rng(0).uniform(-1, 1, (300, 3))
    untrained = [nid.fit_network(X, X[:, j : j + 1], seed=0, deadline=0.0) for j in (0, 1)]
    for one, other in zip(*untrained, strict=True):
        np.testing.assert_array_equal(one, other)
