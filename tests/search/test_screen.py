"""Screening: closed forms against brute force, the noise floor."""

from __future__ import annotations

from itertools import combinations, compress
from typing import Any

import numpy as np
import pytest

from tpnn.anova.measure import Marginal, centre
from tpnn.search.screen import FEWEST_SIGN_DRAWS, Screen, affordable_features, principal_bases
from tpnn.solvers.solution import Limits
from tpnn.table.axis import Axis
from tpnn.table.codes import code_rows
from tpnn.table.encoder import TableEncoder
from tpnn.table.table import Table


def coded(X: np.ndarray, n_nodes: int = 16) -> tuple[np.ndarray, Marginal, tuple[Axis, ...]]:
    table = Table(X)
    encoder = TableEncoder.fit(table, {1: n_nodes})
    axes = encoder.axes[1]
    marginal = Marginal.stack([axis.positions for axis in axes], [axis.weights for axis in axes])
    return code_rows(table, encoder, np.arange(len(X)))[1], marginal, axes


def screen_of(codes: np.ndarray, marginal: Marginal, residual: np.ndarray, seed: int = 0) -> Screen:
    return Screen(codes, marginal, residual, seed, Limits())


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
    ranking = screen_of(codes, marginal, residual).rank(order, 100)
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
    screen = screen_of(codes, marginal, f[:, None])
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
        screen_of(codes, marginal, rng.normal(size=(400, 1)), seed).rank(2, 5) for seed in range(60)
    ]
    false = np.mean([len(ranking.found) > 0 for ranking in rankings])
    assert abs(false - 1 / (1 + FEWEST_SIGN_DRAWS)) < 3 * np.sqrt(0.16 / 60)


def test_blocks_change_nothing(dependent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, residual = dependent
    codes, marginal, _ = coded(X)
    whole = [screen_of(codes, marginal, residual).rank(order, 4) for order in (2, 3, 4)]
    monkeypatch.setattr("tpnn.search.screen.BLOCK_COLUMNS", 1)
    monkeypatch.setattr("tpnn.search.screen.BLOCK_ROWS", 100)
    for order, expected in zip((2, 3, 4), whole, strict=True):
        ranking = screen_of(codes, marginal, residual).rank(order, 4)
        assert list(ranking.components) == list(expected.components)
        np.testing.assert_allclose(ranking.scores, expected.scores, rtol=1e-4)
        assert ranking.floor == pytest.approx(expected.floor, rel=1e-4)


def test_some_features_only(dependent: Any) -> None:
    X, residual = dependent
    codes, marginal, _ = coded(X)
    screen = screen_of(codes, marginal, residual)
    every = dict(zip(screen.rank(2, 10).components, screen.rank(2, 10).scores, strict=True))
    some = screen.rank(2, 10, features=[4, 0, 2])
    assert set(some.components) == {(0, 2), (0, 4), (2, 4)}
    assert some.components[0] == (0, 4)
    for component, score in zip(some.components, some.scores, strict=True):
        assert score == pytest.approx(every[component], rel=1e-5)


def test_outputs_share_a_score(dependent: Any) -> None:
    X, residual = dependent
    codes, marginal, _ = coded(X)
    once = screen_of(codes, marginal, residual).rank(2, 10)
    noise = np.zeros_like(residual)
    twice = screen_of(codes, marginal, np.hstack([residual, residual])).rank(2, 10)
    with_zero = screen_of(codes, marginal, np.hstack([noise, residual])).rank(2, 10)
    for other in (twice, with_zero):
        assert other.components == once.components
        np.testing.assert_allclose(other.scores, once.scores, rtol=1e-5)
        assert other.floor == pytest.approx(once.floor, rel=1e-5)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_torch_gives_the_same_scores(dependent: Any, order: int) -> None:
    card = pytest.importorskip("tpnn.search.screen_cuda", reason="torch is not installed")
    X, residual = dependent
    codes, marginal, _ = coded(X)
    expected = screen_of(codes, marginal, residual).rank(order, 10)
    screen = screen_of(codes, marginal, residual)
    screen.block_scores = card.CardScorer(codes, screen.residuals, "cpu").block_scores
    ranking = screen.rank(order, 10)
    assert ranking.components == expected.components
    np.testing.assert_allclose(ranking.scores, expected.scores, rtol=1e-4)
    assert ranking.floor == pytest.approx(expected.floor, rel=1e-4)


def test_a_constant_residual_finds_nothing() -> None:
    codes, marginal, _ = coded(np.random.default_rng(0).normal(size=(50, 3)))
    assert not screen_of(codes, marginal, np.zeros((50, 1))).rank(2, 3).found


def test_budget_of_features() -> None:
    assert affordable_features(3, 20_000) >= 200
    assert affordable_features(3, 960_000) < affordable_features(3, 20_000)
    assert affordable_features(4, 10**15) == 4


@pytest.mark.parametrize("order", [1, 2])
def test_a_time_limit_leaves_the_rest_of_the_candidates_unscored(
    order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 40 features in blocks of four parents, the first block is always scored."""
    monkeypatch.setattr("tpnn.search.screen.BLOCK_COLUMNS", 20)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 40))
    residual = (X[:, 1] * X[:, 3] + X[:, 30] * X[:, 31])[:, None]
    codes, marginal, _ = coded(X)
    whole = Screen(codes, marginal, residual, 0, Limits()).rank(order, 1000)
    cut = Screen(codes, marginal, residual, 0, Limits(deadline=0.0)).rank(order, 1000)
    assert not whole.is_cut
    assert cut.is_cut == (order == 2)
    assert cut.n_candidates == (40 if order == 1 else 39 + 38 + 37 + 36)
    first = [order == 1 or s[0] < 4 for s in whole.components]
    assert list(cut.components) == list(compress(whole.components, first))
    np.testing.assert_array_equal(cut.scores, whole.scores[first])
    assert 0 < cut.floor <= whole.floor
