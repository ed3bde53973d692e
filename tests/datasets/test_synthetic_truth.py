"""The true decomposition: closed forms, the sum-to-zero law, and Monte Carlo."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy.special import erf

from benchmarks.common.quadrature import (
    _rule,
    mean_and_variance,
    true_component,
    true_importance,
    true_variance,
)
from tpnn.datasets import make_synthetic
from tpnn.datasets.synthetic import get_function

NAMES = ("f1", "f2", "f3")


def component_at_random(name: str, features: tuple[int, ...], n: int = 40) -> np.ndarray:
    """Return the component at random points."""
    return true_component(name, features, make_synthetic(name, n, random_state=5).X)


def log_component(features: tuple[int, ...], x: np.ndarray) -> np.ndarray:
    r"""Return a component of log(x4^2 + x5^2 + x7^2 + x8^2) by an independent formula.

    From log s = int_0^inf (e^-t - e^-ts) dt/t, with g(t) = E e^(-t X^2), the component of S is
    - int_0^inf g^(4 - |S|) prod_{j in S} (e^(-t x_j^2) - g) dt/t, here with t = e^u.
    """
    u = np.linspace(-30, 60, 3001)
    t = np.exp(u)
    g = np.sqrt(np.pi / t) / 2 * erf(np.sqrt(t))
    factors = [np.exp(-t * x[:, [j]] ** 2) - g for j in features]  # (n, u) each
    return -np.sum(g ** (4 - len(features)) * np.prod(factors, axis=0), axis=1) * (u[1] - u[0])


@pytest.mark.parametrize("name", NAMES)
def test_components_sum_to_the_function(name: str) -> None:
    data = make_synthetic(name, 100, random_state=2)
    p = data.X.shape[1]
    subsets = [s for size in range(5) for s in combinations(range(p), size)]
    total = sum(true_component(name, features, data.X) for features in subsets)
    np.testing.assert_allclose(total, data.f, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "features"),
    [("f1", (0, 1)), ("f2", (1,)), ("f2", (6, 8)), ("f3", (0, 1)), ("f3", (2, 3)), ("f3", (3, 4))],
)
def test_components_average_to_zero_along_each_feature(
    name: str, features: tuple[int, ...]
) -> None:
    data = make_synthetic(name, 1, random_state=3)
    for feature in features:
        x = np.repeat(data.X.to_numpy(), 4000, axis=0)
        low, high = (0.6, 1.0) if name == "f2" and feature in (3, 4, 7, 9) else (0.0, 1.0)
        low = -1.0 if name == "f3" else low
        x[:, feature] = low + (high - low) * (np.arange(4000) + 0.5) / 4000  # midpoint rule
        assert true_component(name, features, x).mean() == pytest.approx(0, abs=1e-5)


def test_f1_closed_forms() -> None:
    x = make_synthetic("f1", 50, random_state=4).X.to_numpy()
    sine = (1 - np.cos(np.pi * x[:, 0])) / (np.pi * x[:, 0])  # E sin(pi x1 X2)
    grid = (np.arange(20000) + 0.5) / 20000
    mean = np.mean((1 - np.cos(np.pi * grid)) / (np.pi * grid))
    expected = {
        (): 10 + 20 * (1 / 3 - 0.45 + 0.18) + 12.5 + 10 * mean,
        (0,): 10 * (x[:, 0] - 0.5) + 10 * (sine - mean),
        (2,): 20 * (x[:, 2] ** 2 - 0.9 * x[:, 2] - 1 / 3 + 0.45),
        (4,): 5 * (x[:, 4] - 0.5),
    }
    for features, values in expected.items():
        np.testing.assert_allclose(true_component("f1", features, x), values, atol=1e-7)


def test_f2_closed_forms() -> None:
    x = make_synthetic("f2", 50, random_state=4).X.to_numpy()
    inverse = np.log(1 / 0.6) / 0.4  # E 1 / X10
    root = 2 * (1 - np.sqrt(0.6)) / 0.4  # E 1 / sqrt(X8)
    pair = -(x[:, 8] - 0.5) * inverse * (np.sqrt(x[:, 6]) - 2 / 3) * root
    np.testing.assert_allclose(true_component("f2", (6, 8), x), pair, atol=1e-8)
    np.testing.assert_allclose(
        true_component("f2", (1, 6), x), -(x[:, 1] - 0.5) * (x[:, 6] - 0.5), atol=1e-12
    )


def test_f3_closed_forms() -> None:
    x = make_synthetic("f3", 50, random_state=4).X.to_numpy()
    one, two, three = x[:, 0], x[:, 1], np.abs(x[:, 2])
    main = np.cosh(one) * np.e - np.e * np.sinh(1)  # of E[exp|x1 - X2|] = e cosh(x1) - 1
    power = (three**2 - 1) / (2 * np.log(three))  # E |x3|^(2 |X4|)
    mean = np.e * np.sinh(1) - 1
    pair = np.exp(np.abs(one - two)) - np.e * (np.cosh(one) + np.cosh(two)) + 2 + mean
    expected = {
        (0,): main,
        (0, 1): pair,
        (2,): (three / 2 - 1 / 4) - (power - np.log(3) / 2),
        (9,): 1 / (1 + x[:, 9] ** 2) - np.pi / 4,
    }
    for features, values in expected.items():
        np.testing.assert_allclose(true_component("f3", features, x), values, atol=1e-9)


@pytest.mark.parametrize("features", [(4,), (4, 6), (3, 4), (4, 6, 7), (3, 4, 6, 7)])
def test_f3_logarithm_against_independent_formula(features: tuple[int, ...]) -> None:
    x = make_synthetic("f3", 60, random_state=6).X.to_numpy(copy=True)
    x[:10] /= 100  # near the singularity
    values = true_component("f3", features, x)
    np.testing.assert_allclose(values, log_component(features, x), atol=1e-6)


@pytest.mark.parametrize("features", [(5,), (0, 5), (0, 8), (8, 9), (0, 1, 2)])
def test_absent_components_are_exactly_zero(features: tuple[int, ...]) -> None:
    assert not component_at_random("f3", features).any()


@pytest.mark.parametrize(("name", "p", "signals"), [("f1", 5, 6), ("f2", 10, 20), ("f3", 10, 18)])
def test_importance(name: str, p: int, signals: int) -> None:
    importance, variance = true_importance(name), true_variance(name)
    keys = [s for size in (1, 2) for s in combinations(range(p), size)]
    assert list(importance) == list(variance) == keys
    assert sum(value > 0 for value in importance.values()) == signals
    assert all((importance[key] == 0) == (variance[key] == 0) for key in keys)
    assert all(importance[key] ** 2 <= variance[key] for key in keys)


def test_importance_closed_forms() -> None:
    assert true_importance("f1")[(4,)] == pytest.approx(5 / 4)
    assert true_variance("f1")[(4,)] == pytest.approx(25 / 12)
    assert true_importance("f2")[(1, 6)] == pytest.approx(1 / 16, rel=1e-3)
    assert true_importance("f3")[(1, 2)] == pytest.approx(1 / 16, rel=1e-3)
    assert true_variance("f3")[(8,)] == pytest.approx(1 / 3)


@pytest.mark.parametrize("features", [(3,), (0, 1), (6, 8), (3, 4)])
def test_norms_agree_with_monte_carlo(features: tuple[int, ...]) -> None:
    name = "f2" if features == (6, 8) else "f3"
    values = component_at_random(name, features, n=10_000)
    assert np.abs(values).mean() == pytest.approx(true_importance(name)[features], rel=0.05)
    assert np.mean(values**2) == pytest.approx(true_variance(name)[features], rel=0.08)


def test_variance_of_f1_is_the_sum_of_the_components() -> None:
    data = make_synthetic("f1", 10, signal_to_noise=1.0, random_state=0)
    assert sum(true_variance("f1").values()) == pytest.approx(data.noise_variance, rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_mean_and_variance_agree_with_monte_carlo(name: str) -> None:
    function = get_function(name)
    lower, upper = np.transpose(function.bounds)
    x = np.random.default_rng(0).uniform(lower, upper, size=(200_000, len(lower)))
    mean, variance = mean_and_variance(name)
    assert (function.mean, function.variance) == pytest.approx((mean, variance), rel=1e-12)
    assert mean == pytest.approx(function(x).mean(), abs=5 * np.sqrt(variance / 200_000))
    assert variance == pytest.approx(function(x).var(), rel=0.02)


@pytest.mark.parametrize("name", NAMES)
def test_components_of_low_order_cannot_vary_more_than_the_function(name: str) -> None:
    parts = true_variance(name)
    _, variance = mean_and_variance(name)
    assert sum(parts.values()) <= variance * (1 + 1e-6)
    assert sum(parts.values()) > 0.8 * variance


def test_order_of_the_features_does_not_matter() -> None:
    x = make_synthetic("f2", 20, random_state=0).X
    one, other = true_component("f2", (0, 2), x), true_component("f2", (2, 0), x)
    np.testing.assert_allclose(one, other, atol=1e-12)


def test_the_empty_component_is_the_mean() -> None:
    x = np.zeros((3, 5))
    np.testing.assert_allclose(true_component("f1", (), x), mean_and_variance("f1")[0])


# The quadrature rule


@pytest.mark.parametrize("count", [4, 16])
def test_weights_of_the_rule_are_a_distribution(count: int) -> None:
    nodes, weights = _rule(np.array([-1.0, 0.5, 3.0]), count)
    assert nodes.shape == weights.shape == (2 * count,)
    assert weights.sum() == pytest.approx(1.0)
    assert (weights > 0).all()
    assert ((nodes > -1) & (nodes < 3)).all()
    assert weights[:count].sum() == pytest.approx(1.5 / 4)


@pytest.mark.parametrize("power", [0, 1, 2, 5])
def test_the_rule_is_exact_for_polynomials(power: int) -> None:
    nodes, weights = _rule(np.array([0.0, 2.0]), 32)
    assert weights @ nodes**power == pytest.approx(2.0**power / (power + 1))


@pytest.mark.parametrize(
    ("function", "mean"),
    [(np.sqrt, 2 / 3), (np.log, -1.0), (lambda u: np.abs(u - 0.25), 0.3125)],
)
def test_the_rule_is_accurate_at_kinks_and_singular_ends(function: Any, mean: float) -> None:
    nodes, weights = _rule(np.array([0.0, 0.25, 1.0]), 32)
    assert weights @ function(nodes) == pytest.approx(mean, abs=1e-8)


def test_rules_broadcast_over_points() -> None:
    breaks = np.array([[0.0, 0.2, 1.0], [0.0, 0.9, 1.0]])
    nodes, weights = _rule(breaks, 8)
    for row in range(2):
        alone = _rule(breaks[row], 8)
        np.testing.assert_allclose(nodes[row], alone[0])
        np.testing.assert_allclose(weights[row], alone[1])


def test_wrong_arguments() -> None:
    x = np.zeros((3, 5))
    with pytest.raises(ValueError, match=r"^name: must be one of f1, f2, f3, found 'f4'\."):
        true_importance("f4")
    with pytest.raises(ValueError, match=r"^features: must be distinct indices from 0 to 4, found"):
        true_component("f1", (5,), x)
    with pytest.raises(ValueError, match=r"^features: must be distinct"):
        true_component("f1", (1, 1), x)
    with pytest.raises(ValueError, match=r"^X: must have shape \(n, 5\), found \(3, 4\)\. Pass"):
        true_component("f1", (1,), x[:, :4])
