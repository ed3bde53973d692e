"""Independent measurements at a time, each in a process that has one core for itself."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def each_on_a_core(
    measure: Callable[[Any], str], cells: Sequence[Any], jobs: int, say: Callable[[str], None]
) -> None:
    """Measure the cells, ``jobs`` at a time, and say what each returns; failures stop no other."""
    os.environ.update(dict.fromkeys(THREADS, "1"))  # the processes inherit it
    context = multiprocessing.get_context("spawn")
    begun = context.Value("i", 0)
    with ProcessPoolExecutor(jobs, context, _take_a_core, (begun,)) as pool:
        tasks = {pool.submit(measure, cell): cell for cell in cells}
        for task in as_completed(tasks):
            failure = task.exception()
            say(f"{tasks[task]} failed: {failure!r}" if failure else task.result())


def _take_a_core(begun: Any) -> None:
    """Bind the process to one core, where the system can."""
    warnings.filterwarnings("ignore")  # of other libraries, not ours to warn about
    with begun.get_lock():
        number, begun.value = begun.value, begun.value + 1
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})
