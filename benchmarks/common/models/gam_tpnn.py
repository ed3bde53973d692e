"""GAM-TPNN: the paper's bases without the sum-to-zero condition.

    f_j(x_j) = sum_k beta1_jk (1 - s_jk(x_j)) + beta2_jk s_jk(x_j)

For a pair, the product of such sums over its two inputs. beta1 = beta and beta2 = beta c with c
learned, where ANOVA-TPNN computes c from the measure.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Unpack

import torch
from torch import Tensor, nn

from benchmarks.common.interface import Component, Task, components_up_to
from benchmarks.common.models.neural import AdditiveNetwork, NeuralAdditiveModel, Training

START_WIDTH = 0.1  # as TPNNHead


class GamTPNN(AdditiveNetwork):
    """Components without a constraint.

    Parameters
    ----------
    components, n_outputs
        As in ``AdditiveNetwork``.
    n_bases : int
        Bases K of each component.
    """

    def __init__(self, components: list[Component], n_outputs: int, n_bases: int) -> None:
        super().__init__(components, n_outputs)
        shapes = [(*features.shape, n_bases) for features in self.features_by_order()]
        self.centres = nn.ParameterList(torch.rand(shape) for shape in shapes)
        self.log_widths = nn.ParameterList(torch.full(s, START_WIDTH).log() for s in shapes)
        self.ratios = nn.ParameterList(torch.randn(shape) for shape in shapes)
        self.beta = nn.ParameterList(0.01 * torch.randn(s[0], n_bases, n_outputs) for s in shapes)

    def component_scores(self, x: Tensor) -> Tensor:
        """Value of every component, (n, p) -> (n, C, n_outputs)."""
        parts = (self.features_by_order(), self.centres, self.log_widths, self.ratios, self.beta)
        scores = []
        for features, centres, log_widths, ratios, beta in zip(*parts, strict=True):
            logits = (x[:, features].unsqueeze(-1) - centres) * (-log_widths).exp()
            steps = logits.sigmoid()  # (n, C, d, K)
            products = reduce(torch.mul, (1 + (ratios - 1) * steps).unbind(2))
            scores.append(torch.einsum("nck,cko->nco", products, beta))
        return torch.cat(scores, 1)


def gam_tpnn(
    task: Task,
    order: int = 1,
    n_bases: int = 30,
    pairs: Sequence[Component] | None = None,
    **training: Unpack[Training],
) -> NeuralAdditiveModel:
    """GAM-T^1PNN or GAM-T^2PNN with K bases."""

    def build(x: Tensor, n_outputs: int) -> GamTPNN:
        return GamTPNN(components_up_to(x.shape[1], order, pairs), n_outputs, n_bases)

    return NeuralAdditiveModel(build, task, "quantile", **training)
