"""Losses that the user writes as a torch function, with derivatives by autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tpnn.loss.formulas import SMALLEST_HESSIAN

TorchLoss = Callable[[Any, Any], Any]


def torch_formulas(function: TorchLoss) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Loss and slopes, as in :mod:`tpnn.loss.formulas`, of a torch function.

    The function takes y (n, 1) and raw scores (n, n_bags), and returns the loss of each row in the
    shape of the raw scores.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "objective: a function needs torch, which is not installed. "
            'Run: pip install "tpnn[torch]"'
        ) from error

    def loss(y: Any, raw: Any, weights: Any, xp: Any) -> Any:
        if xp is torch:
            return _loss_of_rows(function, y, raw, torch)
        scores = torch.as_tensor(raw).clone().requires_grad_()  # NumPy's functions fail on these
        return _loss_of_rows(function, y, scores, torch).detach().numpy()

    def slopes(y: Any, raw: Any, weights: Any, xp: Any) -> Any:
        scores = torch.as_tensor(raw).detach().clone().requires_grad_()
        value = _loss_of_rows(function, y, scores, torch)
        if not value.requires_grad:
            raise ValueError(
                "objective: the function must return a loss with a gradient in raw, and this one "
                "has none. Compute it from raw with torch functions, without detach."
            )
        pair = _autograd_slopes(value, scores, torch)
        return pair if xp is torch else tuple(tensor.numpy() for tensor in pair)

    return loss, slopes


def _autograd_slopes(value: Any, scores: Any, torch: Any) -> tuple[Any, Any]:
    """First and second derivatives; if no second one is positive, all of them are 1."""
    (first,) = torch.autograd.grad(value.sum(), scores, create_graph=True)
    second = torch.ones_like(scores)
    if first.requires_grad:
        (bend,) = torch.autograd.grad(first.sum(), scores)
        second = bend.clamp_min(SMALLEST_HESSIAN) if bool((bend > 0).any()) else second
    return first.detach(), second


def _loss_of_rows(function: TorchLoss, y: Any, scores: Any, torch: Any) -> Any:
    """Value of a torch function, (n, n_bags), refused unless it is the loss of each row."""
    try:
        value = function(torch.as_tensor(y, dtype=scores.dtype), scores)
    except RuntimeError as error:  # such as NumPy's functions, which have no gradient
        raise ValueError(
            "objective: the function must compute the loss from y and raw by torch, and it "
            f"failed: {str(error)!r}. Use torch functions."
        ) from error
    if not isinstance(value, torch.Tensor):
        raise ValueError(
            f"objective: the function must return a torch tensor, found "
            f"{type(value).__name__}. Return the loss of each row, computed from raw by torch."
        )
    if value.shape != scores.shape:
        raise ValueError(
            f"objective: the function must return the loss of each row, found shape "
            f"{tuple(value.shape)} for scores of shape {tuple(scores.shape)}. "
            "Leave out the mean or sum."
        )
    return value
