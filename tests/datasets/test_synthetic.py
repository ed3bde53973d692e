"""Samples of the synthetic functions: their size, ranges, seed and noise."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tpnn.datasets import Synthetic, make_synthetic
from tpnn.datasets.synthetic import get_function

NAMES = ("f1", "f2", "f3")


@pytest.mark.parametrize(("name", "p"), [("f1", 5), ("f2", 10), ("f3", 10)])
def test_sample(name: str, p: int) -> None:
    data = make_synthetic(name, random_state=0)
    assert isinstance(data, Synthetic)
    assert list(data.X.columns) == [f"X{j}" for j in range(1, p + 1)]
    assert len(data.X) == len(data.y) == len(data.f) == 15000
    assert data.f.mean() == pytest.approx(data.intercept, abs=5 * data.f.std() / 15000**0.5)


def test_sample_ranges() -> None:
    X = make_synthetic("f2", random_state=0).X
    high = ["X4", "X5", "X8", "X10"]
    np.testing.assert_allclose(X[high].min(), 0.6, atol=1e-3)
    np.testing.assert_allclose(X.drop(columns=high).min(), 0.0, atol=1e-3)
    np.testing.assert_allclose(X.max(), 1.0, atol=1e-3)
    X = make_synthetic("f3", random_state=0).X
    np.testing.assert_allclose(X.min(), -1.0, atol=1e-3)


def test_sample_is_determined_by_the_seed() -> None:
    one, two, other = (make_synthetic("f3", 50, random_state=seed) for seed in (7, 7, 8))
    pd.testing.assert_frame_equal(one.X, two.X)
    pd.testing.assert_series_equal(one.y, two.y)
    assert not one.X.equals(other.X)
    from_generator = make_synthetic("f3", 50, random_state=np.random.default_rng(7))
    pd.testing.assert_series_equal(one.y, from_generator.y)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ratio", [5.0, 0.5])
def test_signal_to_noise(name: str, ratio: float) -> None:
    data = make_synthetic(name, 200_000, signal_to_noise=ratio, random_state=1)
    noise = data.y - data.f
    assert data.f.var() / noise.var() == pytest.approx(ratio, rel=0.02)
    assert data.f.var() == pytest.approx(ratio * data.noise_variance, rel=0.02)


def test_no_noise() -> None:
    data = make_synthetic("f1", 20, signal_to_noise=float("inf"), random_state=0)
    np.testing.assert_array_equal(data.y, data.f)


@pytest.mark.parametrize("name", NAMES)
def test_noise_is_independent_of_the_features(name: str) -> None:
    data = make_synthetic(name, 50_000, random_state=0)
    noise = data.y - data.f
    assert noise.mean() == pytest.approx(0.0, abs=5 * noise.std() / 50_000**0.5)
    correlations = data.X.corrwith(noise)
    assert correlations.abs().max() < 0.02


@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_of_the_function(name: str) -> None:
    data = make_synthetic(name, 30, random_state=0)
    np.testing.assert_array_equal(data.f, get_function(name)(data.X.to_numpy()))
    assert data.name == name


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match=r"^name: must be one of f1, f2, f3, found 'f4'\."):
        make_synthetic("f4")
    with pytest.raises(ValueError, match=r"^signal_to_noise: must be positive, found 0\."):
        make_synthetic("f1", signal_to_noise=0)
    with pytest.raises(ValueError, match=r"^signal_to_noise: must be positive, found nan\."):
        make_synthetic("f1", signal_to_noise=float("nan"))


def test_the_sample_is_frozen() -> None:
    data = make_synthetic("f1", 5, random_state=0)
    with pytest.raises(AttributeError):
        data.intercept = 0.0  # type: ignore[misc]


@pytest.mark.parametrize("name", NAMES)
def test_a_longer_sample_has_the_same_truth(name: str) -> None:
    """Mean and noise belong to the distribution of the features, not to the sample."""
    short, long = (make_synthetic(name, n, random_state=n) for n in (10, 1000))
    assert short.intercept == long.intercept
    assert short.noise_variance == long.noise_variance
