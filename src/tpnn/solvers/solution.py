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
    """One entry in the history of a fit; fields that do not apply are None.

    Parameters
    ----------
    stage : {"search", "grow", "descent", "refit", "bands", "limit", "start"}
        Stage of the fit; "bands" says why there are none, "limit" what the time limit cut short,
        "start" what the fit added to.
    note : str
        What was tried or decided, in words.
    bag, step : int
        Number of the bag, and of the rounds or steps it was trained for.
    n_components : int
        Number of components.
    n_candidates, n_found : int
        Number of interactions that a screen scored, and of those above its noise floor.
    best_score, noise_floor : float
        Largest score, and the largest score that noise reaches.
    training_loss, validation_loss : float
        Loss on the training rows and on the held-out rows.
    seconds : float
        Time since the stage began.
    """

    stage: str
    note: str = ""
    bag: int | None = None
    step: int | None = None
    n_components: int | None = None
    n_candidates: int | None = None
    n_found: int | None = None
    best_score: float | None = None
    noise_floor: float | None = None
    training_loss: float | None = None
    validation_loss: float | None = None
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """Return the fields as a dict."""
        return asdict(self)

    def log(self, level: int) -> None:
        """Send the fields that apply to the logger "tpnn", as one line."""
        if LOGGER.isEnabledFor(level):
            known = {key: value for key, value in asdict(self).items() if value is not None}
            words = f"{known.pop('stage')}: {known.pop('note')}".rstrip(": ")
            numbers = ", ".join(f"{key} {value:.4g}" for key, value in known.items())
            LOGGER.log(level, "%s (%s)", words, numbers)


@dataclass(frozen=True)
class Verdict:
    """What held-out rows say about candidate components.

    Parameters
    ----------
    falls : array of shape (n_candidates,)
        Fall of the held-out loss due to each candidate.
    change, error : float
        Change of the held-out loss due to all candidates together, and its standard error.
    """

    falls: FloatArray
    change: float
    error: float


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
    """Fitted components on the training scale.

    Parameters
    ----------
    components : list of tuple of int
        The components, and the features of each, in canonical order: the components of the problem
        and any subsets to which a solver has moved parts of them.
    intercepts : array of shape (n_bags * K,)
        Intercepts; the K outputs of a bag are adjacent.
    tables : list of array of shape (M_1, ..., M_d, n_bags * K)
        Values of each component on its nodes.
    terms : list of Terms, or None
        Bases of each component over all bags; their sum is the mean of the bags' grids. None if the
        grids themselves, as sums of steps between nodes or levels, are the terms.
    events : list of Event
        History of the fit.
    activation, scale : str
        Kind of basis that the terms refer to.
    """

    components: list[Component]
    intercepts: FloatArray
    tables: list[FloatArray]
    terms: list[Terms] | None
    events: list[Event]
    activation: str = "sigmoid"
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
