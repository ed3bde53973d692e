"""Centred bases on nodes: the sum-to-zero condition lives here and nowhere else.

With s(u) = sigma((u - b) / gamma) and eta = E_mu[s], the paper's basis is

    phi(u | b, gamma) = 1 - s(u) + c s(u),   c = -(1 - eta) / eta,

which equals (eta - s(u)) / eta: a centred sigmoid, negated and divided by its mean. eta is a dot
product with the node masses, so phi averages to zero exactly at every step, whichever rows are in a
batch.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

Activation = Literal["sigmoid", "relu"]
Scale = Literal["centred", "paper"]

SMALLEST_ETA = 1e-3  # divisor in the paper's scaling of a basis that is zero on all nodes


class _CentredSteps(torch.autograd.Function):
    """Compute eta - s and eta, with the derivative in closed form.

    Training spends its time here, and autograd would pass over the (..., M, K) array twice as
    often.
    """

    @staticmethod
    def forward(
        ctx: Any,
        positions: Tensor,  # (..., M)
        weights: Tensor,  # (..., M)
        centres: Tensor,  # (..., K)
        widths: Tensor,  # (..., K)
        activation: Activation,
    ) -> tuple[Tensor, Tensor]:
        logits = (positions.unsqueeze(-1) - centres.unsqueeze(-2)) * widths.reciprocal().unsqueeze(
            -2
        )
        steps = logits.sigmoid_() if activation == "sigmoid" else logits.relu_()
        # NOTE[DIFF] eta is the mean over all training rows, not over the last batch.
        eta = weights.unsqueeze(-2) @ steps  # (..., 1, K)
        ctx.save_for_backward(positions, weights, centres, widths, steps)
        ctx.activation = activation
        return eta - steps, eta

    @staticmethod
    def backward(ctx: Any, grad_centred: Tensor, grad_eta: Tensor) -> Any:
        positions, weights, centres, widths, steps = ctx.saved_tensors
        total = grad_centred.sum(-2, keepdim=True) + grad_eta
        grad_steps = torch.addcmul(-grad_centred, weights.unsqueeze(-1), total)
        if ctx.activation == "sigmoid":
            grad_logits = torch.ops.aten.sigmoid_backward(grad_steps, steps)
        else:
            grad_logits = grad_steps.masked_fill_(steps <= 0, 0.0)
        moments = torch.stack([torch.ones_like(positions), positions], -2) @ grad_logits
        zeroth, first = moments.unbind(-2)  # sums of grad_logits and of u * grad_logits
        grad_centres = -zeroth / widths
        grad_widths = (centres * zeroth - first) / widths**2
        return None, None, grad_centres, grad_widths, None


def centred_basis(
    positions: Tensor,  # (..., M)
    weights: Tensor,  # (..., M)
    centres: Tensor,  # (..., K)
    widths: Tensor,  # (..., K)
    activation: Activation = "sigmoid",
    scale: Scale = "centred",
    free: Tensor | None = None,  # (..., M)
    level_logits: Tensor | None = None,  # (..., M, K)
) -> Tensor:  # (..., M, K)
    """Bases phi_k on the nodes of one feature, each with mean zero under the node masses.

    On ``free`` nodes, which are levels and missing values, the logit is a learned number.

    NOTE[DIFF] ``scale="centred"`` omits the division by eta. The division only rescales beta, and
    it blows up where eta is near zero; training is more accurate without it.
    """
    centred: Tensor
    eta: Tensor
    if free is None or level_logits is None:
        apply: Any = _CentredSteps.apply  # untyped in torch
        centred, eta = apply(positions, weights, centres, widths, activation)
    else:
        logits = (positions.unsqueeze(-1) - centres.unsqueeze(-2)) / widths.unsqueeze(-2)
        logits = torch.where(free.unsqueeze(-1), level_logits, logits)
        steps = logits.sigmoid() if activation == "sigmoid" else logits.relu()
        eta = weights.unsqueeze(-2) @ steps
        centred = eta - steps
    return centred / eta.clamp_min(SMALLEST_ETA) if scale == "paper" else centred
