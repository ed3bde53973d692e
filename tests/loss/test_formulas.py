"""Formulas: derivatives are those of the losses, and losses are those of the textbooks."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import expit
from sklearn import metrics

from tests.loss.cases import EVERY, OF_ROWS, targets
from tpnn.loss.formulas import LARGEST_LOG_MEAN, SMALLEST_HESSIAN, SMALLEST_RESIDUAL
from tpnn.loss.objectives import OBJECTIVES, quantiles, several_classes, tweedie

BOUNDED = ["squared_error", "absolute_error", "huber", "huber 2", "quantile", "log_loss"]


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


@pytest.mark.parametrize("name", ["poisson", "gamma", "tweedie", "tweedie 1.2"])
def test_expected_curvature_of_means(name: str) -> None:
    """At the true mean the second derivative is the variance of the first."""
    objective, rng = EVERY[name], np.random.default_rng(0)
    raw = np.array([[0.3]])
    y = rng.poisson(np.exp(raw[0, 0]), 400_000)[:, None].astype(float)
    if name != "poisson":  # a Tweedie variance of power p: gamma amounts of that variance
        power = {"gamma": 2.0, "tweedie": 1.5, "tweedie 1.2": 1.2}[name]
        mean = np.exp(raw[0, 0])
        variance = mean**power
        y = rng.gamma(mean**2 / variance, variance / mean, size=(400_000, 1))
    gradient, hessian = objective.slopes(y, np.broadcast_to(raw, y.shape))
    assert gradient.mean() == pytest.approx(0.0, abs=0.01)
    assert gradient.var() == pytest.approx(hessian.mean(), rel=0.02)


numbers = st.floats(-30, 30)


@given(st.sampled_from(BOUNDED), numbers, numbers, numbers)
def test_the_second_derivative_is_of_a_parabola_above_the_loss(
    name: str, y: float, at: float, other: float
) -> None:
    """loss(g) <= loss(f) + slope (g - f) + hessian (g - f)^2 / 2, so that no step overshoots."""
    objective = EVERY[name]
    target = np.array([[float(y > 0) if name == "log_loss" else y]])
    here, there = np.array([[at]]), np.array([[other]])
    gradient, hessian = objective.slopes(target, here)
    if name == "log_loss":
        hessian = np.full_like(hessian, 0.25)  # its bound; Newton's own may overshoot
    if name in ("absolute_error", "quantile"):
        assume(abs(y - at) > SMALLEST_RESIDUAL)  # the kink is rounded off
    bound = objective.losses(target, here) + gradient * (there - here)
    bound = bound + hessian / 2 * (there - here) ** 2
    assert objective.losses(target, there) <= bound + 1e-9 * (1 + abs(bound))


def test_curvature_of_classes_bounds_all_outputs_at_once() -> None:
    """diag(bound) - (diag(p) - p p') has no negative eigenvalue."""
    objective, rng = EVERY["three classes"], np.random.default_rng(0)
    raw = 3 * rng.normal(size=(50, 3))
    _, bound = objective.slopes(np.zeros((50, 3)), raw)
    mean = np.exp(raw) / np.exp(raw).sum(1, keepdims=True)
    for diagonal, p in zip(bound, mean, strict=True):
        slack = np.diag(diagonal) - (np.diag(p) - np.outer(p, p))
        assert np.linalg.eigvalsh(slack)[0] > -1e-12


# Losses of scikit-learn


@pytest.fixture(scope="module")
def scores() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(200, 1))


def mean_loss(name: str, y: np.ndarray, raw: np.ndarray) -> float:
    return float(EVERY[name].losses(y, raw).mean())


