"""Evidence: the posterior of a linear model, against dense algebra and simulated variances."""

from __future__ import annotations

import numpy as np
import pytest

from tpnn.uncertainty.design import Span
from tpnn.uncertainty.equations import Blocks, ByFunctions, variances, widened


def span(order: int, variances: list[float]) -> Span:
    factor = np.zeros((2, len(variances)))
    return Span((factor,) * order, np.array(variances), (np.ones(2),) * order)


def linear_model(taus: list[float], size: int, n_rows: int) -> tuple[np.ndarray, ...]:
    """Gram matrix, right-hand side and true coefficients of blocks with these variances."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, size * len(taus)))
    beta = rng.normal(size=X.shape[1]) * np.repeat(np.sqrt(taus), size)
    z = X @ beta + rng.normal(size=n_rows)
    return X.T @ X, X.T @ z, beta


def test_blocks_are_low_and_high_functions_of_each_component() -> None:
    blocks = Blocks.of([span(1, [1.0, 0.5, 0.01]), span(2, [1.0]), span(2, [0.02, 1.0])])
    assert [place.tolist() for place in blocks.places] == [[0, 1], [2], [3], [5], [4]]
    assert blocks.orders.tolist() == [1, 1, 2, 2, 2]
    assert blocks.kinds[2] == blocks.kinds[3] != blocks.kinds[4]
    assert blocks.sums(np.arange(6.0)).tolist() == [1.0, 2.0, 3.0, 5.0, 4.0]
    assert blocks.repeated(np.arange(5.0)).tolist() == [0.0, 0.0, 1.0, 2.0, 4.0, 3.0]
    assert blocks.lows.tolist() == [0, 0, 2, 3, 3]
    found = blocks.suggested(np.array([1.0, 1.0, 2.0, 8.0, 5.0]))
    assert found == pytest.approx([1.0, 1.0, 4.0, 4.0, 5.0 * 8.0 / 4.0])


def test_rough_functions_of_a_component_that_is_there_may_be_there_too() -> None:
    """Of twenty pairs one has an effect; its rough functions, hardly seen, are not taken for zero.

    Smooth functions are seen with information 100, rough ones with 1. The variance of the rough
    ones of the pair with an effect is to be that of its smooth ones, within a factor of six; pulled
    to the pairs without effect it would be thirty times smaller.
    """
    n_pairs, size, rng = 20, 5, np.random.default_rng(0)
    spans = [span(2, [1.0] * size + [0.01] * size)] * n_pairs
    information = np.tile(np.repeat([100.0, 1.0], size), n_pairs)
    beta = np.zeros(len(information))
    beta[: 2 * size] = 1.0
    right = information * beta + np.sqrt(information) * rng.normal(size=len(beta))
    tau = variances(ByFunctions(np.diag(information), right), Blocks.of(spans))
    assert tau[1] > 1 / 6
    assert tau[3::2].max() < 1 / 6


@pytest.mark.parametrize("order", [1, 2, 3])
def test_variances_are_found(order: int) -> None:
    """Blocks of 60 coefficients tell their variance to about a sixth; zero stays near zero."""
    taus = [1.0, 0.01, 0.0]
    gram, right, beta = linear_model(taus, 60, 2000)
    equations, blocks = ByFunctions(gram, right), Blocks.of([span(order, [1.0] * 60)] * 3)
    tau = variances(equations, blocks)
    assert tau[:2] == pytest.approx(taus[:2], rel=0.6)
    assert tau[2] < 0.001
    wider = widened(equations, blocks, tau)
    assert (wider > tau).all() == (order > 1)
    found = equations.solved(blocks.repeated(1 / wider))
    inside = np.abs(found.mean - beta) <= 1.96 * np.sqrt(found.covariance.variances)
    assert 0.88 <= inside[:120].mean() <= 0.99
    assert variances(equations, blocks, start=tau)[:2] == pytest.approx(tau[:2], rel=0.05)


def test_variances_of_huge_coefficients_are_numbers() -> None:
    """As those of rows with extreme offsets, to which no curvature is left."""
    blocks = Blocks.of([span(1, [1.0] * 2)])
    tau = variances(ByFunctions(np.eye(2), np.array([1e200, -1e200])), blocks)
    assert np.isfinite(tau).all()
    assert (tau > 1e100).all()
