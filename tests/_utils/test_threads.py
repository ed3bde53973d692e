"""Threads: results in order, errors first, process-wide limits shared between fits."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import joblib
import pytest

from tpnn._utils.threads import SharedLimit, Workers, available_cores, split, threads_of


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_results_stand_in_the_order_of_the_tasks(n_threads: int) -> None:
    with Workers(n_threads) as workers:
        assert workers.map(lambda task: task**2, range(50)) == [task**2 for task in range(50)]
        assert workers.map(str, []) == []


def test_one_thread_is_the_callers() -> None:
    with Workers(1) as workers:
        names = workers.map(lambda _: threading.current_thread().name, range(3))
    assert set(names) == {threading.current_thread().name}


def test_every_thread_prepares_itself_once() -> None:
    prepared: list[int] = []
    barrier = threading.Barrier(3)
    with Workers(3, prepare=lambda: prepared.append(threading.get_ident())) as workers:
        workers.map(lambda _: barrier.wait(), range(3))  # all three at a time
        workers.map(lambda _: barrier.wait(), range(3))
    assert len(prepared) == len(set(prepared)) == 3


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("error", [ValueError, TimeoutError, KeyboardInterrupt])
def test_an_error_is_told_before_it_is_raised(n_threads: int, error: type) -> None:
    told: list[str] = []

    def work(task: int) -> int:
        if task == 3:
            raise error
        return task

    workers = Workers(n_threads, on_error=lambda: told.append("stop"))
    with pytest.raises(error), workers:
        workers.map(work, range(6))
    assert told == ["stop"]


@pytest.mark.parametrize("n_cores", [1, 3])
def test_cores_are_those_that_the_process_may_use(
    n_cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """joblib knows affinity and the quotas of containers, on every platform."""
    monkeypatch.setattr(joblib, "cpu_count", lambda: n_cores)
    assert available_cores() == threads_of(None) == n_cores
    with Workers() as workers:
        assert workers.n_threads == n_cores


@pytest.mark.parametrize(
    ("files", "n_cores"),
    [
        ({}, 8),
        ({"cpu.max": "max 100000\n"}, 8),
        ({"cpu.max": "250000 100000\n"}, 3),
        ({"cpu.max": "1000 100000\n"}, 1),
        ({"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 2),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8),
    ],
    ids=["no container", "no quota", "rounded up", "at least one", "old", "old without quota"],
)
def test_without_joblib_cores_are_those_of_the_container(
    files: dict[str, str], n_cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "joblib", None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8), raising=False)
    monkeypatch.setattr("tpnn._utils.threads.CGROUPS", tmp_path)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert available_cores() == n_cores


@pytest.mark.parametrize("n_startable", [0, 1])
def test_work_is_done_in_place_or_by_fewer_where_threads_cannot_start(
    n_startable: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, started = threading.Thread.start, list[threading.Thread]()

    def limited(thread: threading.Thread) -> None:
        if len(started) == n_startable:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    with Workers(4) as workers:
        assert workers.map(lambda task: task**2, range(20)) == [task**2 for task in range(20)]


def test_negative_numbers_leave_cores_alone() -> None:
    assert threads_of(4) == 4
    assert threads_of(-1) == available_cores()
    assert threads_of(-10_000) == 1


def counted() -> tuple[SharedLimit, list[str]]:
    log: list[str] = []

    def apply() -> Callable[[], object]:
        log.append("set")
        return lambda: log.append("restored")

    return SharedLimit(apply), log


def test_a_shared_limit_holds_until_the_last_user_is_out() -> None:
    limit, log = counted()
    with limit:
        with limit:
            assert log == ["set"]
        assert log == ["set"]
    assert log == ["set", "restored"]
    with limit:
        pass
    assert log == ["set", "restored"] * 2


def test_a_shared_limit_is_restored_after_an_error() -> None:
    limit, log = counted()
    with pytest.raises(ValueError, match="no"), limit:
        raise ValueError("no")
    assert log == ["set", "restored"]


@pytest.mark.parametrize(("size", "longest"), [(0, 3), (1, 3), (3, 3), (10, 3), (10, 1), (7, 100)])
def test_pieces_cover_a_range_once(size: int, longest: int) -> None:
    pieces = split(size, longest)
    assert [i for first, last in pieces for i in range(first, last)] == list(range(size))
    lengths = [last - first for first, last in pieces]
    assert max(lengths, default=0) <= longest
    assert max(lengths, default=0) - min(lengths, default=0) <= 1
