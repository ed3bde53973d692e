"""NID, neural interaction detection (Tsang et al., 2018): pairs from the weights of a network.

As the paper screens: the network is fitted to the target itself, and not, as in the package, to
what the main effects leave over.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor, nn

from benchmarks.common.interface import Component, Rows, Task
from benchmarks.common.models.descent import Schedule
from benchmarks.common.models.dnn import mlp
from benchmarks.common.models.neural import NeuralModel
from tpnn.search.nid import pair_strengths

HIDDEN = (140, 100, 60, 20)


def strongest_pairs(
    task: Task, training: Rows, validation: Rows, count: int, schedule: Schedule | None = None
) -> list[Component]:
    """Return the strongest pairs, strongest first."""

    def build(x: Tensor, n_outputs: int) -> nn.Sequential:
        return mlp((x.shape[1], *HIDDEN, n_outputs))

    model = NeuralModel(build, task, "standard", 0, schedule).fit(training, validation)
    layers = [layer for layer in model.network.modules() if isinstance(layer, nn.Linear)]
    weights = [layer.weight.detach().double().cpu().numpy() for layer in layers]
    strength = pair_strengths(weights)
    first, second = np.triu_indices(len(strength), 1)
    order = np.argsort(-strength[first, second], kind="stable")[:count]
    return [(int(first[i]), int(second[i])) for i in order]
