"""Explanation: importance, variance shares and exact Shapley values, read off the components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn.model import AnovaModel

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class ShapValues:
    """Shapley values of the raw score, with the fields that SHAP plots read.

    Parameters
    ----------
    values : array of shape (n_rows, n_features)
        Contribution of each feature; ``base_values + values.sum(1)`` is the raw score.
    base_values : array of shape (n_rows,)
        The intercept.
    data : array of shape (n_rows, n_features)
        The rows explained.
    feature_names : list of str
        Names of the features.
    """

    values: FloatArray
    base_values: FloatArray
    data: FloatArray
    feature_names: list[str]


@dataclass(frozen=True, eq=False)
class Explanation:
    """A model's components as a whole and, where rows were given, on each row.

    Parameters
    ----------
    model : AnovaModel
        The model explained.
    scores : array of shape (n_rows, n_components), optional
        Value of every component on every row.
    """

    model: AnovaModel
    scores: FloatArray | None = None

    def importance(self) -> dict[tuple[str, ...], float]:
        """l1 norm E|f_S| of every component, largest first."""
        return self._ranked(np.abs)

    def sobol(self) -> dict[tuple[str, ...], float]:
        """Share Var(f_S) / sum Var of every component, largest first.

        Components are uncorrelated under the product of the marginals, so the shares add up to one.
        """
        variances = self._ranked(np.square)
        total = sum(variances.values()) or 1.0
        return {names: variance / total for names, variance in variances.items()}

    def shap_values(self, X: Any) -> ShapValues:
        """Exact Shapley values on the rows explained: phi_j = sum of f_S / |S| over S with j."""
        assert self.scores is not None
        table = self.model.encoder.read(X)
        values = np.zeros((table.n_rows, table.n_features))
        for component, scores in zip(self.model.components, self.scores.T, strict=True):
            values[:, list(component)] += scores[:, None] / len(component)
        data = np.column_stack([table.column(feature) for feature in range(table.n_features)])
        base = np.full(table.n_rows, self.model.intercept)
        return ShapValues(values, base, data, list(self.model.feature_names))

    def _ranked(self, measure: Any) -> dict[tuple[str, ...], float]:
        """Mean of ``measure(f_S)`` under the product of the marginals, largest first."""
        means = {}
        for component, table in zip(self.model.components, self.model.tables, strict=True):
            mean = measure(table)
            for axis in self.model.axes(component):
                mean = np.tensordot(axis.weights, mean, axes=(0, 0))
            means[component] = float(mean)
        names = dict(zip(self.model.components, self.model.component_names, strict=True))
        ranked = sorted(means, key=lambda component: -means[component])
        return {names[component]: means[component] for component in ranked}
