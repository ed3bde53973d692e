"""monotone_shift: the least change of whole points after which their sum is monotone."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tpnn._utils.arrays import IntArray
from tpnn.anova.components import Component


def monotone_shift(
    points: Mapping[Component, IntArray], feature: int, n_regular: int, direction: int
) -> IntArray:
    """Whole points to add to a main effect so that all sums are monotone along its feature.

    The smallest step from band b to b + 1 is that of the main effect plus, for each pair, the
    smallest over the bands of the other feature: a_b. The shift u needs u_{b+1} - u_b >= -a_b. With
    G_b the sum of -a up to b, v = u - G must not fall, and the u of least largest size is G plus
    the middle between the running maximum of -G and its running minimum from the end.

    Parameters
    ----------
    points : dict of tuple of int to array of int
        Points of main effects and pairs on bands.
    feature : int
        The feature.
    n_regular : int
        Number of its bands that have an order.
    direction : {1, -1}
        Whether sums must rise or fall.

    Returns
    -------
    array of int of shape (n_regular,)
    """
    steps = np.zeros(max(n_regular - 1, 0), np.int64)
    for component, table in points.items():
        if feature in component:
            own = np.moveaxis(table, component.index(feature), 0)[:n_regular]
            rises = direction * np.diff(own, axis=0)
            steps += rises.reshape(len(rises), -1).min(1) if len(rises) else 0
    needed = np.concatenate([[0], np.cumsum(-steps)])[:n_regular].astype(np.int64)
    up = np.maximum.accumulate(-needed)
    down = np.minimum.accumulate(-needed[::-1])[::-1]
    shift: IntArray = direction * ((up + down) // 2 + needed)
    return shift
