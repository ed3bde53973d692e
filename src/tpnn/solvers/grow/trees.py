"""What trees of every order share: settings and seeded random draws, compiled."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tpnn._utils.compile import compiled
from tpnn.solvers.problem.bits import scrambled

UNVISITED_GAIN = 1e30  # gain of a component before its first visit
FROZEN_GAIN = -1.0  # of a component that is never visited
SMALLEST_VISIT_PROBABILITY = 0.03  # even if the last gain of the component was small


class TreeSettings(NamedTuple):
    """Settings of one tree.

    Parameters
    ----------
    n_leaves : int
        Number of leaves: rectangles or boxes.
    rate : float
        Learning rate: the factor that shrinks leaf values.
    ridge : float
        Added to the mass of a leaf, in rows.
    min_mass : float
        Smallest mass of a leaf, in rows.
    share : float
        Share of the possible cuts that are tried, drawn at random.
    fewest : int
        Smallest number of cuts tried along an axis, if it has that many.
    random_first : bool
        Whether the first cut is drawn uniformly, which makes pure interactions visible.
    sign : float
        1 or -1 if values may only step up or down along the first axis, else 0.
    exempt : int
        Place on the first axis where a cut need not obey the sign; -1 for none.
    largest : float
        Largest absolute leaf value before shrinkage.
    """

    n_leaves: int
    rate: float
    ridge: float
    min_mass: float
    share: float
    fewest: int
    random_first: bool
    sign: float = 0.0
    exempt: int = -1
    largest: float = 1e30


@compiled()
def one_way(settings: Any, sign: float, exempt: int) -> Any:
    """Return the settings of a tree with two leaves that steps in one direction."""
    return TreeSettings(
        n_leaves=2, rate=settings.rate, ridge=settings.ridge, min_mass=settings.min_mass,
        share=settings.share, fewest=settings.fewest, random_first=settings.random_first,
        sign=sign, exempt=exempt, largest=settings.largest,
    )  # fmt: skip


@compiled()
def bounded(value: float, settings: Any) -> Any:
    """Clip a leaf value to the bound of its tree."""
    return min(max(value, -settings.largest), settings.largest)


@compiled()
def draw(state: Any) -> Any:
    """Next 64 random bits (splitmix64); ``state`` is an array of one uint64."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    return scrambled(state[0])


@compiled()
def draw_uniform(state: Any) -> Any:
    """Random number in [0, 1)."""
    return (draw(state) >> np.uint64(40)) * (1.0 / (1 << 24))


@compiled()
def draw_below(state: Any, size: int) -> Any:
    """Random integer in [0, size)."""
    return np.int64(draw_uniform(state) * size)
