"""Formulas: the loss of each row and its derivatives, one pair of functions for each loss.

``*_loss`` takes (y, raw, weights, xp) and returns the loss of each row. ``*_slopes`` takes the same
and returns the first derivative in the raw score and a positive second derivative: the true one,
its expectation, or that of a parabola above the loss. ``xp`` is the library that the arrays belong
to, NumPy or torch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.loss.links import LINKS

AnyArray = Any  # an array of NumPy or of torch
Derivatives = tuple[AnyArray, AnyArray]
TorchLoss = Callable[[Any, Any], Any]

SMALLEST_HESSIAN = 1e-3  # rows that are all but certain keep some weight
SMALLEST_RESIDUAL = 0.02  # standard deviations; the second derivative of |r| is bounded there
LARGEST_LOG_MEAN = 40.0  # its exponential must not overflow single precision


def squared_error_loss(y: AnyArray, raw: AnyArray, weights: Any, xp: Any) -> AnyArray:
    """Half the squared residual, (f - y)^2 / 2."""
    return 0.5 * (raw - y) ** 2


def squared_error_slopes(y: AnyArray, raw: AnyArray, weights: Any, xp: Any) -> Derivatives:
    """Residual f - y, and 1."""
    return raw - y, xp.ones_like(raw)


def targets_loss(y: AnyArray, raw: AnyArray, weights: Any, xp: Any) -> AnyArray:
    """Half the squared residuals, summed over the targets on the last axis."""
    return squared_error_loss(y, raw, weights, xp).sum(-1)


def logistic_loss(y: AnyArray, raw: AnyArray, weights: Any, xp: Any) -> AnyArray:
    """Log-loss of y in {0, 1}: log(1 + exp(f)) - y f."""
    return raw.clip(min=0) + xp.log1p(xp.exp(-abs(raw))) - y * raw


def logistic_slopes(y: AnyArray, raw: AnyArray, weights: Any, xp: Any) -> Derivatives:
    """Probability p less y, and p (1 - p)."""
    decay = xp.exp(-abs(raw))
    mean = xp.where(raw >= 0, 1.0, decay) / (1 + decay)
    return mean - y, (mean * (1 - mean)).clip(min=SMALLEST_HESSIAN)


def _over_classes(combine: Callable[[Any, Any], Any], values: AnyArray) -> AnyArray:
    """Combine values over the last axis, class by class: NumPy is slow along a short axis."""
    return reduce(combine, [values[..., k] for k in range(values.shape[-1])])


def softmax_loss(y: AnyArray, raw: AnyArray, weights: Any, xp: Any) -> AnyArray:
    """Log-loss of y, an indicator of the class on the last axis: log(sum_k exp(f_k)) - y' f."""
    largest = _over_classes(xp.maximum, raw)
    odds = xp.exp(raw - largest[..., None])
    return largest + xp.log(_over_classes(add, odds)) - _over_classes(add, y * raw)


def softmax_slopes(y: AnyArray, raw: AnyArray, weights: Any, xp: Any) -> Derivatives:
    """Probabilities p less y, and 2 p (1 - p), which bounds the whole Hessian (Gershgorin)."""
    odds = xp.exp(raw - _over_classes(xp.maximum, raw)[..., None])
    mean = odds / _over_classes(add, odds)[..., None]
    bound = 2 * mean * (1 - mean)  # all outputs step at once
    return mean - y, bound.clip(min=SMALLEST_HESSIAN)


def tweedie_loss(y: AnyArray, raw: AnyArray, weights: Any, xp: Any, power: float) -> AnyArray:
    """Half the deviance at mean exp(f), up to a constant; powers 1 and 2 are its limits."""
    raw = raw.clip(min=-LARGEST_LOG_MEAN, max=LARGEST_LOG_MEAN)
    if power == 1:
        return xp.exp(raw) - y * raw
    if power == 2:
        return raw + y * xp.exp(-raw)
    loss = xp.exp((2 - power) * raw) / (2 - power)
    return loss - y * xp.exp((1 - power) * raw) / (1 - power)


def tweedie_slopes(y: AnyArray, raw: AnyArray, weights: Any, xp: Any, power: float) -> Derivatives:
    """First derivative, and the expectation of the second, exp((2 - power) f)."""
    raw = raw.clip(min=-LARGEST_LOG_MEAN, max=LARGEST_LOG_MEAN)
    expected = xp.exp((2 - power) * raw)
    return expected - y * xp.exp((1 - power) * raw), expected.clip(min=SMALLEST_HESSIAN)


