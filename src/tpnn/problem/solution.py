"""Solution: what a solver hands back, and the events on the way to it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from tpnn._typing import FloatArray
from tpnn.anova.components import Component
from tpnn.anova.terms import Terms


@dataclass(frozen=True, kw_only=True)
class Event:
    """One line of the history of a fit; None where a field does not apply.

    Parameters
    ----------
    stage : {"search", "grow", "descent"}
        What was going on.
    note : str
        What was tried or decided, in words.
    bag, step : int
        Bag, and rounds or steps that it was trained for.
    n_components : int
        Number of components.
    n_candidates, n_found : int
        Interactions that a screen scored, and those above its noise floor.
    best_score, noise_floor : float
        Largest score, and the largest that noise reaches.
    training_loss, validation_loss : float
        Loss on the training rows and on the held-out rows.
    seconds : float
        Since the stage began.
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


class Progress(Protocol):
    """Who wants to know how far a fit is."""

    def begin(self, total: int, unit: str) -> None:
        """Expect so many events of a unit."""

    def advance(self, event: Event) -> None:
        """Take note of the next one."""


class NoProgress:
    """Nobody wants to know."""

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
        Its components in canonical order, axes included: those of the problem and, where a solver
        has moved a part of a component to its subsets, those subsets.
    intercepts : array of shape (n_bags * K,)
        Intercept of each bag, the K outputs of a bag together.
    tables : list of array of shape (M_1, ..., M_d, n_bags * K)
        Values of each component on its nodes.
    terms : list of Terms, or None
        Each component's bases over all bags; their sum is the mean of the bags' tables. None where
        the tables themselves, as sums of steps between nodes or levels, are the terms.
    events : list of Event
        What happened.
    activation, scale : str
        Which basis the terms refer to.
    """

    components: list[Component]
    intercepts: FloatArray
    tables: list[FloatArray]
    terms: list[Terms] | None
    events: list[Event]
    activation: str = "sigmoid"
    scale: str = "centred"
