"""What a solver gets and gives back: limits of time and patience, and a solution."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import compress
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import BoolArray, Float32Array, FloatArray, RealArray
from tpnn._utils.threads import Workers
from tpnn.anova.components import Component
from tpnn.anova.terms import Terms


@dataclass(frozen=True)
class Limits:
    """How long a fit may take, on how many threads and on which device."""

    deadline: float = math.inf  # ``time.monotonic()`` at which to stop with the best result so far
    n_threads: int | None = None  # None for the number of cores that this process may use
    device: str = "cpu"  # "auto", "cpu" or "cuda"
    cancelled: threading.Event = field(default_factory=threading.Event)  # stops all threads

    def are_reached(self) -> bool:
        """Whether the time is up or the fit was interrupted."""
        return self.cancelled.is_set() or time.monotonic() >= self.deadline

    def check(self, purpose: str) -> None:
        """Raise TimeoutError if the time is up or the fit was interrupted."""
        if self.are_reached():
            raise TimeoutError(f"the time limit left no time for {purpose}")

    @property
    def has_no_deadline(self) -> bool:
        """Whether the fit may take as long as it needs."""
        return math.isinf(self.deadline)

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline, negative after it."""
        return self.deadline - time.monotonic()

    def share(self, share: float) -> Limits:
        """Limits with only a share of the remaining time; they are cancelled together."""
        now = time.monotonic()
        return replace(self, deadline=now + share * (self.deadline - now))

    def workers(self, prepare: Callable[[], object] | None = None) -> Workers:
        """Threads of this fit; an exception in one of them, or Ctrl-C, cancels the others."""
        return Workers(self.n_threads, prepare, on_error=self.cancelled.set)


class EarlyStopping:
    """The lowest held-out loss of every bag, and whether all bags have stalled."""

    def __init__(
        self,
        n_bags: int,
        patience: int,  # steps without progress after which a bag has stalled
        tolerance: float = 0.0,  # relative fall of the loss that counts as progress
        tie: float = 0.0,  # relative difference below which rounding must not choose
        grace: int = 0,  # step from which patience is counted
    ) -> None:
        self.patience, self.tolerance, self.tie, self.grace = patience, tolerance, tie, grace
        self.best: FloatArray = np.full(n_bags, np.inf)
        self.mark: FloatArray = np.full(n_bags, np.inf)  # last loss that was progress
        self.restart()

    def restart(self) -> None:
        """Count the steps from zero again; keep the lowest losses."""
        self.step = 0
        self.last_fall = np.full(len(self.best), self.grace)

    def update(self, losses: RealArray, step: int) -> BoolArray:
        """Record the losses (n_bags,) of a step; return which bags are at their best."""
        better: BoolArray = losses < _lowered(self.best, self.tie)
        self.best = np.where(better, losses, self.best)
        fell = losses < _lowered(self.mark, self.tolerance)
        self.mark = np.where(fell, losses, self.mark)
        self.last_fall[fell] = max(step, self.grace)
        self.step = step
        return better

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the state as arrays, for ``restore``."""
        arrays = {"best": self.best, "mark": self.mark, "last_fall": self.last_fall}
        return arrays | {"step": np.array(self.step)}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from a state."""
        self.best, self.mark, self.last_fall = (
            state[name].copy() for name in ("best", "mark", "last_fall")
        )
        self.step = int(state["step"])

    @property
    def has_stalled(self) -> bool:
        """Whether every bag has run out of patience."""
        return bool((self.step - self.last_fall >= self.patience).all())


def _lowered(losses: FloatArray, share: float) -> FloatArray:
    """Losses less a share of their size; a likelihood without its constants can be negative."""
    return losses if share == 0 else losses * (1 - share * np.sign(losses))


LOGGER = logging.getLogger("tpnn")


@dataclass(frozen=True, kw_only=True)
class Event:
    """One entry in the history of a fit; fields that do not apply are None."""

    # "table", "search", "grow", "descent", "mix", "refit", "bands", "limit", "start" or "time"
    stage: str
    note: str = ""  # what was tried or decided
    bag: int | None = None
    step: int | None = None  # rounds or steps that the bag was trained for
    n_components: int | None = None
    n_candidates: int | None = None  # components of the deep trees
    training_loss: float | None = None
    validation_loss: float | None = None  # on the held-out rows
    seconds: float  # that it took; entries of bags that grew at the same time overlap

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a dict."""
        return asdict(self)

    def log(self, level: int) -> None:
        """Send the fields that apply to the logger "tpnn", as one line."""
        if LOGGER.isEnabledFor(level):
            fields = {key: value for key, value in asdict(self).items() if value is not None}
            text = f"{fields.pop('stage')}: {fields.pop('note')}".rstrip(": ")
            numbers = ", ".join(f"{key} {value:.4g}" for key, value in fields.items())
            LOGGER.log(level, "%s (%s)", text, numbers)


class Stopwatch:
    """Seconds of each stage of a fit, on the clock; together they are those of the fit."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, stage: str) -> None:
        """Add to a stage all the time since the last lap."""
        last, self._last = self._last, time.monotonic()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + self._last - last

    def events(self) -> list[Event]:
        """Return one entry of the history for each stage."""
        pairs = self.seconds.items()
        return [Event(stage="time", note=stage, seconds=seconds) for stage, seconds in pairs]

    def table(self) -> str:
        """Return a small table for people: stages, seconds, and shares of the whole."""
        whole = sum(self.seconds.values())
        rows = [*self.seconds.items(), ("in all", whole)]
        width = max(len(stage) for stage, _ in rows)
        return "\n".join(
            f"{stage:{width}}  {seconds:8.2f} s  {seconds / max(whole, 1e-9):4.0%}"
            for stage, seconds in rows
        )


class Progress(Protocol):
    """Receives the events of a fit while it runs."""

    def begin(self, total: int, unit: str) -> None:
        """Announce the expected number of events, and what one event is."""

    def advance(self, event: Event) -> None:
        """Report the next event."""


class NoProgress:
    """Ignores all events."""

    def begin(self, total: int, unit: str) -> None:
        """Do nothing."""

    def advance(self, event: Event) -> None:
        """Do nothing."""


@dataclass(frozen=True, kw_only=True)
class Solution:
    """Fitted components on the training scale."""

    components: list[Component]  # of the problem, and subsets to which a solver has moved averages
    intercepts: FloatArray  # (n_bags * K,); the K outputs of a bag are adjacent
    tables: list[FloatArray]  # (M_1, ..., M_d, n_bags * K), on the nodes
    terms: list[Terms] | None  # their sum is the mean grid; None if grids are the terms
    events: list[Event]
    activation: str = "sigmoid"  # kind of basis that the terms refer to
    scale: str = "centred"
    remainder: Float32Array | None = None  # (n, n_bags * K): what the rows have besides components

    def restrict(self, components: Collection[Component]) -> Solution:
        """Keep some of the components, given with increasing features; the others are dropped."""
        kept = [tuple(sorted(component)) in components for component in self.components]
        return replace(
            self,
            components=list(compress(self.components, kept)),
            tables=list(compress(self.tables, kept)),
            terms=self.terms and list(compress(self.terms, kept)),
        )
