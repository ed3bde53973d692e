"""A fixed dictionary of centred sigmoids for every feature."""

from __future__ import annotations

import numpy as np

from tpnn._utils.arrays import Float32Array
from tpnn.anova.measure import Marginal

N_SIGMOIDS = {1: 24, 2: 8}  # of a feature, by order
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
        known = marginal.weights.copy()
        known[rows, last] = 0.0
        mass = known.sum(1, keepdims=True).clip(SMALLEST_MASS)
        means = np.einsum("fm,fmd->fd", known, steps) / mass
        steps = np.concatenate([steps, np.zeros_like(steps[:, :, :1])], axis=2)
        steps[rows, last, :count] = means[rows]  # sigmoids say nothing about missing values
        steps[rows, last, count] = 1.0
    steps -= np.einsum("fm,fmd->fd", marginal.weights, steps)[:, None]
    return steps.astype(np.float32)
