"""Posterior: bands are those of the dense normal distribution that it stands for."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpnn.anova.posterior import N_FREE, Posterior, folded_quantiles

SIZES: Any = pytest.mark.parametrize("sizes", [(7,), (3, 4), (2, 3, 2)])


def random_posterior(sizes: tuple[int, ...], n_outputs: int = 2, scale: float = 1.0) -> Posterior:
    rng = np.random.default_rng(len(sizes))
    return Posterior.of(
        factors=[rng.normal(size=(size, 3)) for size in sizes],
        shifts=rng.normal(size=(3, n_outputs)),
        roots=rng.normal(size=(n_outputs, 3, 3)),
        rough=rng.random((*sizes, n_outputs)),
        scale=np.full(n_outputs, scale),
    )


def dense(posterior: Posterior, output: int) -> tuple[np.ndarray, np.ndarray]:
    """Bias and covariance over all nodes in turn, node by node."""
    shape = posterior.rough.shape[:-1]
    functions = np.array(
        [
            np.prod([f[m] for f, m in zip(posterior.factors, node, strict=True)], axis=0)
            for node in np.ndindex(shape)
        ],
        dtype=float,
    )
    root = functions @ posterior.roots[output].astype(float)
    rough = np.diag(posterior.rough[..., output].astype(float).ravel())
    unit = posterior.units[output]
    return unit * functions @ posterior.shifts[:, output], unit**2 * (root @ root.T + rough)


@given(ratio=st.floats(0, 30), level=st.floats(0.01, 0.999))
@settings(max_examples=200, deadline=None)
def test_folded_quantiles_hold_their_share(ratio: float, level: float) -> None:
    (reach,) = folded_quantiles(np.array([ratio]), level)
    normal = NormalDist(ratio, 1.0)
    assert normal.cdf(reach) - normal.cdf(-reach) == pytest.approx(level, abs=2e-4)


@SIZES
def test_errors_are_those_of_the_dense_covariance(sizes: tuple[int, ...]) -> None:
    posterior = random_posterior(sizes, scale=2.5)
    errors = posterior.uncertainty().errors()
    for output in range(2):
        _, covariance = dense(posterior, output)
        assert errors[..., output].ravel() == pytest.approx(np.sqrt(np.diag(covariance)), rel=1e-5)


@SIZES
def test_pointwise_bands_hold_their_share_of_the_posterior(sizes: tuple[int, ...]) -> None:
    posterior = random_posterior(sizes)
    widths = posterior.uncertainty().half_widths(0.9)
    for output in range(2):
        bias, covariance = dense(posterior, output)
        for shift, error, width in zip(
            bias, np.sqrt(np.diag(covariance)), widths[..., output].ravel(), strict=True
        ):
            normal = NormalDist(shift, error)
            assert normal.cdf(width) - normal.cdf(-width) == pytest.approx(0.9, abs=1e-3)


@SIZES
def test_differences_are_those_of_the_dense_covariance(sizes: tuple[int, ...]) -> None:
    posterior = random_posterior(sizes)
    weights = np.random.default_rng(0).dirichlet(np.ones(np.prod(sizes)))
    differences = posterior.uncertainty().minus(weights.reshape(sizes))
    contrast = np.eye(len(weights)) - weights
    for output in range(2):
        _, covariance = dense(posterior, output)
        expected = np.sqrt(np.diag(contrast @ covariance @ contrast.T))
        assert differences.errors()[..., output].ravel() == pytest.approx(expected, rel=1e-5)


def test_a_difference_to_itself_is_known() -> None:
    weights = np.zeros((3, 4))
    weights[1, 2] = 1.0
    difference = random_posterior((3, 4)).uncertainty().minus(weights)
    for kind in ("pointwise", "simultaneous"):
        widths = difference.half_widths(0.95, kind)
        assert widths[1, 2] == pytest.approx(0.0, abs=1e-6)
        assert (np.delete(widths.reshape(12, 2), 6, axis=0) > 0.01).all()
        assert widths.max() < 20 * difference.errors().max()


@SIZES
def test_simultaneous_bands_hold_whole_curves(sizes: tuple[int, ...]) -> None:
    """Of curves drawn from the dense posterior, with a scale in doubt, with and without a bias."""
    posterior = random_posterior(sizes)
    for shifted in (0.0, 1.0):
        known = Posterior(
            posterior.factors, np.float32(shifted) * posterior.shifts, *posterior.arrays[-3:]
        )
        both = known.uncertainty().half_widths(0.8, "simultaneous")
        assert (both >= known.uncertainty().half_widths(0.8)).all()
        rng = np.random.default_rng(1)
        for output in range(2):
            bias, covariance = dense(known, output)
            factor = np.sqrt(N_FREE / rng.chisquare(N_FREE, (4000, 1)))
            curves = bias + factor * rng.multivariate_normal(0 * bias, covariance, 4000)
            share = (np.abs(curves) <= both[..., output].ravel()).all(1).mean()
            assert share == pytest.approx(0.8, abs=0.045)


def test_a_level_above_another_has_a_wider_band() -> None:
    known = random_posterior((5,)).uncertainty()
    for kind in ("pointwise", "simultaneous"):
        widths = np.stack([known.half_widths(level, kind) for level in (0.5, 0.9, 0.99)])
        assert (np.diff(widths, axis=0) > 0).all()


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_units_are_no_matter(scale: float) -> None:
    plain, scaled = random_posterior((3, 4)), random_posterior((3, 4), scale=scale)
    expected = scale * plain.uncertainty().half_widths(0.95)
    assert scaled.uncertainty().half_widths(0.95) == pytest.approx(expected)
