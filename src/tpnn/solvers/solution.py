"""Solution: what a solver returns, and the events on the way to it."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from itertools import compress
from typing import Any, Protocol

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import Component
from tpnn.anova.terms import Terms

LOGGER = logging.getLogger("tpnn")


@dataclass(frozen=True, kw_only=True)
class Event:
    """One entry in the history of a fit; fields that do not apply are None."""

    stage: str  # "search", "grow", "descent", "refit", "bands", "limit" or "start"
    note: str = ""  # what was tried or decided
    bag: int | None = None
    step: int | None = None  # rounds or steps that the bag was trained for
    n_components: int | None = None
    n_candidates: int | None = None  # interactions that a screen scored
    n_found: int | None = None  # those above its noise floor
    best_score: float | None = None
    noise_floor: float | None = None  # largest score that noise reaches
    training_loss: float | None = None
    validation_loss: float | None = None  # on the held-out rows
    seconds: float  # since the stage began

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


@dataclass(frozen=True)
class Verdict:
    """What held-out rows say about candidate components."""

    falls: FloatArray  # (n_candidates,), of the held-out loss
    change: float  # of the held-out loss by all candidates together
    error: float  # standard error of ``change``


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

    def restrict(self, components: Collection[Component]) -> Solution:
        """Keep some of the components, given with increasing features; the others are dropped."""
        kept = [tuple(sorted(component)) in components for component in self.components]
        return replace(
            self,
            components=list(compress(self.components, kept)),
            tables=list(compress(self.tables, kept)),
            terms=self.terms and list(compress(self.terms, kept)),
        )
