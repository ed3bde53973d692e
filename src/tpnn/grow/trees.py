"""What trees of every order share: their settings, and seeded random draws, compiled."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np

from tpnn.problem.bits import scrambled

NEW_GAIN = 1e30  # of a component that was not visited yet
RAREST_VISIT = 0.03  # chance of a visit, at least, to a component whose last gain was small


class TreeSettings(NamedTuple):
    """Shape of one tree.

    Parameters
    ----------
    n_leaves : int
        Rectangles per tree.
    rate : float
        Shrinkage of the leaf values.
    ridge : float
        Added to the mass of a leaf, in rows.
    min_mass : float
        Smallest mass of a leaf, in rows.
    share : float
        Share of the possible cuts that are tried, drawn at random.
    fewest : int
        Cuts tried along an axis at least, where there are as many.
    random_first : bool
        Whether the first cut is drawn uniformly: it makes pure interactions visible.
    sign : float
        1 or -1 where the first axis may only step up or down, else 0.
    exempt : int
        Place of a cut on the first axis to which the sign does not apply.
    largest : float
        Bound on the size of a leaf value before it is shrunk.
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


@nb.njit(nogil=True, cache=True)
def one_way(settings: Any, sign: float, exempt: int) -> Any:
    """Return settings of a tree of two leaves that steps in one direction."""
    return TreeSettings(
        2, settings.rate, settings.ridge, settings.min_mass, settings.share, settings.fewest,
        settings.random_first, sign, exempt, settings.largest,
    )  # fmt: skip


@nb.njit(nogil=True, cache=True)
def bounded(value: float, settings: Any) -> Any:
    """Leaf value within the bound of its tree."""
    return min(max(value, -settings.largest), settings.largest)


@nb.njit(nogil=True, cache=True)
def draw(state: Any) -> Any:
    """Next 64 random bits (splitmix64); ``state`` is an array of one uint64."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    return scrambled(state[0])


@nb.njit(nogil=True, cache=True)
def draw_uniform(state: Any) -> Any:
    """Random number in [0, 1)."""
    return (draw(state) >> np.uint64(40)) * (1.0 / (1 << 24))


@nb.njit(nogil=True, cache=True)
def draw_below(state: Any, size: int) -> Any:
    """Random integer in [0, size)."""
    return np.int64(draw_uniform(state) * size)
