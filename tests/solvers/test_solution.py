"""Limits and early stopping, the latter against a restatement in plain Python."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpnn.solvers.solution import EarlyStopping, Limits, Stopwatch

A_LOSS = st.integers(-200, 200).map(lambda hundredths: hundredths / 100)
LOSSES_OF_BAGS = st.integers(1, 3).flatmap(
    lambda n_bags: st.lists(
        st.lists(A_LOSS, min_size=n_bags, max_size=n_bags), min_size=1, max_size=25
    )
)


def restated(
    losses: list[float], patience: int, tolerance: float, tie: float, grace: int
) -> tuple[list[bool], list[bool]]:
    """For the losses of one bag, after each step: whether it is at its best, and stalled."""
    best, mark, last_fall = float("inf"), float("inf"), grace
    at_best, stalled = [], []
    for step, loss in enumerate(losses):
        at_best.append(loss < best * (1 - tie if best > 0 else 1 + tie))
        if at_best[-1]:
            best = loss
        if loss < mark * (1 - tolerance if mark > 0 else 1 + tolerance):
            mark, last_fall = loss, max(step, grace)
        stalled.append(step - last_fall >= patience)
    return at_best, stalled


@given(
    losses=LOSSES_OF_BAGS,
    patience=st.integers(1, 6),
    tolerance=st.sampled_from([0.0, 1e-3, 0.1]),
    tie=st.sampled_from([0.0, 1e-6, 0.05]),
    grace=st.integers(0, 5),
)
@settings(deadline=None, derandomize=True, max_examples=200)
def test_early_stopping_of_every_bag(
    losses: list[list[float]], patience: int, tolerance: float, tie: float, grace: int
) -> None:
    stopping = EarlyStopping(len(losses[0]), patience, tolerance, tie, grace)
    bags = [
        restated(list(bag), patience, tolerance, tie, grace) for bag in zip(*losses, strict=True)
    ]
    for step, row in enumerate(losses):
        found = stopping.update(np.array(row), step)
        assert found.tolist() == [at_best[step] for at_best, _ in bags]
        assert stopping.has_stalled == all(stalled[step] for _, stalled in bags)
    kept = [min(bag) for bag in zip(*losses, strict=True)]
    if tie == 0:
        assert stopping.best.tolist() == kept
    assert (stopping.best - tie * np.abs(stopping.best) <= np.array(kept) + 1e-12).all()


def test_a_run_stops_patience_steps_after_its_last_fall() -> None:
    stopping = EarlyStopping(1, 3)
    for step, loss in enumerate([1.0, 0.5, 0.6, 0.6]):
        stopping.update(np.array([loss]), step)
        assert not stopping.has_stalled
    stopping.update(np.array([0.6]), 4)
    assert stopping.has_stalled


def test_a_negative_loss_that_no_longer_falls_has_stalled() -> None:
    stopping = EarlyStopping(1, 3, tolerance=0.01)
    for step, loss in enumerate([-0.5, -0.6, -0.601, -0.602, -0.602]):
        assert not stopping.has_stalled
        stopping.update(np.array([loss]), step)
    assert stopping.has_stalled


def test_nan_is_never_the_best() -> None:
    stopping = EarlyStopping(2, 1)
    assert stopping.update(np.array([np.nan, 1.0]), 0).tolist() == [False, True]
    assert stopping.update(np.array([2.0, np.nan]), 1).tolist() == [True, False]


def test_a_restart_keeps_the_best_and_counts_anew() -> None:
    stopping = EarlyStopping(1, 2)
    for step in range(5):
        stopping.update(np.array([1.0]), step)
    assert stopping.has_stalled
    stopping.restart()
    assert not stopping.has_stalled
    assert not stopping.update(np.array([1.5]), 1)[0]
    assert not stopping.has_stalled
    assert stopping.update(np.array([0.5]), 2)[0]


def test_limits_are_reached_by_time_or_by_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 10.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    limits = Limits(deadline=11.0)
    assert not limits.are_reached()
    now = 11.0
    assert limits.are_reached()
    forever = Limits()
    assert not forever.are_reached()
    forever.cancelled.set()
    assert forever.are_reached()


def test_laps_of_a_stopwatch_divide_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([10.0, 11.0, 14.0, 14.5, 18.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(looks))
    clock = Stopwatch()
    for stage in ("read", "solve", "search", "solve"):
        clock.lap(stage)
    assert clock.seconds == {"read": 1.0, "solve": 6.5, "search": 0.5}
    assert [(e.stage, e.note, e.seconds) for e in clock.events()][1] == ("time", "solve", 6.5)
    last = clock.table().splitlines()[-1]
    assert last.split() == ["in", "all", "8.00", "s", "100%"]


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_in_one_thread_cancels_the_others(n_threads: int, error: type) -> None:
    limits = Limits(n_threads=n_threads)

    def work(task: int) -> None:
        raise error

    with pytest.raises(error), limits.workers() as workers:
        workers.map(work, range(3))
    assert limits.are_reached()