def test_losses_agree_with_scikit_learn(scores: np.ndarray) -> None:
    rng = np.random.default_rng(2)
    y = rng.gamma(2.0, size=(200, 1))
    assert 2 * mean_loss("squared_error", y, scores) == pytest.approx(
        metrics.mean_squared_error(y, scores)
    )
    assert 2 * mean_loss("absolute_error", y, scores) == pytest.approx(
        metrics.mean_absolute_error(y, scores)
    )
    pinball = quantiles(0.8).losses(y, scores).mean()
    expected = metrics.mean_pinball_loss(y, scores, alpha=float(np.float32(0.8)))
    assert pinball == pytest.approx(expected)
    labels = targets("log_loss", 200, rng)
    assert mean_loss("log_loss", labels, scores) == pytest.approx(
        metrics.log_loss(labels[:, 0], expit(scores[:, 0]))
    )


@pytest.mark.parametrize("power", [1.0, 1.2, 1.5, 2.0])
def test_deviances_agree_with_scikit_learn(scores: np.ndarray, power: float) -> None:
    """Up to a constant in the raw score, which differences lose."""
    y = np.random.default_rng(3).gamma(2.0, size=(200, 1))
    objective = tweedie(power)

    def deviance(raw: np.ndarray) -> float:
        return metrics.mean_tweedie_deviance(y[:, 0], np.exp(raw[:, 0]), power=power)

    other = scores[::-1].copy()
    ours = 2 * (objective.losses(y, scores) - objective.losses(y, other)).mean()
    assert ours == pytest.approx(deviance(scores) - deviance(other))


def test_classes_agree_with_scikit_learn() -> None:
    rng = np.random.default_rng(4)
    raw, y = rng.normal(size=(200, 3)), targets("three classes", 200, rng)
    share = np.exp(raw) / np.exp(raw).sum(1, keepdims=True)
    assert mean_loss("three classes", y, raw) == pytest.approx(metrics.log_loss(y, share))


def test_two_classes_are_one_score_apart() -> None:
    """Softmax of scores (0, f) is the logistic loss of f."""
    rng = np.random.default_rng(5)
    labels, raw = targets("log_loss", 100, rng), rng.normal(size=(100, 1))
    pairs = np.column_stack([1 - labels, labels])
    both = several_classes(2).losses(pairs, np.column_stack([np.zeros(100), raw[:, 0]]))
    assert np.allclose(both, OBJECTIVES["log_loss"].losses(labels, raw))


def test_huber_joins_squared_and_absolute_error() -> None:
    residuals = np.array([[0.1], [0.5], [4.0]])
    losses = OBJECTIVES["huber"].losses(np.zeros((3, 1)), residuals)
    assert losses[:, 0] == pytest.approx([0.005, 0.125, 0.5 * (4.0 - 0.25)])


# Extremes


def test_log_loss_does_not_overflow() -> None:
    loss = OBJECTIVES["log_loss"].losses(np.array([[1.0]]), np.array([[-1000.0]]))
    assert loss == pytest.approx(1000)


@given(
    st.sampled_from(OF_ROWS),
    arrays(float, (1, 6), elements=st.floats(-1e6, 1e6)),
)
def test_losses_and_slopes_stay_finite(name: str, raw: np.ndarray) -> None:
    objective = EVERY[name]
    raw = raw[:, : objective.n_outputs]
    y = targets(name, 1, np.random.default_rng(0))
    found = (objective.losses(y, raw), *objective.slopes(y, raw))
    assert all(np.isfinite(part).all() for part in found)
    assert (found[2] > 0).all()


def test_exponentials_fit_single_precision() -> None:
    assert np.isfinite(np.exp(np.float32(2 * LARGEST_LOG_MEAN)))
    _, hessian = OBJECTIVES["poisson"].slopes(np.ones((1, 1)), np.full((1, 1), -100.0))
    assert hessian == SMALLEST_HESSIAN


# Survival


def partial_likelihood(y: np.ndarray, raw: np.ndarray, weights: np.ndarray) -> float:
    """Negative log partial likelihood (Breslow), event by event."""
    total = 0.0
    for time, event, score, weight in zip(y[:, 0], y[:, 1], raw, weights, strict=True):
        alive = y[:, 0] >= time
        total += weight * event * (np.log((weights * np.exp(raw))[alive].sum()) - score)
    return total


