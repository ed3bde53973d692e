"""NODE-GAM (Chang et al., 2022): layers of soft oblivious trees, each of one or two features.

A tree of depth D asks D times whether a feature exceeds a threshold; its answer selects one of 2^D
responses. Which feature is asked is learned: a choice by entmax whose temperature falls to zero, so
that in the end, and always in evaluation, every tree reads one feature (order 1) or two (order 2).
Trees of later layers also read the outputs of earlier trees, but only of those with their features.
Written from the paper, without its attention and pre-training. Until the temperature has fallen a
hard choice says little about the soft one in training, so the patience is as long as the fall.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.common.interface import Task
from benchmarks.common.models.descent import Schedule
from benchmarks.common.models.neural import NeuralModel

ANNEALING_STEPS = 400
PLAN = Schedule(learning_rate=0.02, batch_size=1024, max_steps=1000, patience=ANNEALING_STEPS)
COLDEST = 0.01  # temperature at the end of training


def entmax(logits: Tensor) -> Tensor:
    """1.5-entmax along the last axis: p = ((z / 2 - tau)_+)^2 with tau such that p sums to one."""
    z = (logits - logits.amax(-1, keepdim=True)) / 2
    ordered = z.sort(-1, descending=True).values
    count = torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)
    mean = ordered.cumsum(-1) / count
    spread = count * ((ordered**2).cumsum(-1) / count - mean**2)
    tau = mean - ((1 - spread) / count).clamp_min(1e-12).sqrt()
    support = (tau <= ordered).sum(-1, keepdim=True).clamp_min(1)
    return (z - tau.gather(-1, support - 1)).clamp_min(0) ** 2


def entmoid(x: Tensor) -> Tensor:
    """First entry of the 1.5-entmax of (x, 0): a sigmoid that reaches 0 and 1."""
    size = x.abs()
    inside = (8 - x**2).clamp_min(1e-12).sqrt()
    upper = torch.where(size < 2, 1 - ((inside - size) / 4) ** 2, 1.0)
    return torch.where(x >= 0, upper, 1 - upper)


class TreeLayer(nn.Module):
    """T trees that read each one feature set.

    Parameters
    ----------
    n_features, n_trees, depth, order, n_outputs : int
        Sizes; ``order`` is the number of features of a tree.
    """

    def __init__(
        self, n_features: int, n_trees: int, depth: int, order: int, n_outputs: int
    ) -> None:
        super().__init__()
        self.choice = nn.Parameter(torch.rand(order, n_trees, n_features))
        self.thresholds = nn.Parameter(torch.randn(n_trees, depth))
        self.log_scales = nn.Parameter(torch.zeros(n_trees, depth))
        self.earlier = nn.Parameter(torch.zeros(order, n_trees))  # weight of earlier trees
        self.responses = nn.Parameter(0.1 * torch.randn(n_trees, 2**depth, n_outputs))
        self.axes = [level % order for level in range(depth)]  # which choice each level asks

    def gates(self, temperature: Tensor | None) -> Tensor:
        """Weights of the features in each tree, (order, T, p); one-hot without a temperature."""
        if temperature is None:
            hard = self.choice.argmax(-1)
            return functional.one_hot(hard, self.choice.shape[-1]).to(self.choice)
        return entmax(self.choice / temperature)

    def forward(self, inputs: Tensor) -> Tensor:
        """Responses of the trees to their choices' inputs, (order, n, T) -> (n, T, n_outputs)."""
        asked = torch.stack([inputs[axis] for axis in self.axes], -1)  # (n, T, D)
        answers = entmoid((asked - self.thresholds) * (-self.log_scales).exp())
        upper, lower = map(_leaves, answers.tensor_split(2, -1))  # (n, T, 2^D') each
        responses = torch.unflatten(self.responses, 1, (lower.shape[-1], upper.shape[-1]))
        below = torch.einsum("ntu,tluo->ntlo", upper, responses)
        return (lower.unsqueeze(-1) * below).sum(2)


def _leaves(answers: Tensor) -> Tensor:
    """How much a row is in each leaf, (n, T, D) -> (n, T, 2^D); later levels count for more."""
    leaves = torch.ones_like(answers[..., :1])
    for yes in torch.split(answers, 1, -1):
        leaves = torch.cat([leaves * (1 - yes), leaves * yes], -1)
    return leaves


class NodeGam(nn.Module):
    """NODE-GA^1M or NODE-GA^2M.

    Parameters
    ----------
    n_features, n_outputs, order : int
        Inputs, raw scores, features of a tree.
    n_layers, depth, n_trees : int
        Shape of the ensemble; every layer has ``n_trees`` trees.
    """

    steps: Tensor  # (), in training

    def __init__(
        self, n_features: int, n_outputs: int, order: int, n_layers: int, depth: int, n_trees: int
    ) -> None:
        super().__init__()
        self.order = order
        layers = [TreeLayer(n_features, n_trees, depth, order, n_outputs) for _ in range(n_layers)]
        self.layers: Any = nn.ModuleList(layers)  # torch forgets the type of its members
        self.intercept = nn.Parameter(torch.zeros(n_outputs))
        self.register_buffer("steps", torch.zeros((), dtype=torch.float64))

    def temperature(self) -> Tensor | None:
        """Falls from one to nearly zero in training; none in evaluation."""
        if not self.training:
            return None
        self.steps += 1
        return (1 - self.steps / ANNEALING_STEPS).clamp_min(COLDEST)

    def forward(self, x: Tensor) -> Tensor:
        """Raw scores, (n, p) -> (n, n_outputs)."""
        temperature = self.temperature()
        outputs: list[Tensor] = []
        gates: list[Tensor] = []
        for layer in self.layers:
            gate = layer.gates(temperature)
            inputs = torch.einsum("np,atp->ant", x, gate)
            if outputs:
                shared = _same_features(gate, torch.cat(gates, 1))  # (T, T')
                shared = shared / shared.sum(1, keepdim=True).clamp_min(1)
                before = torch.cat(outputs, 1).mean(-1) @ shared.T  # (n, T)
                inputs = inputs + layer.earlier[:, None] * before
            outputs.append(layer(inputs))
            gates.append(gate)
        trees = torch.cat(outputs, 1)
        return self.intercept + trees.sum(1) / math.sqrt(trees.shape[1])  # a mean is slow


def _same_features(one: Tensor, two: Tensor) -> Tensor:
    """How much the trees of two layers read the same features, (order, T, p) twice -> (T, T')."""
    if len(one) == 1:
        return one[0] @ two[0].T
    straight = (one[0] @ two[0].T) * (one[1] @ two[1].T)
    crossed = (one[0] @ two[1].T) * (one[1] @ two[0].T)
    return (straight + crossed).clamp(max=1)


def nodegam(
    task: Task,
    order: int = 1,
    n_layers: int = 2,
    depth: int = 4,
    n_trees: int = 64,
    seed: int = 0,
    schedule: Schedule = PLAN,
) -> NeuralModel:
    """NODE-GA^1M or NODE-GA^2M; the shape is smaller than those of the grid, to train on a CPU."""

    def build(x: Tensor, n_outputs: int) -> NodeGam:
        return NodeGam(x.shape[1], n_outputs, order, n_layers, depth, n_trees)

    return NeuralModel(build, task, "standard", seed, schedule)
