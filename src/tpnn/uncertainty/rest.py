"""The rough rest of a component: what its smooth functions leave of the grids of the bags.

Every bag trains on a share q of the rows, so the bags are a delete-d jackknife: the variance of the
rest is q / (1 - q) times its variance over the bags. Steps that are blurred or misplaced are a bias
that no bag shows; a part of the rest itself stands for them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tpnn._utils.arrays import FloatArray

BIAS_SHARE = 0.5  # of the rough rest that may be bias
NEIGHBOUR_WIDTHS = {1: 0.03, 2: 0.06, 3: 0.1}  # on the rank scale, of neighbours that are pooled
SMALLEST_MASS = 1e-12


def rough_variance(rest: FloatArray, weights: Sequence[FloatArray], trained: float) -> FloatArray:
    """Variance of the rough rest (M_1, ..., M_d, n_bags, K), pooled over neighbouring nodes.

    ``trained`` is the share q of the rows that a bag trains on. With a single bag all of the rest
    may be wrong.
    """
    mean, n_bags = rest.mean(-2), rest.shape[-2]
    if n_bags == 1:
        return _pooled(mean**2, weights)
    jackknife = trained / (1 - trained) * rest.var(-2, ddof=1)
    return _pooled(jackknife + BIAS_SHARE**2 * mean**2, weights)


def _pooled(values: FloatArray, weights: Sequence[FloatArray]) -> FloatArray:
    """Mean of a grid over neighbouring nodes, by mass and by a normal kernel on their ranks."""
    width = NEIGHBOUR_WIDTHS[min(len(weights), max(NEIGHBOUR_WIDTHS))]
    for axis, given in enumerate(weights):
        masses = np.maximum(given, SMALLEST_MASS)
        ranks = np.cumsum(masses) - masses / 2
        kernel = np.exp(-0.5 * ((ranks[:, None] - ranks) / width) ** 2) * masses
        kernel /= kernel.sum(1, keepdims=True)
        values = np.moveaxis(np.tensordot(kernel, values, (1, axis)), 0, axis)
    return values
