"""with_rows: the nodes of an axis that a comparison speaks of."""

from __future__ import annotations

import numpy as np

from tpnn._utils.arrays import IntArray
from tpnn.table.axis import Axis


def with_rows(axis: Axis) -> IntArray:
    """Nodes where there are rows, or could be: not those of what no row has.

    Models differ in what they say about missing values and unseen levels without having seen any.

    >>> with_rows(Axis(np.array([0.0, 1.0, np.nan]), np.array([0.5, 0.5, 0.0]), has_missing=True))
    array([0, 1])
    """
    is_shown = np.ones(axis.n_nodes, bool)
    odd = [axis.unseen_node] * axis.has_unseen + [axis.missing_node] * axis.has_missing
    is_shown[odd] = axis.weights[odd] > 0
    return np.flatnonzero(is_shown)
