"""Place: where main effects and pairs grow, if not in the threads of this process.

The rows may be held by others, who answer what growth asks of them. A fit need not know: whoever
starts it says so with ``growing_at``, and the solver grows there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tpnn.solvers.grow.engine import BagGrower, Grown, Sides, Tables
from tpnn.solvers.grow.forest import Layout
from tpnn.solvers.grow.rectangles import TreeSettings
from tpnn.solvers.problem.problem import Problem


class GrowthTask(NamedTuple):
    """One growth of one bag: where it starts, its trees of pairs, its seed and its note."""

    bag: int
    start: Tables
    pair_tree: TreeSettings | None
    seed: int
    note: str


@dataclass(frozen=True)
class Bags:
    """What all growths of a problem share."""

    problem: Problem  # its components are main effects and pairs
    layout: Layout
    grower: BagGrower
    sides: Sides


class Place(Protocol):
    """Grows bags where their rows are."""

    def grow(self, bags: Bags, tasks: Sequence[GrowthTask]) -> Iterator[tuple[int, Grown]]:
        """Yield the number of each task and what has grown, in the order in which they end."""


_PLACE: ContextVar[Place | None] = ContextVar("place", default=None)


@contextmanager
def growing_at(place: Place) -> Iterator[None]:
    """Let fits of this thread grow at a place for the duration of the context."""
    token = _PLACE.set(place)
    try:
        yield
    finally:
        _PLACE.reset(token)


def current_place() -> Place | None:
    """Where a fit of this thread grows; None for the threads of this process."""
    return _PLACE.get()
