"""Theorem 3.3: the best TPNN error for a Lipschitz target falls like 1/K for |S| = 1."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.common.quadrature import true_component
from tpnn import Descent, TPNNRegressor, datasets
from tpnn.solvers.descent.networks import centred_basis


def construction(target: np.ndarray, positions: np.ndarray, n_bases: int) -> np.ndarray:
    """The proof's TPNN: centres on K quantiles, width 1/K^3, beta from the partition's means.

    The l_k are differences of neighbouring sigmoids; sum_k delta_k l_k is a sum of K centred
    sigmoids with coefficients delta_k - delta_{k+1}.
    """
    weights = torch.full((len(positions),), 1 / len(positions), dtype=torch.float64)
    centres = torch.arange(1, n_bases + 1, dtype=torch.float64) / (n_bases + 1)
    widths = torch.full((n_bases,), 1.0 / (n_bases + 1) ** 3, dtype=torch.float64)
    nodes = torch.as_tensor(positions)
    steps = torch.sigmoid((nodes[:, None] - centres) / widths).numpy()
    ones, zeros = np.ones((len(nodes), 1)), np.zeros((len(nodes), 1))
    parts = np.hstack([ones, steps]) - np.hstack([steps, zeros])  # l_1 ... l_{K+1}
    means = (parts * target[:, None]).sum(0) / parts.sum(0)
    beta = torch.as_tensor(means[:-1] - means[1:])
    return (centred_basis(nodes, weights, centres, widths) @ beta).numpy()


@pytest.mark.parametrize(
    "function", [lambda u: np.abs(u - 0.37), lambda u: np.sin(7 * u), lambda u: np.maximum(u, 0.6)]
)
def test_sup_norm_error_falls_as_one_over_k(function: object) -> None:
    positions = (np.arange(4000) + 0.5) / 4000
    target = function(positions)  # type: ignore[operator]
    target = target - target.mean()
    counts = np.array([4, 8, 16, 32, 64])
    errors = [np.abs(construction(target, positions, k) - target).max() for k in counts]
    assert (np.diff(errors) < 0).all()
    slope = np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert slope == pytest.approx(-1.0, abs=0.2)


def test_true_components_are_recovered() -> None:
    """On the paper's f1 every estimated main effect is close to the true one."""
    data = datasets.make_synthetic("f1", n_samples=3000, signal_to_noise=5.0, random_state=0)
    model = TPNNRegressor(solver=Descent(n_bases=20), n_bags=2, random_state=0, verbose=0).fit(
        data.X, data.y
    )
    scores = model.model_.component_scores(data.X)
    for index in range(5):
        truth = true_component("f1", (index,), data.X)
        error = np.sqrt(np.mean((scores[:, index] - truth) ** 2))
        assert error < 0.35 * truth.std() + 0.1
    pair = model.components_.index(("X1", "X2"))
    truth = true_component("f1", (0, 1), data.X)
    assert np.corrcoef(scores[:, pair], truth)[0, 1] > 0.9
