"""Workers: a few threads that sleep while they wait, and process-wide limits on other pools."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

Result = TypeVar("Result")


class Workers:
    """Threads for work that releases the interpreter lock.

    Sleeping threads, in place of an OpenMP pool that spins, keep a fit usable on a machine whose
    cores are busy with something else.

    Parameters
    ----------
    n_threads : int, optional
        Number of threads, by default the cores that this process may use.
    prepare : callable, optional
        What every thread does first.
    """

    def __init__(
        self, n_threads: int | None = None, prepare: Callable[[], object] | None = None
    ) -> None:
        self.n_threads = n_threads or _n_cores()
        self._pool: ThreadPoolExecutor | None = None
        if self.n_threads > 1:
            self._pool = ThreadPoolExecutor(self.n_threads, initializer=prepare)

    def map(self, work: Callable[..., Result], tasks: Iterable[Any]) -> list[Result]:
        """Results of ``work(task)`` in the order of the tasks."""
        if self._pool is None:
            return [work(task) for task in tasks]
        return list(self._pool.map(work, tasks))

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def _n_cores() -> int:
    """Cores that this process may use, where the system says."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class SharedLimit:
    """A process-wide setting that holds while at least one fit is under way.

    Two fits at a time must not restore each other's setting: the first one in sets it, the last one
    out restores it.

    Parameters
    ----------
    apply : callable
        Makes the setting and returns the function that undoes it.
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


ONE_BLAS_THREAD = SharedLimit(lambda: threadpool_limits(1, user_api="blas").restore_original_limits)


def split(size: int, longest: int) -> list[tuple[int, int]]:
    """Cut ``range(size)`` into pieces of nearly equal length, none longer than ``longest``.

    >>> split(5, 3)
    [(0, 2), (2, 5)]
    """
    parts = -(-size // longest)
    return list(pairwise(size * part // parts for part in range(parts + 1))) if parts else []
