"""A frozen model's components at any values, and their names in sheets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import Component
from tpnn.model.model import AnovaModel

FACTOR_LINKS = ("log", "logit")  # exp(effect) is a factor on the mean, or on the odds


def title(names: Sequence[str]) -> str:
    """Name of a component.

    >>> title(("age", "town"))
    'age x town'
    """
    return " x ".join(names)


def band_of(model: AnovaModel, place: int) -> tuple[FloatArray, FloatArray]:
    """Lower and upper end of the pointwise band of 95 % of a component; NaN without a band."""
    table = model.tables[place]
    reach = np.full(table.shape, np.nan)
    known = None if model.posteriors is None else model.posteriors[place]
    if known is not None:
        reach = known.uncertainty().half_widths()
    return table - reach, table + reach


def values_at(model: AnovaModel, component: Component, numbers: Sequence[FloatArray]) -> FloatArray:
    """First output of a component on a grid of values, (n_1, ..., n_d).

    Parameters
    ----------
    model : AnovaModel
        The model.
    component : tuple of int
        One of its components, of d features.
    numbers : sequence of array
        Values of each of the d features, as the numbers that the encoder reads: NaN is a missing
        value, inf an unseen level.
    """
    table = model.tables[model.components.components.index(component)][..., 0]
    grid = np.pad(table, [(0, 2)] * table.ndim)  # the null node, and a neighbour of it
    for place, axis in enumerate(model.axes(component)):
        lower, fraction = axis.locate(numbers[place])
        shape = [-1 if other == place else 1 for other in range(grid.ndim)]
        below, above = grid.take(lower, place), grid.take(lower + 1, place)
        grid = below + fraction.reshape(shape) * (above - below)
    return grid
