"""The TPNN terms behind a component's table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tpnn._utils.arrays import Float32Array, FloatArray
from tpnn.anova.measure import Marginal
from tpnn.table.axis import Axis

RELATIVE_STEP_WIDTH = 1e-3  # gamma over the smallest gap between nodes: exact in doubles


class Terms(NamedTuple):
    """TPNN terms of one component: sum_k beta_k prod_j phi(u_j | b_jk, gamma_jk)."""

    features: tuple[Any, ...]  # d numbers or names
    b: FloatArray  # (d, K): centre of each basis on the rank scale
    gamma: FloatArray  # (d, K): its width
    beta: FloatArray  # (K,): coefficients

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


N_SIGMOIDS = {1: 24, 2: 8}  # per feature, by order
SIGMOID_WIDTHS = {1: 0.05, 2: 0.12}  # gamma on the rank scale, by order
SMALLEST_MASS = 1e-300  # keeps a feature that is always missing from dividing by zero


def dictionary(marginal: Marginal, order: int) -> Float32Array:
    """Centred bases of every feature on its nodes, shape (n_features, M, D).

    Sigmoids where the nodes have an order, indicators of the most frequent levels where they have
    none, and one more indicator of missing values where there are any.
    """
    count = N_SIGMOIDS[order]
    centres = (np.arange(count) + 0.5) / count
    logits = (marginal.positions[:, :, None] - centres) / SIGMOID_WIDTHS[order]
    steps = 1 / (1 + np.exp(-logits))
    steps[marginal.nominal] = np.eye(marginal.n_nodes, count)
    if marginal.missing.any():
        rows, last = np.flatnonzero(marginal.missing), marginal.sizes[marginal.missing] - 1
        present = marginal.weights.copy()
        present[rows, last] = 0.0
        mass = present.sum(1, keepdims=True).clip(SMALLEST_MASS)
        means = np.einsum("fm,fmd->fd", present, steps) / mass
        steps = np.concatenate([steps, np.zeros_like(steps[:, :, :1])], axis=2)
        steps[rows, last, :count] = means[rows]  # sigmoids say nothing about missing values
        steps[rows, last, count] = 1.0
    steps -= np.einsum("fm,fmd->fd", marginal.weights, steps)[:, None]
    return steps.astype(np.float32)
