"""NAM, the neural additive model (Agarwal et al., 2021): a network of its own for each component.

    f(x) = intercept + sum_S MLP_S(x_S)

The paper's layer sizes, ReLU, features scaled to [0, 1]; neither dropout nor penalties, the epoch
is chosen on validation rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Unpack

import torch
from torch import Tensor, nn

from benchmarks.common.interface import Component, Task, components_up_to
from benchmarks.common.models.neural import AdditiveNetwork, NeuralAdditiveModel, Training

HIDDEN = (64, 64, 32)


class ParallelMLP(nn.Module):
    """C networks of the same shape side by side, (C, n, d) -> (C, n, n_outputs)."""

    def __init__(self, count: int, sizes: Sequence[int]) -> None:
        super().__init__()
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for fan_in, fan_out in pairwise(sizes):
            bound = 1 / math.sqrt(fan_in)  # as torch starts its linear layers
            self.weights.append(torch.empty(count, fan_in, fan_out).uniform_(-bound, bound))
            self.biases.append(torch.empty(count, 1, fan_out).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        """Evaluate every network on its own inputs."""
        last = len(self.weights) - 1
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            x = x if layer == last else x.relu_()
        return x


class NAM(AdditiveNetwork):
    """Neural additive model of the given components.

    Parameters
    ----------
    components, n_outputs
        As in ``AdditiveNetwork``.
    hidden : sequence of int
        Units of the hidden layers of every component.
    """

    def __init__(self, components: list[Component], n_outputs: int, hidden: Sequence[int]) -> None:
        super().__init__(components, n_outputs)
        self.networks = nn.ModuleList(
            ParallelMLP(len(features), (features.shape[1], *hidden, n_outputs))
            for features in self.features_by_order()
        )

    def component_scores(self, x: Tensor) -> Tensor:
        """Value of every component, (n, p) -> (n, C, n_outputs)."""
        scores = [
            network(x[:, features].transpose(0, 1))  # (C_d, n, n_outputs)
            for features, network in zip(self.features_by_order(), self.networks, strict=True)
        ]
        return torch.cat(scores).transpose(0, 1)


def nam(
    task: Task,
    order: int = 1,
    hidden: Sequence[int] = HIDDEN,
    pairs: Sequence[Component] | None = None,
    **training: Unpack[Training],
) -> NeuralAdditiveModel:
    """NA^1M or NA^2M; ``pairs`` names the interactions to include, all by default."""

    def build(x: Tensor, n_outputs: int) -> NAM:
        return NAM(components_up_to(x.shape[1], order, pairs), n_outputs, hidden)

    return NeuralAdditiveModel(build, task, "minmax", **training)
