"""NID, neural interaction detection (Tsang et al., 2018): pairs from the weights of a network.

A pair of inputs can interact only in the units of the first layer that read both:

    strength(i, j) = sum_h z_h min(|W1_hi|, |W1_hj|),   z = |w_y| |W_L| ... |W_2|.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor, nn

from experiments.baselines.descent import Schedule
from experiments.baselines.dnn import mlp
from experiments.baselines.interface import Component, FloatArray, Rows, Task
from experiments.baselines.neural import NeuralModel

HIDDEN = (140, 100, 60, 20)


def strongest_pairs(
    task: Task, training: Rows, validation: Rows, count: int, schedule: Schedule | None = None
) -> list[Component]:
    """Return the strongest pairs, strongest first."""

    def build(x: Tensor, n_outputs: int) -> nn.Sequential:
        return mlp((x.shape[1], *HIDDEN, n_outputs))

    model = NeuralModel(build, task, "standard", 0, schedule).fit(training, validation)
    layers = [layer for layer in model.network.modules() if isinstance(layer, nn.Linear)]
    weights = [layer.weight.detach().abs().double().cpu().numpy() for layer in layers]
    strength = pair_strengths(weights)
    first, second = np.triu_indices(len(strength), 1)
    order = np.argsort(-strength[first, second], kind="stable")[:count]
    return [(int(first[i]), int(second[i])) for i in order]


def pair_strengths(weights: list[FloatArray]) -> FloatArray:
    """Return the strength of every pair, shape (p, p), from |W| of each layer, first one first."""
    first = weights[0]  # (H, p)
    influence = np.linalg.multi_dot(weights[:0:-1]) if len(weights) > 2 else weights[1]
    strength = np.zeros((first.shape[1],) * 2)
    for z, row in zip(influence.sum(0), first, strict=True):  # one unit of the first layer each
        strength += z * np.minimum.outer(row, row)
    return strength