def test_cox_agrees_with_the_partial_likelihood_written_out() -> None:
    rng = np.random.default_rng(1)
    y, raw = targets("cox", 30, rng), rng.normal(size=(30, 2))
    weights = rng.random((30, 2))
    losses = OBJECTIVES["cox"].losses(y, raw, weights)
    for bag in range(2):
        expected = partial_likelihood(y, raw[:, bag], weights[:, bag])
        assert (weights * losses)[:, bag].sum() == pytest.approx(expected)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("width", [1.0, 59.0, 61.0, 300.0, 2000.0])
def test_cox_of_risks_of_any_size_by_exact_sums(width: float) -> None:
    """Loss and slopes in single precision, against logarithms of sums in long arithmetic."""
    rng = np.random.default_rng(0)
    n = 40
    y = np.column_stack([rng.integers(0, 12, n), rng.random(n) < 0.7]).astype(np.float64)
    weights = rng.integers(0, 3, (n, 1)).astype(np.float32)
    raw = (width * np.linspace(-0.5, 0.5, n)[rng.permutation(n)])[:, None].astype(np.float32)
    mass, score = [Fraction(float(w)) for w in weights[:, 0]], raw[:, 0].astype(float)
    risk = [Fraction(Decimal(float(s)).exp(Context(prec=40, Emin=-9999))) for s in score]
    alive = [sum(mass[j] * risk[j] for j in range(n) if y[j, 0] >= y[i, 0]) for i in range(n)]
    loss = OBJECTIVES["cox"].losses(y, raw, weights)[:, 0]
    gradient, _ = OBJECTIVES["cox"].slopes(y, raw, weights)
    for i in np.flatnonzero(weights):
        before = [j for j in range(n) if y[j, 0] <= y[i, 0] and y[j, 1] and mass[j]]
        expected = float(sum(mass[j] * risk[i] / alive[j] for j in before))
        assert gradient[i, 0] == pytest.approx(expected - y[i, 1], rel=2e-3, abs=2e-3)
        truth = y[i, 1] * (log_of(alive[i]) - score[i])
        assert loss[i] == pytest.approx(truth, rel=1e-5, abs=1e-4)


def log_of(number: Fraction) -> float:
    context = Context(prec=40, Emin=-9999, Emax=9999)
    quotient = context.divide(Decimal(number.numerator), Decimal(number.denominator))
    return float(quotient.ln(context))


def test_cox_has_no_constant() -> None:
    rng = np.random.default_rng(2)
    y, raw, weights = targets("cox", 30, rng), rng.normal(size=(30, 1)), np.ones((30, 1))
    cox = OBJECTIVES["cox"]
    assert np.allclose(cox.losses(y, raw + 5.0, weights), cox.losses(y, raw, weights))
    gradient, _ = cox.slopes(y, raw, weights)
    assert gradient.sum() == pytest.approx(0.0, abs=1e-10)


def test_order_of_rows_does_not_matter_to_cox() -> None:
    rng = np.random.default_rng(3)
    y, raw, weights = targets("cox", 30, rng), rng.normal(size=(30, 1)), rng.random((30, 1))
    order = rng.permutation(30)
    cox = OBJECTIVES["cox"]
    assert np.allclose(
        cox.losses(y[order], raw[order], weights[order]), cox.losses(y, raw, weights)[order]
    )


# torch


@pytest.mark.parametrize("name", OF_ROWS)
def test_torch_computes_the_same(name: str) -> None:
    torch: Any = pytest.importorskip("torch")
    objective, rng = EVERY[name], np.random.default_rng(0)
    y, raw = targets(name, 20, rng), rng.normal(size=(20, 2 * objective.n_outputs))
    there = torch.as_tensor(y), torch.as_tensor(raw)
    assert np.allclose(objective.losses(*there, xp=torch), objective.losses(y, raw))
    for ours, theirs in zip(
        objective.slopes(y, raw), objective.slopes(*there, xp=torch), strict=True
    ):
        assert np.allclose(theirs, ours)
