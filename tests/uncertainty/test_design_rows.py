"""Working rows: what each loss says about the raw score, against what theory says."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from tpnn.loss.objectives import (
    COX,
    LOG_LOSS,
    OBJECTIVES,
    SQUARED_ERROR,
    quantiles,
    several_classes,
)
from tpnn.uncertainty.design import WorkingRows

RNG = np.random.default_rng(0)
N = 20_000
ALL = np.ones(N, bool)


def working(objective: object, y: np.ndarray) -> WorkingRows:
    return WorkingRows(objective, y.reshape(N, -1), np.ones(N))  # type: ignore[arg-type]


def test_the_dispersion_of_squared_error_is_the_variance_of_the_noise() -> None:
    scores = RNG.normal(size=(N, 1))
    rows = working(SQUARED_ERROR, scores + 0.3 * RNG.normal(size=(N, 1)))
    assert rows.slopes(scores)[1] == pytest.approx(np.ones((N, 1)))
    assert rows.dispersion(scores, ALL) == pytest.approx(0.09, rel=0.05)
    half = np.arange(N) % 2 == 0
    residual = (rows.y - scores)[half]
    assert rows.dispersion(scores, half) == pytest.approx(np.mean(residual**2))


def test_probabilities_and_counts_have_dispersion_one() -> None:
    scores = RNG.normal(size=(N, 1))
    chance = 1 / (1 + np.exp(-scores))
    labels = (RNG.random((N, 1)) < chance).astype(float)
    assert working(LOG_LOSS, labels).dispersion(scores, ALL) == pytest.approx(1.0, abs=0.05)
    counts = RNG.poisson(np.exp(scores)).astype(float)
    rows = working(OBJECTIVES["poisson"], counts)
    assert rows.dispersion(scores, ALL) == pytest.approx(1.0, abs=0.05)
    times = RNG.exponential(np.exp(-scores[:, 0]))
    rows = working(COX, np.column_stack([times, np.ones(N)]))
    assert rows.dispersion(scores, ALL) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_a_quantile_has_the_error_of_theory(level: float) -> None:
    """The variance of a sample quantile is q (1 - q) / (n density^2)."""
    normal = NormalDist()
    quantile = normal.inv_cdf(level)
    rows = working(quantiles(level), RNG.normal(size=(N, 1)))
    scores = np.full((N, 1), quantile)
    _, curvature = rows.slopes(scores)
    precision = (curvature / rows.dispersion(scores, ALL)).sum()
    expected = N * normal.pdf(quantile) ** 2 / (level * (1 - level))
    assert precision == pytest.approx(expected, rel=0.1)


def test_two_classes_are_the_same_in_both_ways_of_writing_them() -> None:
    """The centred score of one of two classes is half the log-odds."""
    odds = RNG.normal(size=(N, 1))
    y = (RNG.random((N, 1)) < 0.5).astype(float)
    slope, curvature = working(LOG_LOSS, y).slopes(odds)
    both = working(several_classes(2), np.column_stack([1 - y, y]))
    slopes, curvatures = both.slopes(np.column_stack([-odds / 2, odds / 2]))
    assert slopes[:, 1:] == pytest.approx(2 * slope)
    assert curvatures[:, 1:] == pytest.approx(4 * curvature)
    assert slopes[:, :1] == pytest.approx(-2 * slope)
