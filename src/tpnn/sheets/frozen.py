"""FrozenModel: what sheets know of a model, and its components at any values.

The model's methods call this room, so the room cannot import the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from tpnn._typing import FloatArray
from tpnn.anova.components import Component, ComponentSet
from tpnn.anova.constraints import Certificate
from tpnn.loss.links import Link
from tpnn.table.axis import Axis
from tpnn.table.encoder import TableEncoder
from tpnn.table.frame import Table

FACTOR_LINKS = ("log", "logit")  # exp(effect) is a factor on the mean, or on the odds


class FrozenModel(Protocol):
    """The part of ``AnovaModel`` that sheets are made from; see there."""

    @property
    def encoder(self) -> TableEncoder:
        """Nodes and masses of the features."""

    @property
    def components(self) -> ComponentSet:
        """The subsets S."""

    @property
    def tables(self) -> tuple[FloatArray, ...]:
        """Values of each component on its nodes, (M_1, ..., M_d, n_outputs)."""

    @property
    def spreads(self) -> tuple[FloatArray, ...]:
        """Standard deviation of each value over the bags."""

    @property
    def intercepts(self) -> FloatArray:
        """Mean of f, (n_outputs,)."""

    @property
    def link(self) -> Link:
        """From raw score to prediction."""

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of several outputs."""

    @property
    def classes(self) -> tuple[Any, ...]:
        """Labels of a classifier."""

    @property
    def has_offset(self) -> bool:
        """Whether predictions need an offset."""

    @property
    def baseline(self) -> Any:
        """Baseline hazard of a survival model."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features."""

    @property
    def component_names(self) -> list[tuple[str, ...]]:
        """Components as tuples of feature names."""

    def axes(self, component: Sequence[int]) -> tuple[Axis, ...]:
        """Axes of a component."""

    def offset_of(self, table: Table, offset: Any = None) -> FloatArray | None:
        """Offset of every row."""

    def raw_scores(self, X: Any, offset: Any = None) -> FloatArray:
        """Intercept plus all components."""

    def component_scores(self, X: Any) -> FloatArray:
        """Value of every component on every row."""

    def certificate(self, feature: str, shape: str | None = None) -> Certificate:
        """Smallest step of f along a feature."""


def title(names: Sequence[str]) -> str:
    """Name of a component.

    >>> title(("age", "town"))
    'age x town'
    """
    return " x ".join(names)


def values_at(
    model: FrozenModel, component: Component, numbers: Sequence[FloatArray]
) -> FloatArray:
    """First output of a component on a grid of values, (n_1, ..., n_d).

    Parameters
    ----------
    model : FrozenModel
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
