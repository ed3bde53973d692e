"""What the library uses of Ray, in this process: calls run at once, and can be made to fail."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

from tpnn.solvers.cluster.passes import Pass


class RayError(Exception):
    pass


class RayActorError(RayError):
    pass


class GetTimeoutError(RayError, TimeoutError):
    pass


class RayTaskError(RayError):
    def __init__(self, cause: Exception) -> None:
        super().__init__(f"raised in a worker: {cause}")
        self.cause = cause


class Pending:
    """Result of a call, or of what was put."""

    def __init__(self, value: Any = None, error: Exception | None = None) -> None:
        self.value, self.error = value, error


def travelled(argument: Any) -> Any:
    """Return what a worker gets of a pass over the table: a copy, made of bytes."""
    return pickle.loads(pickle.dumps(argument)) if isinstance(argument, Pass) else argument


class Handle:
    """A worker; calls that are named in ``faults`` of the fake fail once each."""

    def __init__(self, fake: FakeRay, actor: Any) -> None:
        self.fake, self.actor, self.is_alive = fake, actor, True

    def __getattr__(self, method: str) -> Any:
        def remote(*arguments: Any) -> Pending:
            self.fake.calls.append(method)
            fault = self.fake.faults.pop((method, self.fake.calls.count(method)), None)
            if fault == "dies before":
                self.is_alive = False
            given = [a if isinstance(a, Pending) else Pending(travelled(a)) for a in arguments]
            lost = [a.error for a in given if a.error is not None]
            if lost or not self.is_alive:
                return Pending(error=lost[0] if lost else RayActorError("The actor died."))
            try:
                value = getattr(self.actor, method)(*(a.value for a in given))
            except Exception as error:
                return Pending(error=RayTaskError(error))
            if fault == "is slow":
                return Pending(error=GetTimeoutError("Get timed out."))
            if fault == "dies after":
                self.is_alive = False
                return Pending(error=RayActorError("The actor died."))
            return Pending(value)

        return SimpleNamespace(remote=remote)


class FakeRay:
    """Ray with workers in this process.

    Parameters
    ----------
    faults : dict from a method and the number of its call to str
        Calls that fail: the worker dies before or after it has done its work, or is slow.
    has_cluster : bool
        Whether there is a cluster to connect to.
    """

    exceptions = SimpleNamespace(
        RayError=RayError, RayTaskError=RayTaskError, GetTimeoutError=GetTimeoutError
    )

    def __init__(
        self, faults: dict[tuple[str, int], str] | None = None, has_cluster: bool = True
    ) -> None:
        self.faults, self.has_cluster = dict(faults or {}), has_cluster
        self.calls: list[str] = []
        self.started: dict[str, Any] = {}  # options of the last start
        self.handles: list[Handle] = []

    def is_initialized(self) -> bool:
        return False

    def init(self, **options: Any) -> None:
        self.started = options
        if not self.has_cluster and options.get("address"):
            raise ConnectionError("Could not find any running Ray instance.")

    def remote(self, **options: Any) -> Any:
        def declared(actor: type) -> Any:
            def started(*arguments: Any) -> Handle:
                self.handles.append(Handle(self, actor(*arguments)))
                return self.handles[-1]

            return SimpleNamespace(remote=started)

        return declared

    def put(self, value: Any) -> Pending:
        return Pending(value)

    def get(self, pending: Any, timeout: float) -> Any:
        assert timeout > 0
        if isinstance(pending, list):
            return [self.get(one, timeout) for one in pending]
        if pending.error is not None:
            raise pending.error
        return pending.value

    def kill(self, handle: Handle) -> None:
        handle.is_alive = False
