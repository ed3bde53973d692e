"""Explanation: importance, variance shares and exact Shapley values, read off the components."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
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
    rows : table, optional
        The rows explained.
    """

    model: AnovaModel
    rows: Any = None

    @cached_property
    def scores(self) -> FloatArray:
        """Value of every component on every row, shape (n_rows, n_components)."""
        if self.rows is None:
            raise ValueError(
                "rows: an explanation of rows is needed, found one of the model as a whole. "
                "Call explain(X)."
            )
        return self.model.component_scores(self.rows)

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

    def shap_values(self) -> ShapValues:
        """Exact Shapley values on the rows explained: phi_j = sum of f_S / |S| over S with j."""
        component_scores = self.scores
        table = self.model.encoder.read(self.rows)
        values = np.zeros((table.n_rows, table.n_features))
        for component, scores in zip(self.model.components, component_scores.T, strict=True):
            values[:, list(component)] += scores[:, None] / len(component)
        data = np.column_stack(self.model.encoder.columns(table))
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
