"""Exact Shapley values of a functional ANOVA model, as matrices that act on component scores.

Under the product of the marginals the value of a coalition T is E f(x_T, X_rest) = intercept + sum
of f_S(x) over S inside T: the components are the Moebius transform of the Shapley game. So each
f_S is shared equally by its features, whatever the order, and nothing has to be sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import Component


@dataclass(frozen=True)
class ShapValues:
    """Shapley values of the raw score, with the fields of ``shap.Explanation``."""

    # (n_rows, n_features[, n_features][, n_outputs]); with base_values they sum to the raw
    # score
    values: FloatArray
    base_values: FloatArray  # (n_rows[, n_outputs]): the intercept
    data: NDArray[Any]  # (n_rows, n_features): the rows explained
    feature_names: list[str]

    def __repr__(self) -> str:
        """Say how large the arrays are, without their numbers."""
        return f"ShapValues(values {self.values.shape}, {len(self.feature_names)} features)"


def value_weights(components: Sequence[Component], n_features: int) -> FloatArray:
    """Weights W with phi = scores @ W, shape (n_components, n_features).

    phi_j = sum over S with j of f_S / ``|S|``.

    >>> value_weights([(0,), (0, 1)], 2)
    array([[1. , 0. ], [0.5, 0.5]])
    """
    weights = np.zeros((len(components), n_features))
    for row, component in zip(weights, components, strict=True):
        row[list(component)] = 1 / len(component)
    return weights


def interaction_weights(components: Sequence[Component], n_features: int) -> FloatArray:
    """Weights of the Shapley interaction values, shape (n_components, n_features, n_features).

    The interaction index of j and k is sum over S with both of ``f_S / (|S| - 1)``. As in the shap
    package the matrix holds one half of it on either side of the diagonal, and the rest of phi_j on
    the diagonal, so that each row sums to a Shapley value.

    >>> interaction_weights([(0, 1)], 2)[0]
    array([[0. , 0.5], [0.5, 0. ]])
    """
    weights = np.zeros((len(components), n_features, n_features))
    for matrix, component in zip(weights, components, strict=True):
        size = len(component)
        if size > 1:
            matrix[np.ix_(component, component)] = 1 / (2 * (size - 1))
        matrix[component, component] = 1 / size - (size > 1) / 2
    return weights


def share(scores: FloatArray, weights: FloatArray) -> FloatArray:
    """Share component scores (n_rows, n_components[, n_outputs]) among features.

    ``weights`` (n_components, n_features[, n_features]) has the share of each feature, or of each
    pair, in each component. The answer is (n_rows, n_features[, n_features][, n_outputs]).
    """
    flat = weights.reshape(len(weights), -1)
    shared = np.moveaxis(np.tensordot(scores, flat, axes=(1, 0)), -1, 1)
    return shared.reshape(len(scores), *weights.shape[1:], *scores.shape[2:])


def packed(
    values: FloatArray, base_values: FloatArray, data: NDArray[Any], feature_names: Sequence[str]
) -> Any:
    """Return a ``shap.Explanation`` where shap is installed, else ``ShapValues``.

    The plots of shap accept only objects of its own class.
    """
    try:
        from shap import Explanation
    except ImportError:
        return ShapValues(values, base_values, data, list(feature_names))
    return Explanation(values, base_values, data, feature_names=list(feature_names))
