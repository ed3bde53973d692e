"""ANOVA-TPNN by the paper's recipe: quantile inputs, its scaling, mini-batch Adam.

Nothing but ``tpnn.TPNNHead``, trained as every other network here. The measure of sum-to-zero is
that of all training rows, where the authors' code takes it from the last batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Unpack

from torch import Tensor

from benchmarks.common.interface import Component, Task
from benchmarks.common.models.neural import NeuralAdditiveModel, Training
from tpnn import TPNNHead

Activation = Literal["sigmoid", "relu"]


def paper(
    task: Task,
    order: int = 1,
    n_bases: int = 30,
    pairs: Sequence[Component] | None = None,
    activation: Activation = "sigmoid",
    shared_bases: bool = False,
    **training: Unpack[Training],
) -> NeuralAdditiveModel:
    """ANOVA-T^1PNN or T^2PNN with K bases; ``activation`` and ``shared_bases`` as in the head."""

    def build(x: Tensor, n_outputs: int) -> TPNNHead:
        head = TPNNHead(
            x.shape[1],
            n_outputs,
            order,
            pairs,
            n_bases,
            scale="paper",
            activation=activation,
            shared_bases=shared_bases,
        )
        head.observe(x.cpu())
        return head

    return NeuralAdditiveModel(build, task, "quantile", **training)
