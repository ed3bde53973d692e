"""NAM, the neural additive model (Agarwal et al., 2021): a network of its own for each component.

    f(x) = intercept + sum_S MLP_S(x_S)

The paper's layer sizes, ReLU, features scaled to [0, 1]; neither dropout nor penalties, the epoch
is chosen on validation rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, pairwise

import torch
from torch import Tensor, nn

from experiments.baselines.descent import Schedule
from experiments.baselines.interface import Component, Task
from experiments.baselines.neural import AdditiveNetwork, NeuralAdditiveModel

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
    components : list of tuple of int
        Features of each component.
    n_outputs : int
        Number of raw scores.
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
    seed: int = 0,
    schedule: Schedule | None = None,
) -> NeuralAdditiveModel:
    """NA^1M or NA^2M; ``pairs`` names the interactions to include, all by default."""

    def build(x: Tensor, n_outputs: int) -> NAM:
        return NAM(components_up_to(x.shape[1], order, pairs), n_outputs, hidden)

    return NeuralAdditiveModel(build, task, "minmax", seed, schedule)


def components_up_to(
    n_features: int, order: int, pairs: Sequence[Component] | None = None
) -> list[Component]:
    """Return the main effects, then the pairs where the order is 2.

    >>> components_up_to(3, 2)
    [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    """
    mains: list[Component] = [(feature,) for feature in range(n_features)]
    if order == 1:
        return mains
    return mains + list(combinations(range(n_features), 2) if pairs is None else pairs)
