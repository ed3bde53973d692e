"""Post-processing of an additive model to the sum-to-zero condition.

For a pair, with mu the empirical measure of the training rows on a grid of nodes,

    f_jk - E_j f_jk - E_k f_jk + E f_jk,   and   f_j + E_k f_jk - E f_jk,

which changes no value of the model. Conditional means are exact on the nodes and linear between.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from benchmarks.common.interface import Additive, Component, Rows
from tpnn._utils.arrays import FloatArray

MOST_NODES = 64


class Grid(NamedTuple):
    """Nodes and masses of one feature, shape (M,) each."""

    nodes: FloatArray
    masses: FloatArray


class SumToZero:
    """An additive model of order 1 or 2 whose components are made unique.

    Parameters
    ----------
    model : Additive
        The model, not yet fitted.
    """

    def __init__(self, model: Additive) -> None:
        self.model = model

    def fit(self, training: Rows, validation: Rows) -> Self:
        """Fit the model and average its components over the training marginals."""
        self.model.fit(training, validation)
        self.components = self.model.components
        self.grids = [_grid(column) for column in training.X.T]
        self.typical = np.median(training.X, axis=0)
        self._means = [self._marginal_means(i, c) for i, c in enumerate(self.components)]
        moved = sum(means[-1] for means in self._means)  # E f_S of all components
        self.intercept = np.asarray(self.model.intercept + moved)
        return self

    def raw_scores(self, X: FloatArray) -> FloatArray:
        """Raw scores, shape (n, n_outputs)."""
        return self.model.raw_scores(X)

    def component_scores(self, X: FloatArray) -> FloatArray:
        """Value of every component, shape (n, C, n_outputs)."""
        scores = self.model.component_scores(X).copy()
        for index, (component, means) in enumerate(zip(self.components, self._means, strict=True)):
            *along, total = means
            scores[:, index] += total if along else -total
            for feature, mean in zip(component, along, strict=False):
                values = self._interpolate(X[:, feature], feature, mean)
                scores[:, index] -= values
                scores[:, self.components.index((feature,))] += values - total
        return scores

    def _marginal_means(self, index: int, component: Component) -> list[FloatArray]:
        """Return the means of a pair given either feature, (M, n_outputs) each, then E f_S."""
        grids = [self.grids[feature] for feature in component]
        axes = np.meshgrid(*(grid.nodes for grid in grids), indexing="ij")
        rows = np.tile(self.typical, (axes[0].size, 1))
        rows[:, component] = np.stack([axis.ravel() for axis in axes], 1)
        table = self.model.component_scores(rows)[:, index].reshape(*axes[0].shape, -1)
        if len(component) == 1:
            return [np.asarray(grids[0].masses @ table)]
        first = np.einsum("abo,b->ao", table, grids[1].masses)
        second = np.einsum("abo,a->bo", table, grids[0].masses)
        return [first, second, np.asarray(grids[0].masses @ first)]

    def _interpolate(self, x: FloatArray, feature: int, values: FloatArray) -> FloatArray:
        nodes = self.grids[feature].nodes
        return np.stack([np.interp(x, nodes, column) for column in values.T], 1)


def _grid(column: FloatArray) -> Grid:
    """Quantiles of a column, each with the share of rows nearest to it."""
    levels = np.linspace(0, 1, MOST_NODES)
    nodes = np.unique(np.quantile(column, levels, method="nearest"))
    nearest = np.searchsorted((nodes[1:] + nodes[:-1]) / 2, column)
    return Grid(nodes, np.bincount(nearest, minlength=len(nodes)) / len(column))
