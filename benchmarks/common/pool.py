"""Cells in processes of their own, several at a time."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from typing import Any, TypeVar

THREADS = (  # what the pools of all libraries go by; ours ask for the number of cores
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS",
    "POLARS_MAX_THREADS", "TOKIO_WORKER_THREADS", "LOKY_MAX_CPU_COUNT",
)  # fmt: skip
Cell = TypeVar("Cell")
Result = TypeVar("Result")
RIVALS = "interpret|xgboost|lightgbm|catboost|pygam|optuna|sklearn|joblib|numpy|scipy"


def in_processes(
    work: Callable[[Cell], Result], cells: Sequence[Cell], jobs: int, one_core: bool = False
) -> Iterator[tuple[Cell, Future[Result]]]:
    """Work on the cells, ``jobs`` at a time; give each with its future as soon as it is done.

    Parameters
    ----------
    work : callable
        From a cell to its result; both travel between processes.
    cells : sequence
        What to work on.
    jobs : int
        Processes.
    one_core : bool
        Whether each process is bound to a core of its own, with one thread.
    """
    context = multiprocessing.get_context("spawn")
    begun = context.Value("i", 0)
    if one_core:
        os.environ.update(dict.fromkeys(THREADS, "1"))  # the processes inherit it
    prepare: tuple[Any, ...] = (_take_a_core, (begun,)) if one_core else (ignore_warnings,)
    with ProcessPoolExecutor(jobs, context, *prepare) as pool:
        tasks = {pool.submit(work, cell): cell for cell in cells}
        for task in as_completed(tasks):
            yield tasks[task], task


def ignore_warnings() -> None:
    """Ignore the warnings of other libraries, which are not ours to act upon."""
    warnings.filterwarnings("ignore", module=RIVALS)


def _take_a_core(begun: Any) -> None:
    """Bind the process to one core, where the system can."""
    warnings.filterwarnings("ignore")
    with begun.get_lock():
        number, begun.value = begun.value, begun.value + 1
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})
