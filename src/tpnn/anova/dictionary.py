"""A fixed dictionary of centred sigmoids for every feature."""

from __future__ import annotations

import numpy as np

from tpnn._typing import Float32Array
from tpnn.anova.measure import Marginal

SIGMOIDS = {1: 24, 2: 8}  # dictionary size of a feature, by order
WIDTHS = {1: 0.05, 2: 0.12}  # gamma on the rank scale


def dictionary(marginal: Marginal, order: int) -> Float32Array:
    """Centred bases of every feature on its nodes, shape (n_features, M, D).

    Sigmoids for nodes that have an order; indicators of the most frequent levels for those that
    have none, and one more of missing values where there are any.
    """
    count = SIGMOIDS[order]
    centres = (np.arange(count) + 0.5) / count
    logits = (marginal.positions[:, :, None] - centres) / WIDTHS[order]
    steps = 1 / (1 + np.exp(-logits))
    steps[marginal.nominal] = np.eye(marginal.n_nodes, count)
    if marginal.missing.any():
        rows, last = np.flatnonzero(marginal.missing), marginal.sizes[marginal.missing] - 1
        known = marginal.weights.copy()
        known[rows, last] = 0.0
        means = np.einsum("fm,fmd->fd", known, steps) / known.sum(1, keepdims=True).clip(1e-300)
        steps = np.concatenate([steps, np.zeros_like(steps[:, :, :1])], axis=2)
        steps[rows, last, :count] = means[rows]  # sigmoids say nothing about missing values
        steps[rows, last, count] = 1.0
    steps -= np.einsum("fm,fmd->fd", marginal.weights, steps)[:, None]
    return steps.astype(np.float32)
