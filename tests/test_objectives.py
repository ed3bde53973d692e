from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit

from tpnn.links import LINKS
from tpnn.objectives import OBJECTIVES


def test_logit_link_agrees_with_scipy() -> None:
    scores = np.array([-800.0, -3.0, 0.0, 3.0, 800.0])
    assert np.allclose(LINKS["logit"].inverse(scores), expit(scores))
    means = np.array([1e-6, 0.2, 0.9])
    assert np.allclose(LINKS["logit"].forward(means), logit(means))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_gradient_and_curvature(name: str) -> None:
    objective = OBJECTIVES[name]
    y = np.array([[0.0], [1.0]])
    raw = np.linspace(-4, 4, 101)[None]
    step = 1e-5
    slope = (objective.loss(y, raw + step) - objective.loss(y, raw - step)) / (2 * step)
    assert np.allclose(objective.gradient(y, raw), slope, atol=1e-8)
    bend = np.gradient(objective.gradient(y, raw), raw[0], axis=1)
    assert bend.max() <= objective.curvature + 1e-3
    assert bend.max() >= 0.9 * objective.curvature


@pytest.mark.parametrize("name", OBJECTIVES)
def test_start_is_the_best_constant(name: str) -> None:
    objective = OBJECTIVES[name]
    rng = np.random.default_rng(0)
    y, weights = (rng.random(200) < 0.3).astype(float), rng.random(200)
    start = objective.start(y, weights)
    around = start + np.linspace(-0.5, 0.5, 101)
    losses = [np.average(objective.loss(y, np.full(200, c)), weights=weights) for c in around]
    assert np.argmin(losses) == 50


def test_log_loss_does_not_overflow() -> None:
    assert OBJECTIVES["log_loss"].loss(np.array([1.0]), np.array([-1000.0])) == pytest.approx(1000)
