"""Zero test: p-values against exact distributions, other priors and simulated components."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from tpnn.uncertainty.equations import ByFunctions, Coefficients, Factored
from tpnn.uncertainty.linear_model import ZeroTest, chi_square_tail, degrees_of_freedom, p_value

N, OWN, OTHERS = 300, 6, 8  # rows, coefficients of the component, of all others


def design() -> np.ndarray:
    """Functions of a component and of others that are correlated with it, of unequal size."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, OWN + OTHERS)) + rng.normal(size=(N, 1))
    return (X - X.mean(0)) * np.geomspace(1, 0.05, OWN + OTHERS)


def posterior(X: np.ndarray, z: np.ndarray, own: float, others: float) -> Coefficients:
    """Posterior of the component for prior precisions of it and of the others."""
    precision = np.repeat([own, others], [OWN, OTHERS])
    equations = ByFunctions(X.T @ X, X.T @ (z - z.mean()))
    return equations.solved(precision).of(np.arange(OWN))


@pytest.mark.parametrize("degrees", [1, 2, 5, 20])
def test_tails_of_equal_weights_are_those_of_chi_square(degrees: int) -> None:
    for p in (0.9, 0.5, 0.3, 0.05, 1e-4, 1e-12):
        found = chi_square_tail(np.full(degrees, 3.0), 3.0 * chi2.isf(p, degrees))
        assert found == pytest.approx(p, rel=0.12 / degrees)


def test_tails_of_unequal_weights_are_those_of_a_simulation() -> None:
    weights = np.array([1.0, 0.5, 0.2, 0.05])
    drawn = np.random.default_rng(0).normal(size=(200_000, 4)) ** 2 @ weights
    for p in (0.8, 0.4, 0.05, 0.01):
        found = chi_square_tail(weights, float(np.quantile(drawn, 1 - p)))
        assert found == pytest.approx(p, rel=0.05)


def test_the_tail_has_no_gap_at_the_mean_and_its_ends() -> None:
    weights = np.array([1.0, 0.5, 0.2])
    values = np.concatenate([[0.0, 1e-12], np.linspace(1.6, 1.8, 50), [1.7, 1e3, 1e12]])
    tails = [chi_square_tail(weights, value) for value in np.sort(values)]
    assert tails[0] == 1.0
    assert (np.diff(tails) <= 0).all()
    assert np.abs(np.diff(tails[2:-2])).max() < 0.01
    assert tails[-1] > 0


def test_p_values_do_not_depend_on_the_prior_of_the_component_itself() -> None:
    X, rng = design(), np.random.default_rng(1)
    z = 0.2 * X[:, 0] + rng.normal(size=N)
    first, *others = (p_value(posterior(X, z, own, 2.0)) for own in (0.5, 30.0, 1e6))
    assert others == pytest.approx([first] * 2, rel=1e-3)


def test_p_values_of_a_component_that_is_zero_are_uniform() -> None:
    """Whatever the others are, if their coefficients come from their prior."""
    X, rng = design(), np.random.default_rng(2)
    p_values = []
    for _ in range(1000):
        beta = np.append(np.zeros(OWN), rng.normal(size=OTHERS) / np.sqrt(2.0))
        p_values.append(p_value(posterior(X, X @ beta + rng.normal(size=N), 1.0, 2.0)))
    shares = [np.mean(np.array(p_values) < level) for level in (0.05, 0.25, 0.5, 0.75)]
    assert shares == pytest.approx([0.05, 0.25, 0.5, 0.75], abs=0.04)


def test_a_component_that_is_not_zero_is_found() -> None:
    X, rng = design(), np.random.default_rng(3)
    assert p_value(posterior(X, 0.5 * X[:, 0] + rng.normal(size=N), 1.0, 2.0)) < 1e-8


def test_degrees_of_freedom_are_the_trace_of_the_smoother() -> None:
    X = design()
    precision = np.repeat([3.0, 2.0], [OWN, OTHERS])
    found = ByFunctions(X.T @ X, np.zeros(OWN + OTHERS)).solved(precision)
    influence = np.linalg.solve(X.T @ X + np.diag(precision), X.T @ X)
    parts = [found.of(np.arange(OWN)), found.of(np.arange(OWN, OWN + OTHERS))]
    own, others = map(degrees_of_freedom, parts)
    assert own == pytest.approx(np.trace(influence[:OWN, :OWN]), rel=1e-3)
    assert own + others == pytest.approx(np.trace(influence), rel=1e-3)


def test_several_outputs_count_their_number() -> None:
    X, rng = design(), np.random.default_rng(4)
    outputs = [posterior(X, rng.normal(size=N), 1.0, 2.0) for _ in range(3)]
    found = ZeroTest.of(outputs)
    assert found.p_value == pytest.approx(min(3 * min(map(p_value, outputs)), 1.0))
    assert found.degrees == pytest.approx(sum(map(degrees_of_freedom, outputs)))


def test_nothing_is_known_of_a_component_without_functions() -> None:
    nothing = Coefficients(np.empty(0), Factored(np.empty((0, 0))), np.empty(0))
    assert ZeroTest.of([nothing]) == (0.0, 1.0)


@pytest.mark.parametrize("value", [1e5, 1e7, 1e20, 1e300])
def test_values_of_any_size_have_a_probability(value: float) -> None:
    with np.errstate(all="raise"):
        assert chi_square_tail(np.array([1.0, 0.5]), value) == 1e-300
