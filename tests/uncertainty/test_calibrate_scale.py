"""Scales: additive models of a logarithm, against simulations with known scales."""

from __future__ import annotations

import numpy as np
import pytest

from tpnn.model.task import grouped
from tpnn.table.axis import Axis
from tpnn.uncertainty.calibrate import fit_scale, kept_scores, residual_scale

N_ROWS = 4000
WEIGHTS = np.full(N_ROWS, 1 / N_ROWS)


def nodes(rng: np.random.Generator) -> tuple[Axis, np.ndarray]:
    """An axis of 40 equally likely nodes in [0, 1], and the nodes of rows."""
    return Axis(np.linspace(0, 1, 40), np.full(40, 1 / 40)), rng.integers(0, 40, N_ROWS)


def test_the_scale_of_normal_noise_is_found() -> None:
    rng = np.random.default_rng(0)
    (first, codes), (second, others) = nodes(rng), nodes(rng)
    raw = rng.normal(size=N_ROWS)
    true = np.exp(2 * first.values[codes] + 0.5 * raw)
    found = residual_scale(
        [first, second], [codes, others], raw, true * rng.normal(size=N_ROWS), WEIGHTS
    )
    ratio = np.log(found.at_rows / true)
    assert ratio.std() < 0.35  # of the 0.58 + 0.5 that the logarithm of the scale varies
    assert np.ptp(found.tables[1]) < 0.3 * np.ptp(found.tables[0])  # it does not depend on these


def test_logarithms_without_noise_are_reproduced() -> None:
    rng = np.random.default_rng(0)
    axis, codes = nodes(rng)
    raw = rng.normal(size=N_ROWS)
    logs = np.sin(3 * axis.values[codes]) + 0.3 * raw
    found = fit_scale([axis], [codes], raw, logs, WEIGHTS)
    as_functions = found.tables[0][codes] + np.interp(raw, found.knots, found.heights)
    assert np.abs(as_functions - logs).mean() < 0.05
    assert np.log(found.at_rows) == pytest.approx(as_functions, abs=0.1)


def test_a_row_does_not_decide_its_own_scale() -> None:
    """One residual that is a million times too large moves the scale of its row like no other."""
    rng = np.random.default_rng(0)
    axis, codes = nodes(rng)
    raw, logs = rng.normal(size=N_ROWS), np.zeros(N_ROWS)
    logs[7] = np.log(1e6)
    found = fit_scale([axis], [codes], raw, logs, WEIGHTS)
    near = (codes == codes[7]) & (np.abs(raw - raw[7]) < 0.2) & (np.arange(N_ROWS) != 7)
    assert np.log(found.at_rows[7]) <= np.log(found.at_rows[near]).min() + 1e-9


def test_kept_scores_are_the_conformal_ranks() -> None:
    scores = np.random.default_rng(0).random((99, 1))
    kept = kept_scores(scores, np.ones(99), 1000)
    assert kept == pytest.approx(np.sort(scores, axis=0), rel=1e-6)
    few = kept_scores(scores, np.ones(99), 9)  # the ranks 0.1, ..., 0.9
    assert few == pytest.approx(np.sort(scores, axis=0)[9::10][:9], rel=1e-6)


def test_weights_act_like_copies_of_rows() -> None:
    rng = np.random.default_rng(0)
    scores, counts = rng.random((50, 1)), rng.integers(1, 4, 50)
    copied = kept_scores(np.repeat(scores, counts, axis=0), np.ones(counts.sum()), 9)
    assert np.array_equal(kept_scores(scores, counts.astype(float), 9), copied)


def test_groups_of_reliability_have_equal_mass_and_the_means_of_their_rows() -> None:
    rng = np.random.default_rng(0)
    predicted, actual = rng.random(1000), rng.random(1000)
    found = grouped(predicted, actual, np.full(1000, 1e-3), predicted)
    order = np.argsort(predicted).reshape(10, 100)
    assert found.masses == pytest.approx(np.full(10, 0.1))
    assert found.predicted == pytest.approx(predicted[order].mean(1))
    assert found.actual == pytest.approx(actual[order].mean(1))
