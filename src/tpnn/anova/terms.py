"""The TPNN terms behind a component's table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.table.axis import Axis

RELATIVE_STEP_WIDTH = 1e-3  # gamma over the smallest gap between nodes: exact in doubles


class Terms(NamedTuple):
    """TPNN terms of one component with d features: sum_k beta_k prod_j phi(u_j | b_jk, gamma_jk).

    Parameters
    ----------
    features : tuple of int or of str
        The d features.
    b, gamma : array of shape (d, K)
        Centre and width of each basis on the rank scale.
    beta : array of shape (K,)
        Coefficients.
    """

    features: tuple[Any, ...]
    b: FloatArray
    gamma: FloatArray
    beta: FloatArray

    def __repr__(self) -> str:
        """Say how many terms there are, without their numbers.

        >>> Terms(("age",), np.zeros((1, 5)), np.ones((1, 5)), np.zeros(5))
        Terms(features=('age',), 5 terms: b and gamma (1, 5), beta (5,))
        """
        shapes = f"b and gamma {np.shape(self.b)}, beta {np.shape(self.beta)}"
        return f"Terms(features={self.features}, {len(self.beta)} terms: {shapes})"


def step_terms(table: FloatArray, axes: Sequence[Axis]) -> Terms:
    """Terms of a table as a sum of steps between its nodes.

    A centred table is sum_k beta_k prod_j (eta_jk - s_jk) with a step s_jk in the middle between
    neighbouring nodes and beta the mixed differences of the table, up to their sign.
    """
    beta = table
    for axis in range(len(axes)):
        beta = -np.diff(beta, axis=axis)
    beta = beta.reshape(-1, *table.shape[len(axes) :])
    middles = [(axis.positions[1:] + axis.positions[:-1]) / 2 for axis in axes]
    narrow = [
        np.full(len(m), RELATIVE_STEP_WIDTH * _gap(a.positions))
        for m, a in zip(middles, axes, strict=True)
    ]
    b, gamma = (
        np.stack([grid.ravel() for grid in np.meshgrid(*values, indexing="ij")])
        for values in (middles, narrow)
    )
    return Terms((), b, gamma, beta)


def _gap(positions: FloatArray) -> float:
    """Smallest positive distance between neighbours."""
    gaps = np.diff(positions)
    return float(gaps[gaps > 0].min(initial=1.0))
