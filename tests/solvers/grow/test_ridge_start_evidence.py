"""The ridge of main effects that the evidence asks for."""

from __future__ import annotations

import numpy as np
import pytest

from tpnn._utils.arrays import FloatArray
from tpnn.loss.objectives import OBJECTIVES
from tpnn.solvers.grow.ridge_start import (
    LARGEST_RIDGE,
    MainDictionary,
    _log_evidence,
    evident_ridge,
    measures,
)
from tpnn.solvers.problem.problem import Bagging, Problem
from tpnn.solvers.problem.rows import Targets
from tpnn.table.encoder import TableEncoder
from tpnn.table.table import Table

N_ROWS, LEAST = 300, 3.0


def ridge_of(
    X: FloatArray,
    y: FloatArray,
    objective: str = "squared_error",
    weights: FloatArray | None = None,
) -> float:
    """Ridge in rows that the main effects of a table ask for."""
    table = Table(X)
    problem = Problem.build(
        table, TableEncoder.fit(table, {1: 16}), Targets(y[:, None], weights, np.zeros(len(y))),
        OBJECTIVES[objective], Bagging(1, 0.15, 0), {},
    )  # fmt: skip
    fine, _ = measures(problem)
    bases = MainDictionary(fine, problem.coded[0].features[:, 0]).bases
    return evident_ridge(problem, bases, fine, LEAST)


@pytest.fixture(scope="module")
def near_copies() -> FloatArray:
    """Two features that say almost the same."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=N_ROWS)
    return np.column_stack([x, x + 0.3 * rng.normal(size=N_ROWS)])


def test_it_is_the_density_of_the_targets_under_the_prior() -> None:
    """Against r ~ N(0, phi (P^-1 + X X' / t)) with the best phi, by dense algebra."""
    rng = np.random.default_rng(1)
    precision, response = rng.uniform(0.5, 2.0, 40), rng.normal(size=40)
    X = rng.normal(size=(40, 5)).astype(np.float32)
    X -= precision @ X / precision.sum()  # the intercept has a flat prior
    response -= precision @ response / precision.sum()
    ridges = np.array([0.1, 1.0, 10.0, 100.0])
    found = _log_evidence(X, np.ones(40), -precision * response, precision, ridges)
    expected = []
    for ridge in ridges:
        covariance = np.diag(1 / precision) + X @ X.T / ridge
        distance = response @ np.linalg.solve(covariance, response)
        expected.append(-20 * np.log(distance) - 0.5 * np.linalg.slogdet(covariance)[1])
    assert np.allclose(np.diff(found), np.diff(expected), rtol=1e-4)


def test_opposite_effects_of_near_copies_ask_for_a_small_ridge(near_copies: FloatArray) -> None:
    noise = np.random.default_rng(2).normal(size=N_ROWS)
    shared = ridge_of(near_copies, 0.3 * near_copies.sum(1) + noise)
    opposite = ridge_of(near_copies, 4 * (near_copies[:, 0] - near_copies[:, 1]) + 0.3 * noise)
    assert opposite < 0.2 * shared


def test_it_stays_within_its_limits(near_copies: FloatArray) -> None:
    """Noise asks for the largest ridge, a curve without noise for the smallest."""
    noise = np.random.default_rng(3).normal(size=N_ROWS)
    largest = ridge_of(near_copies, noise)
    assert 0.7 * LARGEST_RIDGE * N_ROWS < largest <= LARGEST_RIDGE * N_ROWS
    assert ridge_of(near_copies, np.sin(3 * near_copies[:, 0])) == LEAST


def test_whole_weights_are_repeated_rows(near_copies: FloatArray) -> None:
    rng = np.random.default_rng(4)
    y = near_copies[:, 0] + rng.normal(size=N_ROWS)
    counts = rng.integers(1, 4, N_ROWS)
    repeated = ridge_of(np.repeat(near_copies, counts, axis=0), np.repeat(y, counts))
    assert ridge_of(near_copies, y, weights=counts.astype(float)) == repeated


@pytest.mark.parametrize("objective", ["log_loss", "poisson"])
def test_other_losses_tell_signal_from_noise(near_copies: FloatArray, objective: str) -> None:
    rng = np.random.default_rng(5)
    score = 2 * np.sin(2 * near_copies[:, 0])
    clear = (score > 0) if objective == "log_loss" else rng.poisson(np.exp(score))
    by_target = (
        ridge_of(near_copies, y.astype(float), objective) for y in (clear, rng.permutation(clear))
    )
    signal, noise = by_target
    assert signal < 0.5 * noise
