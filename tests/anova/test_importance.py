"""Importance: its interval holds the importance of the truth that a posterior describes."""

from __future__ import annotations

import numpy as np
import pytest

from tpnn.anova.importance import importance, importance_interval
from tpnn.anova.posterior import Posterior, Uncertainty

WEIGHTS = [np.array([0.2, 0.5, 0.3])]
SHAPE = np.array([1.0, -0.7, 0.5])  # of mean zero


def uncertainty(shift: float, error: float, rough: float = 0.0) -> Uncertainty:
    """A posterior that knows a component up to a multiple of SHAPE."""
    return Posterior.of(
        factors=[SHAPE[:, None]],
        shifts=np.array([[shift]]),
        roots=np.array([[[error]]]),
        rough=np.full((3, 1), rough**2),
        scale=np.ones(1),
    ).uncertainty()


def test_importance_is_the_mean_absolute_value() -> None:
    table = np.array([[[1.0, 2.0], [-3.0, 0.0]], [[0.0, 1.0], [1.0, -1.0]]])
    weights = [np.array([0.25, 0.75]), np.array([0.5, 0.5])]
    masses = np.outer(*weights)
    assert importance(table, weights) == pytest.approx((masses[..., None] * abs(table)).sum() / 2)


def test_a_component_that_is_known_has_no_interval() -> None:
    shown = importance(SHAPE[:, None], WEIGHTS)
    assert importance_interval(SHAPE[:, None], WEIGHTS, uncertainty(0.0, 0.0)) == pytest.approx(
        (shown, shown)
    )


def test_the_interval_is_that_of_the_factor_of_a_clear_component() -> None:
    """The truth is c times the shape and c ~ N(1.1, 0.1^2), so that |c| = c."""
    size = importance(SHAPE[:, None], WEIGHTS)
    lower, upper = importance_interval(SHAPE[:, None], WEIGHTS, uncertainty(0.1, 0.1))
    assert lower == pytest.approx(size * (1.1 - 0.196), rel=1e-3)
    assert upper == pytest.approx(size * (1.1 + 0.196), rel=0.05)


def test_what_may_be_zero_has_zero_in_its_interval() -> None:
    table = 0.1 * SHAPE[:, None]
    lower, upper = importance_interval(table, WEIGHTS, uncertainty(-0.05, 0.2))
    assert lower == 0.0
    assert upper > importance(table, WEIGHTS)


def test_what_is_shown_is_in_the_interval() -> None:
    """Also where the posterior lies far below or above it."""
    for shift in (-0.9, 3.0):
        lower, upper = importance_interval(SHAPE[:, None], WEIGHTS, uncertainty(shift, 0.01))
        assert lower <= importance(SHAPE[:, None], WEIGHTS) <= upper


def test_the_rough_part_widens_the_interval() -> None:
    table = SHAPE[:, None]
    narrow, wide = (importance_interval(table, WEIGHTS, uncertainty(0, 0.1, r)) for r in (0, 0.5))
    assert wide[0] < narrow[0]
    assert narrow[1] < wide[1]


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_no_unit_is_too_small_or_too_large(unit: float) -> None:
    usual = importance_interval(SHAPE[:, None], WEIGHTS, uncertainty(0.1, 0.2))
    known = Posterior.of(
        [SHAPE[:, None]], np.array([[0.1]]), np.array([[[0.2]]]), np.zeros((3, 1)), np.array([unit])
    ).uncertainty()
    found = importance_interval(unit * SHAPE[:, None], WEIGHTS, known)
    assert np.array(found) / unit == pytest.approx(usual)


def test_intervals_hold_the_truth_as_often_as_they_promise() -> None:
    """The truth is drawn, then observed with noise; several outputs have one importance."""
    rng, inside = np.random.default_rng(0), 0
    for _ in range(300):
        truth = rng.normal(size=2)
        seen = truth + 0.5 * rng.normal(size=2)
        table, shrunk = SHAPE[:, None] * seen, seen / 1.25  # posterior N(seen / 1.25, 0.2)
        known = Posterior.of(
            [SHAPE[:, None]],
            (shrunk - seen)[None],
            np.full((2, 1, 1), 0.2**0.5),
            np.zeros((3, 2)),
            np.ones(2),
        ).uncertainty()
        lower, upper = importance_interval(table, WEIGHTS, known)
        inside += lower <= importance(SHAPE[:, None] * truth, WEIGHTS) <= upper
    assert inside / 300 >= 0.93
