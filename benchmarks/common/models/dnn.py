"""DNN: a fully connected network with ReLU on standardised features."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Unpack

from torch import Tensor, nn

from benchmarks.common.interface import Task
from benchmarks.common.models.neural import NeuralModel, Training

ARCHITECTURES = {
    "wide": (2048, 1024),
    "middle": (1024, 512, 512),
    "deep": (128, 128, 64, 64, 64),
}


def mlp(sizes: Sequence[int]) -> nn.Sequential:
    """Return linear layers of the given sizes with ReLU between them."""
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def dnn(task: Task, architecture: str = "deep", **training: Unpack[Training]) -> NeuralModel:
    """One of the paper's three architectures."""

    def build(x: Tensor, n_outputs: int) -> nn.Sequential:
        return mlp((x.shape[1], *ARCHITECTURES[architecture], n_outputs))

    return NeuralModel(build, task, "standard", **training)
