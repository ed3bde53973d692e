"""NBM, the neural basis model (Radenovic et al., 2022): components share one network's bases.

    f(x) = intercept + sum_S sum_b w_{S,b} h_b(x_S)

One network per order has B outputs h_b, with batch normalisation before each ReLU; a component is
its own linear combination of them. Features are scaled to [0, 1].
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

HIDDEN = (256, 128, 128)
N_BASES = {1: 100, 2: 200}


class NBM(AdditiveNetwork):
    """Neural basis model of the given components.

    Parameters
    ----------
    components, n_outputs
        As in ``AdditiveNetwork``.
    hidden : sequence of int
        Units of the hidden layers of the shared networks.
    n_bases : dict from order to int
        Outputs B of the shared network of each order.
    """

    def __init__(
        self,
        components: list[Component],
        n_outputs: int,
        hidden: Sequence[int],
        n_bases: dict[int, int],
    ) -> None:
        super().__init__(components, n_outputs)
        self.bases, self.weights = nn.ModuleList(), nn.ParameterList()
        for features in self.features_by_order():
            order = features.shape[1]
            count = n_bases[order]
            self.bases.append(_shared_network((order, *hidden, count)))
            bound = 1 / math.sqrt(count)
            weight = torch.empty(len(features), count, n_outputs).uniform_(-bound, bound)
            self.weights.append(weight)

    def component_scores(self, x: Tensor) -> Tensor:
        """Value of every component, (n, p) -> (n, C, n_outputs)."""
        scores = []
        groups = zip(self.features_by_order(), self.bases, self.weights, strict=True)
        for features, bases, weight in groups:
            inputs = x[:, features].transpose(0, 1).flatten(0, 1)  # (C_d * n, d)
            values = bases(inputs).unflatten(0, (len(features), len(x)))  # (C_d, n, B)
            scores.append(values @ weight)  # (C_d, n, n_outputs)
        return torch.cat(scores).transpose(0, 1)


def _shared_network(sizes: Sequence[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes):
        layers += [nn.Linear(fan_in, fan_out), nn.BatchNorm1d(fan_out), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


def nbm(
    task: Task,
    order: int = 1,
    hidden: Sequence[int] = HIDDEN,
    n_bases: dict[int, int] | None = None,
    pairs: Sequence[Component] | None = None,
    **training: Unpack[Training],
) -> NeuralAdditiveModel:
    """NB^1M or NB^2M; ``pairs`` names the interactions to include, all by default."""

    def build(x: Tensor, n_outputs: int) -> NBM:
        components = components_up_to(x.shape[1], order, pairs)
        return NBM(components, n_outputs, hidden, n_bases or N_BASES)

    return NeuralAdditiveModel(build, task, "minmax", **training)
