"""The rough rest: the jackknife of the bags tells the variance of what they estimate."""

from __future__ import annotations

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
