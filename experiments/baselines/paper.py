"""ANOVA-TPNN by the paper's recipe: quantile inputs, its scaling, mini-batch Adam.

Nothing but ``tpnn.nn.TPNNHead``, trained as every other network here. The measure of sum-to-zero is
that of all training rows, where the authors' code takes it from the last batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from experiments.baselines.descent import Schedule
from experiments.baselines.interface import Component, Task
from experiments.baselines.neural import NeuralAdditiveModel
from tpnn.nn import TPNNHead


def paper(
    task: Task,
    order: int = 1,
    n_bases: int = 30,
    pairs: Sequence[Component] | None = None,
    seed: int = 0,
    schedule: Schedule | None = None,
    **settings: Any,
) -> NeuralAdditiveModel:
    """ANOVA-T^1PNN or T^2PNN with K bases; ``activation`` and ``shared_bases`` as in the head."""

    def build(x: Tensor, n_outputs: int) -> TPNNHead:
        options = {"scale": "paper", **settings}
        head = TPNNHead(x.shape[1], n_outputs, order, pairs, n_bases, **options)
        head.observe(x.cpu())
        return head

    return NeuralAdditiveModel(build, task, "quantile", seed, schedule)
