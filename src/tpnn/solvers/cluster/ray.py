"""Ray: workers of a cluster that are replaced when lost, and datasets copied to a storage."""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tpnn import __version__
from tpnn._utils.rules import warn
from tpnn.solvers.cluster.driver import Record
from tpnn.solvers.cluster.messages import Answer, Message, Request, combined
from tpnn.solvers.cluster.passes import Pass, Read
from tpnn.solvers.cluster.storage import Share, Storage
from tpnn.solvers.cluster.worker import PackedStep, Session, Worker

LOGGER = logging.getLogger("tpnn")

FOLDER = "table"  # of the storage, for copied datasets
MOST_ANSWERS_AT_ONCE = 16  # that the driver adds itself; workers add more of them in groups
SECONDS_TO_START, SECONDS_TO_ANSWER = 120.0, 600.0  # after which a worker counts as lost
MOST_ATTEMPTS = 3  # of one call, each by a new worker


def is_of_ray(source: Any) -> bool:
    """Whether a source is a dataset of Ray, which is then imported already."""
    data = sys.modules.get("ray.data")
    return data is not None and isinstance(source, data.Dataset)


def copied(source: Any, storage: Storage) -> Any:
    """Return a dataset of pyarrow with the rows of a dataset of Ray.

    Each of its blocks becomes a file, whose name tells the content: what an earlier call has
    written is not written again, and the order in which Ray yields blocks does not matter.
    """
    import pyarrow as pa
    from pyarrow import dataset, parquet

    copies, names = Counter[str](), list[str]()
    for block in source.iter_batches(batch_size=None, batch_format="pyarrow"):
        if not block.num_rows:
            continue
        stream = pa.BufferOutputStream()
        parquet.write_table(block, stream)
        content = stream.getvalue()
        digest = hashlib.blake2b(content, digest_size=16).hexdigest()
        names.append(f"{FOLDER}/{digest}-{copies[digest]}.parquet")
        copies[digest] += 1
        if not storage.has(names[-1]):
            storage.write_bytes(names[-1], content)
    if not names:
        raise ValueError(
            "source: rows are needed, found none in the dataset of Ray. Check what it reads, and "
            "its filters."
        )
    paths = [f"{storage.folder}/{name}" for name in sorted(names)]
    return dataset.dataset(paths, filesystem=storage.files, format="parquet")


def import_ray() -> Any:
    """Return Ray, which only distributed fits need."""
    try:
        import ray
    except ImportError as error:
        raise ImportError(
            f"tpnn.distributed: fits on several machines are run by Ray ({error}). Run: pip "
            'install "tpnn[ray]", or call the fit method of the estimator.'
        ) from error
    return ray


def connect(ray: Any, n_workers: int) -> None:
    """Connect to a running cluster, unless this process has done so; without one, start Ray here.

    On this machine Ray gets as many cores as there are workers, who share the real ones.
    """
    if ray.is_initialized():
        return
    try:
        ray.init(address="auto", log_to_driver=False)
    except ConnectionError as error:
        if os.environ.get("RAY_ADDRESS"):
            raise ConnectionError(
                f"tpnn.distributed: RAY_ADDRESS must be that of a running cluster of Ray, found "
                f"{os.environ['RAY_ADDRESS']!r} ({error}). Correct it, or unset it to start Ray on "
                "this machine."
            ) from error
        warn(
            f"tpnn.distributed: no running cluster of Ray was found, so one is started on this "
            f"machine, with {n_workers} workers. Run ray start --head, or set RAY_ADDRESS, for "
            "more machines."
        )
        ray.init(num_cpus=n_workers, log_to_driver=False, include_dashboard=False)


