"""Workers: a few threads that sleep while they wait."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, TypeVar

Result = TypeVar("Result")


class Workers:
    """Threads for work that releases the interpreter lock.

    Sleeping threads, in place of an OpenMP pool that
    spins, keep a fit usable on a machine whose cores are busy with something else.
    """

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_threads = n_threads or len(os.sched_getaffinity(0))
        self._pool = ThreadPoolExecutor(self.n_threads) if self.n_threads > 1 else None

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


def split(size: int, longest: int) -> list[tuple[int, int]]:
    """Cut ``range(size)`` into pieces of nearly equal length, none longer than ``longest``.

    >>> split(5, 3)
    [(0, 2), (2, 5)]
    """
    parts = -(-size // longest)
    return list(pairwise(size * part // parts for part in range(parts + 1))) if parts else []
