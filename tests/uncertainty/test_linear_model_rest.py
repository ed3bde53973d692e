"""The rough rest: the jackknife of the bags tells the variance of what they estimate."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from tpnn.uncertainty.linear_model import rough_variance


def test_the_jackknife_tells_the_variance_of_a_mean() -> None:
    """Each node is the mean of 100 numbers of variance 4; a bag leaves out 15 of them."""
    rng = np.random.default_rng(0)
    n_nodes, n_rows, n_bags = 200, 100, 8
    rows = 2 * rng.normal(size=(n_nodes, n_rows))
    kept = np.stack([rng.permutation(n_rows) >= 15 for _ in range(n_bags)])
    rest = (rows @ kept.T / kept.sum(1))[..., None]  # (nodes, bags, 1)
    rest = rest - rest.mean(1, keepdims=True)  # no bias
    found = rough_variance(rest, [np.full(n_nodes, 1 / n_nodes)], trained=0.85)
    assert found.mean() == pytest.approx(4 / n_rows, rel=0.15)


@pytest.mark.parametrize("shape", [(30,), (9, 8), (4, 5, 3)])
def test_a_rest_that_all_bags_share_is_a_bias_in_part(shape: tuple[int, ...]) -> None:
    weights = [np.full(size, 1 / size) for size in shape]
    rest = np.full((*shape, 4, 2), 3.0)
    assert rough_variance(rest, weights, trained=0.85) == pytest.approx(np.full((*shape, 2), 2.25))
    assert rough_variance(rest[..., :1, :], weights, 0.85) == pytest.approx(np.full((*shape, 2), 9))


def test_pooling_many_nodes_takes_no_memory_of_their_square() -> None:
    rng = np.random.default_rng(0)
    masses, rest = rng.dirichlet(np.ones(3_000)), rng.normal(size=(3_000, 4, 1))
    ranks = np.cumsum(masses) - masses / 2
    kernel = np.exp(-0.5 * ((ranks[:, None] - ranks) / 0.03) ** 2) * masses
    values = 0.8 / 0.2 * rest.var(1, ddof=1) + rest.mean(1) ** 2 / 4
    expected = kernel / kernel.sum(1, keepdims=True) @ values
    tracemalloc.start()
    found = rough_variance(rest, [masses], 0.8)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == pytest.approx(expected, rel=0.01)
    assert peak < 8 * 3_000**2
    wide = rough_variance(rng.normal(size=(60_000, 2, 1)), [np.full(60_000, 1 / 60_000)], 0.8)
    assert wide.shape == (60_000, 1)
