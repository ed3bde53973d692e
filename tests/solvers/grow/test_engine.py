"""BagGrower: it keeps the best tables of a forest, and stops by rounds, patience or limits."""

from __future__ import annotations

import numpy as np
import pytest

from tpnn.loss.objectives import OBJECTIVES
from tpnn.solvers.grow.engine import BagGrower, Side, Tables, held_out_loss
from tpnn.solvers.solution import Limits

SQUARED = OBJECTIVES["squared_error"]


class Growth:
    def __init__(self, n_rows: int) -> None:
        self.residual, self.hessian = np.zeros(n_rows), np.zeros(n_rows)


class Script:
    """A forest whose raw score is a number that follows a script, one entry a round."""

    rounds_per_check, visits_per_check = 2, 1
    keeps_slopes, tolerance, grace = False, 0.0, 0

    def __init__(self, scores: list[float], n_rows: int = 4) -> None:
        self.script, self.place = scores, 0
        self.growths = [Growth(n_rows)]
        self.visits: list[int] = []
        self.refreshed = 0

    def visit(self, rounds: int) -> None:
        self.visits.append(rounds)
        self.place += 1

    def scores(self, side: Side) -> np.ndarray:
        return side.raw + self.script[self.place]

    def tables(self) -> Tables:
        return Tables([np.array([[self.script[self.place]]])], np.zeros(1))

    def slopes_changed(self) -> None:
        self.refreshed += 1


def side(n_rows: int = 4, target: float = 0.0) -> Side:
    ones = np.ones((n_rows, 1))
    return Side([], target * ones, np.arange(1.0, n_rows + 1)[:, None], 0 * ones)


def grown(
    scores: list[float], max_rounds: int = 100, patience: int = 100, limits: Limits | None = None
) -> tuple[Script, float, int, float]:
    """Forest after growth towards the target 0, the score that was kept, its rounds, its loss."""
    forest = Script(scores)
    grower = BagGrower(SQUARED, limits or Limits(), max_rounds, patience)
    best = grower.grow(forest, side(), side())
    assert best.held_out == pytest.approx(np.full((4, 1), best.tables.by_order[0][0, 0]))
    return forest, float(best.tables.by_order[0][0, 0]), best.rounds, best.loss


def test_the_best_tables_are_kept_not_the_last() -> None:
    _, kept, rounds, loss = grown([3.0, 2.0, -1.0, 4.0, 5.0], max_rounds=8)
    assert (kept, rounds) == (-1.0, 4)
    assert loss == pytest.approx(0.5)


def test_nothing_gained_keeps_the_start() -> None:
    _, kept, rounds, _ = grown([1.0, 2.0, 3.0], max_rounds=4)
    assert (kept, rounds) == (1.0, 0)


@pytest.mark.parametrize(("max_rounds", "n_visits"), [(0, 0), (1, 1), (2, 1), (3, 2), (6, 3)])
def test_rounds_are_limited(max_rounds: int, n_visits: int) -> None:
    forest, *_ = grown([9.0, 8.0, 7.0, 6.0, 5.0, 4.0], max_rounds)
    assert len(forest.visits) == n_visits


def test_patience_counts_rounds_since_the_last_fall() -> None:
    forest, kept, *_ = grown([3.0, 1.0, *[2.0] * 20], patience=6)
    assert kept == 1.0
    assert forest.visits == [0, 2, 4, 6]  # stops at round 8, six after round 2


def test_limits_end_growth_at_once() -> None:
    cancelled = Limits()
    cancelled.cancelled.set()
    for limits in (cancelled, Limits(deadline=0.0)):
        forest, kept, rounds, _ = grown([3.0, 1.0], limits=limits)
        assert (forest.visits, kept, rounds) == ([], 3.0, 0)


def test_slopes_are_those_of_the_loss_at_the_scores() -> None:
    """The residual is minus the gradient times the weight, the hessian the weight."""
    forest = Script([2.0, 0.5])
    training = side(target=3.0)
    BagGrower(SQUARED, Limits(), 2, 9).grow(forest, training, side())
    weights = training.weights[:, 0]
    assert forest.growths[0].residual == pytest.approx(weights * (3.0 - 2.0))
    assert forest.growths[0].hessian == pytest.approx(weights)


@pytest.mark.parametrize(("keeps_slopes", "expected"), [(True, 1), (False, 3)])
def test_slopes_are_made_exact_unless_visits_keep_them(keeps_slopes: bool, expected: int) -> None:
    forest = Script([5.0, 4.0, 3.0, 2.0])
    forest.keeps_slopes = keeps_slopes
    BagGrower(SQUARED, Limits(), 6, 99).grow(forest, side(), side())
    assert forest.refreshed == expected


def test_held_out_loss_is_weighted() -> None:
    raw = np.array([[1.0], [0.0], [0.0], [2.0]])
    assert held_out_loss(SQUARED, side(), raw) == pytest.approx((0.5 * 1 + 2.0 * 4) / 10)
