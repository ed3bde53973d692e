"""Base: a model to which a fit adds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import Component

Grids = Mapping[Component, FloatArray]


@dataclass(frozen=True)
class Base:
    """A model to which a fit adds, on the nodes and masses of the problem, in the user's units.

    Parameters
    ----------
    tables, spreads : dict from component to array of shape (M_1, ..., M_d, K)
        Values of each component on its nodes, and their standard deviations over the bags.
    intercepts : array of shape (K,)
        Its intercepts.
    frozen : set of tuple of int
        Components of it to which nothing is added.
    """

    tables: Grids
    spreads: Grids
    intercepts: FloatArray
    frozen: frozenset[Component] = frozenset()

    def plus(
        self, tables: Grids, spreads: Grids
    ) -> tuple[dict[Component, FloatArray], dict[Component, FloatArray]]:
        """Tables and spreads of the sum of this model and what a fit found.

        What is left of frozen components there, by rounding, is dropped.
        """
        sums, deviations = dict(self.tables), dict(self.spreads)
        for component in tables.keys() - self.frozen:
            known = component in sums
            sums[component] = tables[component] + (sums[component] if known else 0.0)
            before = deviations[component] if known else 0.0
            deviations[component] = np.hypot(before, spreads[component])
        return sums, deviations
