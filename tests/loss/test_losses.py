from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit

from tpnn.loss.links import LINKS
from tpnn.loss.losses import (
    OBJECTIVES,
    custom,
    huber,
    quantiles,
    several_classes,
    several_targets,
    tweedie,
)


def test_logit_link_agrees_with_scipy() -> None:
    scores = np.array([-800.0, -3.0, 0.0, 3.0, 800.0])
    assert np.allclose(LINKS["logit"].inverse(scores), expit(scores))
    means = np.array([1e-6, 0.2, 0.9])
    assert np.allclose(LINKS["logit"].forward(means), logit(means))


EVERY = {
    **OBJECTIVES,
    "three quantiles": quantiles([0.1, 0.5, 0.9]),
    "two targets": several_targets(2),
    "three classes": several_classes(3),
    "tweedie 1.2": tweedie(1.2),
    "huber 2": huber(2.0),
}


def targets(name: str, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Valid targets of an objective, (n_rows, T)."""
    if name == "cox":
        return np.column_stack([rng.integers(1, 9, n_rows), rng.random(n_rows) < 0.6]).astype(float)
    if name == "three classes":
        return np.eye(3)[rng.integers(0, 3, n_rows)]
    if name == "log_loss":
        return (rng.random((n_rows, 1)) < 0.3).astype(float)
    return rng.gamma(2.0, size=(n_rows, 2 if name == "two targets" else 1))


@pytest.mark.parametrize("name", EVERY)
def test_slopes_are_those_of_the_loss(name: str) -> None:
    """The first derivative by central differences, two bags side by side."""
    objective, rng = EVERY[name], np.random.default_rng(0)
    y = targets(name, 40, rng)
    raw = rng.normal(size=(40, 2 * objective.n_outputs))
    weights = rng.random((40, 2)) + 0.5
    gradient, hessian = objective.slopes(y, raw, weights)
    step = 1e-6
    for row, lane in [(0, 0), (7, 1), (20, raw.shape[1] - 1)]:
        up, down = raw.copy(), raw.copy()
        up[row, lane] += step
        down[row, lane] -= step
        total_up, total_down = (
            (weights * objective.losses(y, side, weights)).sum() for side in (up, down)
        )
        bag = lane // objective.n_outputs
        slope = (total_up - total_down) / (2 * step) / weights[row, bag]
        assert gradient[row, lane] == pytest.approx(slope, abs=1e-5)
    assert hessian.shape == raw.shape
    assert (hessian > 0).all()


def test_curvature_of_classes_bounds_all_outputs_at_once() -> None:
    """diag(bound) - (diag(p) - p p') has no negative eigenvalue."""
    objective, rng = EVERY["three classes"], np.random.default_rng(0)
    raw = 3 * rng.normal(size=(50, 3))
    _, bound = objective.slopes(np.zeros((50, 3)), raw)
    mean = np.exp(raw) / np.exp(raw).sum(1, keepdims=True)
    for diagonal, p in zip(bound, mean, strict=True):
        slack = np.diag(diagonal) - (np.diag(p) - np.outer(p, p))
        assert np.linalg.eigvalsh(slack)[0] > -1e-12


@pytest.mark.parametrize("name", [name for name in EVERY if name != "cox"])
def test_start_is_the_best_constant(name: str) -> None:
    objective, rng = EVERY[name], np.random.default_rng(0)
    y, weights = targets(name, 400, rng), rng.random(400)
    offset = rng.normal(size=(400, 1)) * 0.2
    start = objective.start(y, offset, weights)

    def loss(constant: np.ndarray) -> float:
        return float(np.average(objective.losses(y, offset + constant)[:, 0], weights=weights))

    for output in range(objective.n_outputs):
        for shift in (-0.05, 0.05):
            moved = start.copy()
            moved[output] += shift
            assert loss(start) < loss(moved)


def test_cox_agrees_with_the_partial_likelihood_written_out() -> None:
    rng = np.random.default_rng(1)
    y, raw = targets("cox", 30, rng), rng.normal(size=(30, 1))
    weights = rng.random((30, 1))
    total = 0.0
    for time, event, score, weight in zip(y[:, 0], y[:, 1], raw[:, 0], weights[:, 0], strict=True):
        alive = y[:, 0] >= time
        total += weight * event * (np.log((weights * np.exp(raw))[alive].sum()) - score)
    losses = OBJECTIVES["cox"].losses(y, raw, weights)
    assert (weights * losses).sum() == pytest.approx(total)


def test_log_loss_does_not_overflow() -> None:
    loss = OBJECTIVES["log_loss"].losses(np.array([[1.0]]), np.array([[-1000.0]]))
    assert loss == pytest.approx(1000)


def test_custom_loss_is_differentiated() -> None:
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    y, raw = rng.random((20, 1)), rng.normal(size=(20, 3))
    ours = OBJECTIVES["poisson"].slopes(y, raw)
    theirs = custom(lambda y, raw: raw.exp() - y * raw).slopes(y, raw)
    for a, b in zip(ours, theirs, strict=True):
        assert np.allclose(a, b)
