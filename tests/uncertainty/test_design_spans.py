"""Spans: orthonormal functions that say what the prior says."""

from __future__ import annotations

import numpy as np
import pytest

from tpnn.table.axis import Axis
from tpnn.uncertainty.design import MOST_FUNCTIONS, _bases, eigenfunctions, spans

RNG = np.random.default_rng(0)
AXES = {
    "numbers": Axis(np.sort(RNG.normal(size=40)), RNG.dirichlet(np.ones(40))),
    "missing": Axis(np.arange(12.0), RNG.dirichlet(np.ones(13)), has_missing=True),
    "levels": Axis(
        np.arange(5.0), RNG.dirichlet(np.ones(5)), "nominal", tuple("abcde"), np.arange(5)
    ),
    "two": Axis(np.array([0.0, 1.0]), np.array([0.3, 0.7])),
}


@pytest.mark.parametrize("name", AXES)
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_functions_are_orthonormal_and_centred(name: str, order: int) -> None:
    axis = AXES[name]
    functions, shares = eigenfunctions(axis, order)
    gram = functions.T @ (axis.weights[:, None] * functions)
    assert gram == pytest.approx(np.eye(len(shares)), abs=1e-8)
    assert axis.weights @ functions == pytest.approx(0.0, abs=1e-8)


@pytest.mark.parametrize("name", AXES)
def test_the_prior_covariance_is_that_of_the_bases(name: str) -> None:
    axis = AXES[name]
    bases = _bases(axis, 1)
    bases = bases - axis.weights @ bases
    prior = bases @ bases.T / (axis.weights @ bases**2).sum()
    functions, shares = eigenfunctions(axis, 1)
    assert (functions * shares) @ functions.T == pytest.approx(prior, abs=0.01 * prior.max())


def test_a_constant_feature_has_no_functions() -> None:
    axis = Axis(np.array([3.0]), np.array([1.0]))
    (span,) = spans([(0,)], {1: [axis]})
    assert span.size == 0
    assert span.tables(span.coefficients(np.ones((1, 2)))) == pytest.approx(np.zeros((1, 2)))


@pytest.mark.parametrize("component", [(0,), (1, 0), (2, 0, 1)])
def test_grids_sums_and_projections(component: tuple[int, ...]) -> None:
    axes = [AXES["numbers"], AXES["missing"], AXES["levels"]]
    (span,) = spans([component], {len(component): axes})
    beta = np.random.default_rng(1).normal(size=(span.size, 2))
    grids = span.tables(beta)
    by_hand = np.zeros(grids.shape)
    for i in range(span.size):
        part = np.ones(())
        for factor in span.factors:
            part = np.multiply.outer(part, factor[:, i])
        by_hand += part[..., None] * beta[i]
    assert grids == pytest.approx(by_hand)
    assert span.coefficients(grids) == pytest.approx(beta)  # a projection
    nodes = np.indices(span.shape).reshape(len(component), -1)
    rows = span.rows([at.astype(np.uint8) for at in nodes])
    expected = span.tables(np.diag(span.deviations)).reshape(len(rows), -1)
    assert rows == pytest.approx(expected, abs=1e-5)


def test_many_levels_keep_the_most_frequent_ones() -> None:
    masses = np.arange(1.0, 401.0)
    levels = tuple(map(str, range(400)))
    axis = Axis(np.arange(400.0), masses / masses.sum(), "nominal", levels, np.arange(400))
    (span,) = spans([(0,)], {1: [axis]})
    assert span.size == 300


def test_of_very_many_levels_the_most_frequent_have_functions() -> None:
    """Effects of the frequent levels are in the span; that of the rarest level is not."""
    weights = np.arange(1.0, 2 * MOST_FUNCTIONS + 1)
    names = tuple(f"{number:04}" for number in range(len(weights)))
    numbers = np.arange(len(weights))
    axis = Axis(numbers.astype(float), weights / weights.sum(), "nominal", names, numbers)
    (span,) = spans([(0,)], {1: [axis]})
    assert span.size == MOST_FUNCTIONS
    for level, is_known in [(0, False), (MOST_FUNCTIONS, True), (len(weights) - 1, True)]:
        effect = (numbers == level) - axis.weights[level]
        seen = span.tables(span.coefficients(effect))
        assert np.allclose(seen, effect, atol=1e-6) == is_known
