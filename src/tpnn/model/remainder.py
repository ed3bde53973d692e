"""Remainder: what deep trees say beyond the components of a model.

The exact components of the trees that a model shows are in its tables. All else, the faint ones and
those of higher order, is the remainder: the trees, less what the tables hold of them. It averages
to zero under the product of the training marginals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.boxes import Boxes
from tpnn.anova.components import Component, ComponentSet
from tpnn.anova.shapley import value_weights
from tpnn.anova.trees import Trees
from tpnn.model.flat import flatten_tables
from tpnn.model.interpolate import Predictor
from tpnn.table.axis import Axis

Axes = Mapping[int, Sequence[Axis]]


class RemainderSet(NamedTuple):
    """A set of features in the remainder."""

    features: tuple[str, ...]
    share: float  # of the variance of the raw score


@dataclass(frozen=True, eq=False, repr=False)
class Remainder:
    """One part of the raw score besides the components.

    Parameters
    ----------
    trees : Trees
        Their sum, less its mean and the tables below, is the remainder.
    constants : array of shape (n_outputs,)
        Mean of the trees, which is in the intercept of the model.
    components : ComponentSet
        Components of the model that hold a part of the trees.
    tables : tuple of array of shape (M_1, ..., M_d, n_outputs)
        These parts, on the nodes of the components.
    share : float
        Share of the variance of the raw score under the product of the marginals.
    worth : float
        How much larger the held-out loss is without the remainder, relative to the loss.
    largest : tuple of RemainderSet
        Sets of features with the largest components in the remainder, largest first.
    """

    trees: Trees
    constants: FloatArray
    components: ComponentSet
    tables: tuple[FloatArray, ...]
    share: float
    worth: float
    largest: tuple[RemainderSet, ...] = ()

    def __getstate__(self) -> dict[str, Any]:  # without what is made when it is used
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __repr__(self) -> str:
        return (
            f"Remainder({len(self.trees.roots)} trees, share {self.share:.1%} of the variance, "
            f"held-out loss {self.worth:+.1%} without it)"
        )

    @property
    def features(self) -> list[int]:
        """Features that the remainder depends on."""
        return self.trees.used

    def scores(self, axes: Axes, columns: Sequence[FloatArray]) -> FloatArray:
        """Remainder of rows whose columns are numbers of the encoder, (n_rows, n_outputs)."""
        held = np.zeros((len(self.constants), len(columns[0])))
        self._predictor(axes).add(columns, held)
        return self.trees.scores(columns) - self.constants - held.T

    def shapley(self, axes: Axes, columns: Sequence[FloatArray]) -> FloatArray:
        """Exact Shapley values of the remainder, (n_rows, n_features, n_outputs)."""
        n_rows, n_outputs = len(columns[0]), len(self.constants)
        held = np.zeros((len(self.components) * n_outputs, n_rows))
        self._predictor(axes).add(columns, held)
        scores = held.reshape(len(self.components), n_outputs, n_rows)
        weights = value_weights(self.components.components, len(self.trees.features))
        held_values: FloatArray = np.einsum("ckn,cj->njk", scores, weights)
        return self._boxes.shapley(columns) - held_values

    def scaled(self, factor: float) -> Remainder:
        """Remainder times a number."""
        return replace(
            self,
            trees=self.trees.scaled(np.full(len(self.constants), factor)),
            constants=factor * self.constants,
            tables=tuple(factor * table for table in self.tables),
        )

    def pick(self, features: Sequence[int]) -> Remainder:
        """Keep some features only; the remainder must not depend on the others."""
        number = {feature: place for place, feature in enumerate(features)}

        def moved(component: Component) -> Component:
            return tuple(number[feature] for feature in component)

        components = ComponentSet(tuple(map(moved, self.components)))
        return replace(self, trees=self.trees.pick(features), components=components)

    @cached_property
    def _boxes(self) -> Boxes:
        return Boxes.of(self.trees)

    def _predictor(self, axes: Axes) -> Predictor:
        known = vars(self).get("_made")
        if known is None or known[0] is not axes:
            tables = dict(zip(self.components, self.tables, strict=True))
            known = axes, Predictor(axes, flatten_tables(tables))
            vars(self)["_made"] = known  # flattened once for each encoder
        predictor: Predictor = known[1]
        return predictor
