"""Workers: threads that sleep while they wait, and process-wide limits on other thread pools."""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")

POLL_SECONDS = 0.1  # between two looks at Ctrl-C, which does not wake a waiting thread on Windows
CGROUPS = Path("/sys/fs/cgroup")  # where Linux tells a container its quota


class _Pool(ThreadPoolExecutor):
    """A pool that makes do with fewer threads where the system gives it no more."""

    def _adjust_thread_count(self) -> None:
        try:
            super()._adjust_thread_count()
        except RuntimeError:
            if not self._threads:
                raise


class Workers:
    """Threads for work that releases the interpreter lock.

    The threads of an OpenMP pool spin while they wait; these sleep, so a fit also runs well on a
    machine whose cores are busy with something else. Where no thread can be started, as in a
    browser, the caller's does the work.
    """

    def __init__(
        self,
        n_threads: int | None = None,  # None for all cores that this process may use
        prepare: Callable[[], object] | None = None,  # called first in every thread
        on_error: Callable[[], object] = lambda: None,  # called when a task raises, before waiting
    ) -> None:
        self.n_threads = n_threads or available_cores()
        self._on_error = on_error
        self._pool: ThreadPoolExecutor | None = None
        if self.n_threads > 1:
            self._pool = _started(_Pool(self.n_threads, initializer=prepare))

    def map(self, work: Callable[..., Result], tasks: Iterable[Any]) -> list[Result]:
        """Results of ``work(task)`` in the order of the tasks."""
        try:
            if self._pool is None:
                return list(map(work, tasks))
            futures = [self._pool.submit(work, task) for task in tasks]
            return list(map(_result, futures))
        except BaseException:
            self._on_error()
            raise

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def _started(pool: ThreadPoolExecutor) -> ThreadPoolExecutor | None:
    """Return a pool with a thread, or None where none can be started."""
    try:
        pool.submit(int)
    except RuntimeError:
        return None
    return pool


def _result(future: Future[Result]) -> Result:
    """Await the result of a task in small steps, so that Ctrl-C is noticed on every platform."""
    while True:
        try:
            return future.result(POLL_SECONDS)
        except TimeoutError:
            if future.done():  # it was the task that raised it
                raise


def available_cores() -> int:
    """Count the cores that this process may use, given its affinity and its container's quota."""
    try:
        from joblib import cpu_count
    except ImportError:  # a saved model predicts with NumPy alone
        affinity = getattr(os, "sched_getaffinity", None)  # which not every system has
        permitted = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
        return max(1, min(permitted, math.ceil(_cores_of_quota())))
    return int(cpu_count())


def _cores_of_quota() -> float:
    """Cores whose time a container may use; a million where it has no quota."""
    old = CGROUPS / "cpu"
    for files in ([CGROUPS / "cpu.max"], [old / "cpu.cfs_quota_us", old / "cpu.cfs_period_us"]):
        try:
            quota, period = " ".join(file.read_text() for file in files).split()
            if float(quota) > 0 and float(period) > 0:
                return float(quota) / float(period)
        except (OSError, ValueError):  # no such file, or the quota is "max"
            continue
    return 1e6


def threads_of(n_jobs: int | None) -> int:
    """Return the number of threads for ``n_jobs``: None and -1 mean all cores, -2 all but one.

    >>> threads_of(3), threads_of(None) == threads_of(-1)
    (3, True)
    """
    from joblib import effective_n_jobs

    return available_cores() if n_jobs is None else int(effective_n_jobs(n_jobs))


class SharedLimit:
    """A process-wide setting that holds while at least one fit is running.

    Two concurrent fits must not undo each other's setting, so the first one to enter applies it and
    the last one to leave undoes it. ``apply`` returns a function that undoes the setting.
    """

    def __init__(self, apply: Callable[[], Callable[[], object]]) -> None:
        self._apply = apply
        self._lock = threading.Lock()
        self._users = 0
        self._restore: Callable[[], object] = lambda: None

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._restore = self._apply()
            self._users += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._restore()


@lru_cache(maxsize=1)
def _pools(n_modules: int) -> Any:
    """Thread pools of the libraries of all loaded modules; to look for them takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _limit_blas() -> Callable[[], object]:
    limited = _pools(len(sys.modules)).limit(limits=1, user_api="blas")
    restore: Callable[[], object] = limited.restore_original_limits
    return restore


ONE_BLAS_THREAD = SharedLimit(_limit_blas)


def split(size: int, longest: int) -> list[tuple[int, int]]:
    """Cut ``range(size)`` into pieces of nearly equal length, none longer than ``longest``.

    >>> split(5, 3)
    [(0, 2), (2, 5)]
    """
    n_pieces = -(-size // longest)
    return list(pairwise(size * i // n_pieces for i in range(n_pieces + 1))) if n_pieces else []