def negative_binomial_loss(
    y: AnyArray, raw: AnyArray, weights: Any, xp: Any, dispersion: float
) -> AnyArray:
    """Negative log-likelihood at mean m = exp(f) and variance m + dispersion m^2, but a constant.

    (y + 1 / a) log(1 + a m) - y f for the dispersion a; the Poisson loss is its limit at 0.
    """
    raw = raw.clip(min=-LARGEST_LOG_MEAN, max=LARGEST_LOG_MEAN)
    return (y + 1 / dispersion) * xp.log1p(dispersion * xp.exp(raw)) - y * raw


def negative_binomial_slopes(
    y: AnyArray, raw: AnyArray, weights: Any, xp: Any, dispersion: float
) -> Derivatives:
    """First derivative, and the expectation of the second, m / (1 + a m)."""
    mean = xp.exp(raw.clip(min=-LARGEST_LOG_MEAN, max=LARGEST_LOG_MEAN))
    share = 1 / (1 + dispersion * mean)
    return (mean - y) * share, (mean * share).clip(min=SMALLEST_HESSIAN)


def negative_binomial_deviance(y: FloatArray, raw: FloatArray, dispersion: float) -> FloatArray:
    """Deviance at mean exp(f), zero where that is y.

    >>> negative_binomial_deviance(np.array([0.0, 2.0]), np.log([1.0, 2.0]), 1.0)
    array([1.38629436, 0.        ])
    """
    mean = LINKS["log"].inverse(raw)
    logs = y * np.log(np.where(y > 0, y, 1.0) / mean)
    both = np.log1p(dispersion * y) - np.log1p(dispersion * mean)
    return np.asarray(2 * (logs - (y + 1 / dispersion) * both))


def tweedie_deviance(y: FloatArray, raw: FloatArray, power: float) -> FloatArray:
    """Deviance at mean exp(f), zero where that is y; NaN for targets that have none.

    >>> tweedie_deviance(np.array([0.0, 2.0]), np.log([1.0, 2.0]), 1.0)
    array([2., 0.])
    """
    mean = LINKS["log"].inverse(raw)
    with np.errstate(divide="ignore", invalid="ignore"):
        if power == 1:
            half = np.where(y == 0, 0.0, y * np.log(y / mean)) - y + mean
        elif power == 2:
            half = np.log(mean / y) + y / mean - 1
        else:
            one, two = 1 - power, 2 - power
            half = y**two / (one * two) - y * mean**one / one + mean**two / two
        return np.where((y > 0) | ((y == 0) & (power < 2)), 2 * half, np.nan)


def pinball_loss(y: AnyArray, raw: AnyArray, weights: Any, xp: Any, levels: AnyArray) -> AnyArray:
    """Level q times the excess of y over f, or 1 - q times that of f over y; summed over levels."""
    residual = y - raw
    levels = xp.asarray(levels, dtype=raw.dtype)
    loss = levels * residual.clip(min=0) + (1 - levels) * (-residual).clip(min=0)
    return loss.sum(-1) if levels.ndim else loss


def pinball_slopes(
    y: AnyArray, raw: AnyArray, weights: Any, xp: Any, levels: AnyArray
) -> Derivatives:
    """Slopes of the parabola that touches the loss at the residual r and at -r."""
    residual = y - raw
    levels = xp.asarray(levels, dtype=raw.dtype)
    gradient = xp.where(residual > 0, -levels, 1 - levels)
    return gradient, 0.5 / abs(residual).clip(min=SMALLEST_RESIDUAL)


def huber_loss(y: AnyArray, raw: AnyArray, weights: Any, xp: Any, threshold: float) -> AnyArray:
    """Half the squared residual up to the threshold, linear beyond it."""
    size = abs(raw - y)
    inside = size.clip(max=threshold)
    return inside * (size - 0.5 * inside)


def huber_slopes(
    y: AnyArray, raw: AnyArray, weights: Any, xp: Any, threshold: float
) -> Derivatives:
    """Residual cut off at the threshold, and the slope of the parabola that touches the loss."""
    residual = raw - y
    gradient = residual.clip(min=-threshold, max=threshold)
    return gradient, threshold / abs(residual).clip(min=threshold)


def torch_formulas(function: TorchLoss) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Loss and slopes of a torch function that the user writes, with derivatives by autograd.

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
