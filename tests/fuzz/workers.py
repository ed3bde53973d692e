"""Seeds in processes of their own: a crash or a hang of the interpreter is an outcome too."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from multiprocessing.connection import Connection, wait
from typing import Any

from benchmarks.common.pool import THREADS
from tests.fuzz.outcome import Outcome

Job = Callable[[int], Outcome]

LONGEST = 600.0  # seconds of one seed, the first of a process with its imports included
MOST_BYTES = 4 << 30  # of data that a process may have; the code of libraries is none


def outcomes(
    job: Job, seeds: Sequence[int], n_workers: int, most_seconds: float = inf
) -> Iterator[Outcome]:
    """Outcome of every seed that there is time for, in the order in which they are known.

    A process that dies, or is silent for too long, is replaced, and its seed counts as a failure.
    """
    end = time.monotonic() + most_seconds
    os.environ.update(dict.fromkeys(THREADS, "1") | {"CUDA_VISIBLE_DEVICES": ""})  # inherited
    running = [Worker(job, seeds[first::n_workers]) for first in range(n_workers)]
    running = [worker for worker in running if worker.seeds]
    try:
        while running and time.monotonic() < end:
            ready = wait([worker.pipe for worker in running], timeout=1.0)
            for worker in list(running):
                outcome = worker.next(worker.pipe in ready)
                if outcome is not None:
                    yield outcome
                if not worker.seeds:
                    worker.process.join()  # it ends by itself, or has ended
                    running.remove(worker)
    finally:
        for worker in running:
            worker.stop()


@dataclass
class Worker:
    """One process and the seeds that it still has to try."""

    job: Job
    seeds: Sequence[int]
    pipe: Connection = field(init=False)
    process: Any = field(init=False)
    heard: float = field(init=False)

    def __post_init__(self) -> None:
        if self.seeds:
            self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=_work, args=(self.job, list(self.seeds), theirs))
        self.process.start()
        theirs.close()
        self.heard = time.monotonic()

    def next(self, is_ready: bool) -> Outcome | None:
        """Outcome of the next seed, None where it is not known yet."""
        outcome: Outcome | None = None
        if is_ready:
            try:
                outcome = self.pipe.recv()
            except EOFError:
                self.process.join()
                outcome = self._replaced(f"failed: the process died ({self.process.exitcode})")
        elif time.monotonic() - self.heard > LONGEST:
            outcome = self._replaced(f"failed: no answer in {LONGEST:.0f} seconds")
        if outcome is not None:
            self.seeds, self.heard = self.seeds[1:], time.monotonic()
        return outcome

    def _replaced(self, kind: str) -> Outcome:
        """Start a new process behind the seed that ended the old one."""
        self.stop()
        seed, self.seeds = self.seeds[0], self.seeds[1:]
        if self.seeds:
            self._start()
        self.seeds = [seed, *self.seeds]  # as if it had been answered
        return Outcome(seed, kind)

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _work(job: Job, seeds: Sequence[int], pipe: Connection) -> None:
    """Try the seeds and send each outcome; memory has a limit where the system knows one."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    except ImportError:  # Windows
        pass
    for seed in seeds:
        pipe.send(job(seed))
    pipe.close()