class Cluster:
    """Workers in the cluster that this process is connected to.

    Every call has a time-out. A worker that does not answer, or is gone, is replaced: the new one
    loads the same blocks, and the record tells it where the others are.
    """

    def __init__(
        self,
        ray: Any,  # the module
        storage: Storage,
        size: int,  # number of workers, each with one core
    ) -> None:
        self.ray, self.storage, self.size = ray, storage, size
        self._actor = ray.remote(num_cpus=1)(Worker)
        self._shares: Sequence[Share] | None = None
        self.record: Record | None = None
        self.n_replaced, self.is_open = 0, False

    def __enter__(self) -> Cluster:
        self.workers = [self._actor.remote(self.storage) for _ in range(self.size)]
        try:
            self._check_versions()
        except BaseException:
            self.__exit__()
            raise
        self.is_open = True
        return self

    def _check_versions(self) -> None:
        """Await the start of all workers; refuse machines with another version."""
        errors = self.ray.exceptions
        try:
            pending = [worker.version.remote() for worker in self.workers]
            versions = self.ray.get(pending, timeout=SECONDS_TO_START)
        except errors.GetTimeoutError as error:
            raise TimeoutError(
                f"workers: {self.size} free cores are needed, found too few in the cluster within "
                f"{SECONDS_TO_START:.0f} s. Pass fewer workers, or add machines."
            ) from error
        except errors.RayError as error:
            raise RuntimeError(
                f"workers: every machine must be able to start one, found one that is not "
                f"({str(error).strip().splitlines()[-1]}). Install tpnn[ray] on all of them."
            ) from error
        others = sorted(set(versions) - {__version__})
        if others:
            raise RuntimeError(
                f"workers: every machine must have tpnn {__version__}, found {others}. Install "
                "the same version everywhere."
            )

    def __exit__(self, *exception: object) -> None:
        self.is_open = False
        for worker in self.workers:
            self.ray.kill(worker)

    def read(self, passes: Sequence[Pass]) -> list[Read]:
        """Let each worker, or the first few, make a pass over a part of the table."""
        return self._call("read", passes)

    def hold(self, shares: Sequence[Share]) -> None:
        """Let every worker load its blocks."""
        self._shares, self.record = shares, None
        self._call("hold", shares)

    def begin(self, session: Session) -> None:
        """Begin growths that ask together."""
        self.record = Record(session)
        self._call("begin", self.size * [self.ray.put(session)])

    def ask(self, requests: Mapping[int, Request]) -> Answer:
        """Pass on the steps of all growths, and answer their questions in order."""
        assert self.record is not None
        message = self.record.message(requests)
        sent: Any = message if self.size <= MOST_ANSWERS_AT_ONCE else self.ray.put(message)
        answers = [worker.answer.remote(sent) for worker in self.workers]
        packed = [PackedStep.of(step) for step in message.steps]  # while the workers work
        answer = self._combined(answers, message)
        self.record.add(requests, packed)
        return answer

    def busy_seconds(self) -> list[float]:
        """Seconds that the core of each worker was busy since it began."""
        return self._call("busy_seconds", self.size * [None])

    def _combined(self, answers: Sequence[Any], message: Message) -> Answer:
        """Add the answers of all workers; if there are many, workers add groups of them first."""
        if self.size > MOST_ANSWERS_AT_ONCE:
            firsts = range(0, self.size, MOST_ANSWERS_AT_ONCE)
            parts = [
                self.workers[first].add.remote(*answers[first : first + MOST_ANSWERS_AT_ONCE])
                for first in firsts
            ]
            try:
                return combined(self.ray.get(parts, timeout=SECONDS_TO_ANSWER))
            except self.ray.exceptions.RayError:
                LOGGER.warning("A worker is lost; the driver asks every worker itself.")
        return combined([self._result(n, answers[n], "answer", message) for n in range(self.size)])

    def _call(self, method: str, arguments: Sequence[Any]) -> list[Any]:
        """Results of a method of the workers, each with its own argument."""
        pending = [self._send(n, method, argument) for n, argument in enumerate(arguments)]
        return [self._result(n, result, method, arguments[n]) for n, result in enumerate(pending)]

    def _send(self, number: int, method: str, argument: Any) -> Any:
        call = getattr(self.workers[number], method)
        return call.remote() if argument is None else call.remote(argument)

    def _result(self, number: int, pending: Any, method: str, argument: Any) -> Any:
        """Await the result of a worker; replace the worker if it is lost, and try again."""
        errors, lost = self.ray.exceptions, None
        for _ in range(MOST_ATTEMPTS):
            try:
                if lost is not None:
                    self._replace(number)
                    pending = self._send(number, method, argument)
                return self.ray.get(pending, timeout=SECONDS_TO_ANSWER)
            except errors.RayTaskError as error:  # what the worker itself raised
                raise error.cause from None
            except errors.RayError as error:
                lost = error
                LOGGER.warning("Worker %d is lost; another one takes its place.", number)
        raise RuntimeError(
            f"workers: one that is lost is replaced, found {MOST_ATTEMPTS} lost one after the "
            f"other ({str(lost).strip().splitlines()[0]}). Look into the logs of Ray; often the "
            "memory of a machine is full, and more workers on more machines help."
        ) from lost

    def _replace(self, number: int) -> None:
        """Put a new worker in the place of a lost one, as far along as the others."""
        self.ray.kill(self.workers[number])
        self.n_replaced += 1
        self.workers[number] = self._actor.remote(self.storage)
        pending = []
        if self._shares is not None:
            pending.append(self._send(number, "hold", self._shares[number]))
        if self.record is not None:
            pending.append(self._send(number, "begin", self.record.session()))
        self.ray.get(pending, timeout=SECONDS_TO_ANSWER)
