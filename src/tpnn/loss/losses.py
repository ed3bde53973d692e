"""Objectives: a loss, its derivatives, its link and the targets it accepts.

Raw scores of several bags stand side by side, (n, n_bags * K), the K outputs of a bag together; a
target has shape (n, T).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tpnn.loss.links import LINKS, Link

FloatArray = Any  # an array of NumPy or of torch
Derivatives = tuple[FloatArray, FloatArray]

SMALLEST_HESSIAN = 1e-3  # rows that are all but certain keep some weight
SMALLEST_RESIDUAL = 0.02  # standard deviations; the bend of |r| is bounded there
HUBER_THRESHOLD = 0.5  # standard deviations of the target
TWEEDIE_POWER = 1.5
NEWTON_STEPS = 30
SMALLEST_DISPERSION, MOST_DEVIANCES = 1e-12, 3.0  # below, the target is a constant
LARGEST_LOG = 40.0  # of a mean; its exponential must not overflow single precision


@dataclass(frozen=True)
class Objective:
    """What training minimises: sum of weight * loss(y, f(x)).

    Parameters
    ----------
    name : str
        Value of the estimator's ``objective``.
    link : Link
        Link between the raw score f(x) and the prediction.
    loss : callable (y, raw, weights, xp) -> array
        Loss of each row; broadcasts over bags, and sums over outputs where there are several.
        ``xp`` is the library the arrays belong to, NumPy or torch.
    derivatives : callable (y, raw, weights, xp) -> pair of arrays
        First derivative of the loss in the raw score, and a positive second derivative: the true
        one, its expectation, or that of a parabola above the loss.
    reweightings : int
        Least squares problems that a second-order method solves one after the other.
    standardised : bool
        Whether training sees y shifted and scaled: to mean 0 and standard deviation 1 for squared
        error, by median and quartiles, as an outlier cannot move them, for the others.
    rule, accepts : str and callable
        Which targets are valid, in words and as a test of the array.
    n_outputs : int
        Outputs K of the model.
    couples_rows : bool
        Whether a row's loss depends on the other rows and their weights.
    couples_outputs : bool
        Whether a step in one output changes the slopes of the others.
    levels : sequence of float, optional
        Quantiles that are estimated.
    steep : bool
        Whether the second derivative has no bound, so that a Newton step may go anywhere.
    """

    name: str
    link: Link
    loss: Callable[..., FloatArray]
    derivatives: Callable[..., Derivatives]
    reweightings: int
    standardised: bool
    rule: str = "finite numbers"
    accepts: Callable[[FloatArray], bool] = lambda y: True
    n_outputs: int = 1
    couples_rows: bool = False
    couples_outputs: bool = False
    levels: tuple[float, ...] | None = None
    steep: bool = False

    def losses(
        self, y: FloatArray, raw: FloatArray, weights: Any = None, xp: Any = np
    ) -> FloatArray:
        """Loss of each row in each bag, (n, n_bags), of raw scores (n, n_bags * K)."""
        return self.loss(*self._shaped(y, raw), weights, xp)

    def slopes(
        self, y: FloatArray, raw: FloatArray, weights: Any = None, xp: Any = np
    ) -> Derivatives:
        """First and second derivatives, each (n, n_bags * K)."""
        gradient, hessian = self.derivatives(*self._shaped(y, raw), weights, xp)
        return gradient.reshape(raw.shape), hessian.reshape(raw.shape)

    def _shaped(self, y: FloatArray, raw: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self.n_outputs == 1:
            return y, raw
        return y[:, None, :], raw.reshape(len(raw), -1, self.n_outputs)

    @property
    def is_relative(self) -> bool:
        """Whether f is the logarithm of a mean: another unit of y moves only its constant."""
        return self.link.name == "log" and not self.couples_rows

    def in_units_of_dispersion(
        self, y: FloatArray, raw: FloatArray, weights: FloatArray
    ) -> Objective:
        """Divide the loss of a mean by the dispersion of y around raw scores (n, 1).

        It is about 1 for counts. A loss of rates, or of amounts in another unit, becomes comparable
        with penalties that are in rows, as a standardised target does.
        """
        dispersion = self._dispersion(y, raw, weights)
        unit = dispersion if dispersion > SMALLEST_DISPERSION else 1.0

        def loss(*arguments: Any) -> FloatArray:
            return self.loss(*arguments) / unit

        def derivatives(*arguments: Any) -> Derivatives:
            first, second = self.derivatives(*arguments)
            return first / unit, second / unit

        return replace(self, loss=loss, derivatives=derivatives)

    def _dispersion(self, y: FloatArray, raw: FloatArray, weights: FloatArray) -> float:
        """Pearson's statistic, or three mean deviances where a few large values make it larger."""
        gradient, hessian = self.slopes(y, raw, weights[:, None])
        perfect = np.where(y > 0, self.losses(y, np.log(np.where(y > 0, y, 1.0))), 0.0)
        deviance = 2 * (self.losses(y, raw) - perfect)
        sums = weights @ np.column_stack([gradient**2, MOST_DEVIANCES * deviance])
        return float(sums.min() / (weights @ hessian[:, 0]))

    def start(self, y: FloatArray, offset: FloatArray, weights: FloatArray) -> FloatArray:
        """Raw score (K,) of the best constant beside the offset (n, 1)."""
        column, mean = weights[:, None], np.average(y, axis=0, weights=weights)
        if self.couples_rows:
            return np.zeros(self.n_outputs)
        if self.levels is not None:
            return weighted_quantiles((y - offset)[:, 0], weights, self.levels)
        constant = self.link.forward(mean) - np.average(offset[:, 0], weights=weights)
        for _ in range(NEWTON_STEPS):
            gradient, hessian = self.slopes(y, offset + constant, column)
            step = (column * gradient).sum(0) / (column * hessian).sum(0)
            if not np.isfinite(step).all():
                break
            constant = constant - step
        _check_finite(self.losses(y, offset + constant, column), gradient, hessian)
        return np.asarray(constant, np.float64)


def _check_finite(losses: FloatArray, gradient: FloatArray, hessian: FloatArray) -> None:
    finite = np.isfinite(np.column_stack([losses, gradient, hessian])).all(1)
    if not finite.all():
        raise ValueError(
            "objective: the loss of every row, and its derivatives, must be finite at the best "
            f"constant, found NaN or inf in {(~finite).sum()} of {len(finite)} rows. Change the "
            "function or the targets."
        )


def squared_error_loss(y: FloatArray, raw: FloatArray, weights: Any, xp: Any) -> FloatArray:
    """Half the squared residual."""
    return 0.5 * (raw - y) ** 2


def _squared_error_slopes(y: FloatArray, raw: FloatArray, weights: Any, xp: Any) -> Derivatives:
    return raw - y, xp.ones_like(raw)


def _targets_loss(y: FloatArray, raw: FloatArray, weights: Any, xp: Any) -> FloatArray:
    loss: FloatArray = squared_error_loss(y, raw, weights, xp).sum(-1)
    return loss


def _logistic_loss(y: FloatArray, raw: FloatArray, weights: Any, xp: Any) -> FloatArray:
    loss: FloatArray = raw.clip(min=0) + xp.log1p(xp.exp(-abs(raw))) - y * raw
    return loss


def _logistic_slopes(y: FloatArray, raw: FloatArray, weights: Any, xp: Any) -> Derivatives:
    decay = xp.exp(-abs(raw))
    mean = xp.where(raw >= 0, 1.0, decay) / (1 + decay)
    return mean - y, (mean * (1 - mean)).clip(min=SMALLEST_HESSIAN)


def _softmax_loss(y: FloatArray, raw: FloatArray, weights: Any, xp: Any) -> FloatArray:
    """Log-loss of y, an indicator of the class on the last axis."""
    largest = xp.amax(raw, -1)
    log_sum = largest + xp.log(xp.exp(raw - largest[..., None]).sum(-1))
    loss: FloatArray = log_sum - (y * raw).sum(-1)
    return loss


def _softmax_slopes(y: FloatArray, raw: FloatArray, weights: Any, xp: Any) -> Derivatives:
    odds = xp.exp(raw - xp.amax(raw, -1)[..., None])
    mean = odds / odds.sum(-1)[..., None]
    bound = 2 * mean * (1 - mean)  # of the whole hessian, as all outputs step at once (Gershgorin)
    return mean - y, bound.clip(min=SMALLEST_HESSIAN)


def _tweedie_loss(
    y: FloatArray, raw: FloatArray, weights: Any, xp: Any, power: float
) -> FloatArray:
    """Half the deviance at mean exp(raw), up to a constant; powers 1 and 2 are its limits."""
    raw = raw.clip(min=-LARGEST_LOG, max=LARGEST_LOG)
    if power == 1:
        return xp.exp(raw) - y * raw
    if power == 2:
        return raw + y * xp.exp(-raw)
    loss: FloatArray = xp.exp((2 - power) * raw) / (2 - power)
    return loss - y * xp.exp((1 - power) * raw) / (1 - power)


def _tweedie_slopes(
    y: FloatArray, raw: FloatArray, weights: Any, xp: Any, power: float
) -> Derivatives:
    raw = raw.clip(min=-LARGEST_LOG, max=LARGEST_LOG)
    expected = xp.exp((2 - power) * raw)
    return expected - y * xp.exp((1 - power) * raw), expected.clip(min=SMALLEST_HESSIAN)


def _pinball_loss(
    y: FloatArray, raw: FloatArray, weights: Any, xp: Any, levels: FloatArray
) -> FloatArray:
    """Level times what lies above the score, one minus level times what lies below."""
    residual = y - raw
    levels = xp.asarray(levels, dtype=raw.dtype)
    loss: FloatArray = levels * residual.clip(min=0) + (1 - levels) * (-residual).clip(min=0)
    return loss.sum(-1) if levels.ndim else loss


def _pinball_slopes(
    y: FloatArray, raw: FloatArray, weights: Any, xp: Any, levels: FloatArray
) -> Derivatives:
    """Slopes of the parabola that touches the loss at r and at -r."""
    residual = y - raw
    levels = xp.asarray(levels, dtype=raw.dtype)
    gradient = xp.where(residual > 0, -levels, 1 - levels)
    return gradient, 0.5 / abs(residual).clip(min=SMALLEST_RESIDUAL)


def _huber_loss(
    y: FloatArray, raw: FloatArray, weights: Any, xp: Any, threshold: float
) -> FloatArray:
    size = abs(raw - y)
    inside = size.clip(max=threshold)
    loss: FloatArray = inside * (size - 0.5 * inside)
    return loss


def _huber_slopes(
    y: FloatArray, raw: FloatArray, weights: Any, xp: Any, threshold: float
) -> Derivatives:
    residual = raw - y
    gradient = residual.clip(min=-threshold, max=threshold)
    return gradient, threshold / abs(residual).clip(min=threshold)


def _risk_sets(y: FloatArray, raw: FloatArray, weights: FloatArray) -> tuple[Any, ...]:
    """Relative risks, and the weighted risk of all who live at each row's time, each (n, bags)."""
    order = np.argsort(-y[:, 0], kind="stable")
    times = y[order, 0]
    last = np.searchsorted(-times, -times, side="right") - 1  # tied times share a risk set
    risk = np.exp(raw - raw.max(0))
    alive = np.empty_like(risk)
    alive[order] = np.cumsum((weights * risk)[order], axis=0)[last]
    return order, last, risk, np.maximum(alive, np.finfo(risk.dtype).tiny)


def _cox_loss(y: FloatArray, raw: FloatArray, weights: FloatArray, xp: Any) -> FloatArray:
    """Negative log partial likelihood (Breslow) of y = (time, event)."""
    _, _, _, alive = _risk_sets(y, raw, weights)
    loss: FloatArray = y[:, 1:] * (np.log(alive) + raw.max(0) - raw)
    return loss


def _cox_slopes(y: FloatArray, raw: FloatArray, weights: FloatArray, xp: Any) -> Derivatives:
    order, _, risk, alive = _risk_sets(y, raw, weights)
    hazard = (weights * y[:, 1:] / alive)[order[::-1]]  # by increasing time
    times = y[order[::-1], 0]
    until = np.searchsorted(times, y[:, 0], side="right") - 1
    expected = risk * np.cumsum(hazard, axis=0)[until]
    return expected - y[:, 1:], np.maximum(expected, SMALLEST_HESSIAN)


def weighted_quantiles(values: FloatArray, weights: FloatArray, levels: Any) -> FloatArray:
    """Smallest values (n,) that at least these shares of the weights do not exceed."""
    order = np.argsort(values)
    below = np.cumsum(weights[order]) / weights.sum()
    return values[order][np.minimum(np.searchsorted(below, levels), len(values) - 1)]


def _is_count_like(y: FloatArray) -> bool:
    return bool((y >= 0).all() and y.any())


NOT_NEGATIVE = "numbers of at least 0, not all 0"


def tweedie(
    power: float,
    name: str = "tweedie",
    rule: str = NOT_NEGATIVE,
    accepts: Callable[..., bool] = _is_count_like,
) -> Objective:
    """Tweedie deviance: power 1 is Poisson, 2 is gamma, between them zeros are likely."""
    loss, slopes = partial(_tweedie_loss, power=power), partial(_tweedie_slopes, power=power)
    return Objective(name, LINKS["log"], loss, slopes, 4, False, rule, accepts, steep=True)


def quantiles(levels: Any, name: str = "quantile") -> Objective:
    """Pinball loss at one level, or at several, whose predictions never cross."""
    array = np.asarray(levels, np.float32)
    loss, slopes = partial(_pinball_loss, levels=array), partial(_pinball_slopes, levels=array)
    link = LINKS["quantiles" if array.ndim else "identity"]
    several = tuple(np.atleast_1d(levels).tolist())
    return Objective(name, link, loss, slopes, 4, True, n_outputs=array.size, levels=several)


def huber(threshold: float) -> Objective:
    """Squared error up to the threshold, in standard deviations by the quartiles, then linear."""
    loss, slopes = (partial(f, threshold=threshold) for f in (_huber_loss, _huber_slopes))
    return Objective("huber", LINKS["identity"], loss, slopes, 4, True)


OBJECTIVES = {
    objective.name: objective
    for objective in (
        Objective(
            "squared_error", LINKS["identity"], squared_error_loss, _squared_error_slopes, 1, True
        ),
        quantiles(0.5, "absolute_error"),
        huber(HUBER_THRESHOLD),
        quantiles(0.5),
        tweedie(1.0, "poisson"),
        tweedie(2.0, "gamma", "positive numbers", lambda y: bool((y > 0).all())),
        tweedie(TWEEDIE_POWER),
        Objective("log_loss", LINKS["logit"], _logistic_loss, _logistic_slopes, 2, False),
        Objective(
            "cox", LINKS["log"], _cox_loss, _cox_slopes, 4, False, couples_rows=True, steep=True,
        ),
    )
}  # fmt: skip


def several_targets(n_outputs: int) -> Objective:
    """Squared error of several targets at once."""
    single = OBJECTIVES["squared_error"]
    return replace(single, loss=_targets_loss, n_outputs=n_outputs)


def several_classes(n_classes: int) -> Objective:
    """Log-loss of more than two classes; y has an indicator column for each."""
    link = LINKS["softmax"]
    return Objective(
        "log_loss", link, _softmax_loss, _softmax_slopes, 2, False, n_outputs=n_classes,
        couples_outputs=True,
    )  # fmt: skip


def resolve(objective: Any, n_targets: int) -> Objective:
    """Objective of a name, a dict with a name and its parameter, or a torch function.

    >>> resolve({"name": "quantile", "levels": [0.1, 0.9]}, n_targets=1).n_outputs
    2
    """
    if n_targets > 1 and objective != "squared_error":
        raise ValueError(
            f"objective: several targets at once are fitted by 'squared_error', found "
            f"{objective!r} for {n_targets} targets. Fit a model for each target, for example with "
            "sklearn.multioutput.MultiOutputRegressor."
        )
    if callable(objective):
        return custom(objective)
    given = {"name": objective} if isinstance(objective, str) else dict(objective)
    name = given.pop("name")
    if name == "quantile" and given:
        levels = given["levels"]
        return quantiles(levels[0] if np.size(levels) == 1 and np.ndim(levels) else levels)
    if given:
        return huber(**given) if name == "huber" else tweedie(**given)
    if n_targets > 1:
        return several_targets(n_targets)
    return OBJECTIVES[name]


def custom(function: Callable[[Any, Any], Any]) -> Objective:
    """Loss given as a torch function (y, raw) -> loss of each row, with derivatives by autograd."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "objective: a function needs torch, which is not installed. "
            'Run: pip install "tpnn[torch]"'
        ) from error

    def loss(y: Any, raw: Any, weights: Any, xp: Any) -> Any:
        value = _loss_of_rows(function, y, torch.as_tensor(raw), torch)
        return value if xp is torch else value.numpy()

    def slopes(y: Any, raw: Any, weights: Any, xp: Any) -> Any:
        scores = torch.as_tensor(raw).detach().clone().requires_grad_()
        value = _loss_of_rows(function, y, scores, torch)
        if not value.requires_grad:
            raise ValueError(
                "objective: the function must return a loss with a gradient in raw, found none. "
                "Make it of raw by torch functions, without detach."
            )
        (first,) = torch.autograd.grad(value.sum(), scores, create_graph=True)
        second = torch.ones_like(scores)
        if first.requires_grad:
            (bend,) = torch.autograd.grad(first.sum(), scores)
            second = bend.clamp_min(SMALLEST_HESSIAN) if bool((bend > 0).any()) else second
        pair = first.detach(), second
        return pair if xp is torch else tuple(part.numpy() for part in pair)

    return Objective("custom", LINKS["identity"], loss, slopes, 4, False, steep=True)


def _loss_of_rows(function: Callable[[Any, Any], Any], y: Any, scores: Any, torch: Any) -> Any:
    """Value of a torch function, (n, n_bags), refused where it is no loss of each row."""
    try:
        value = function(torch.as_tensor(y, dtype=scores.dtype), scores)
    except RuntimeError as error:  # such as NumPy's functions, which have no gradient
        raise ValueError(
            f"objective: the function must return a loss made of y and raw by torch, found the "
            f"error {str(error)!r}. Use torch functions."
        ) from error
    if not isinstance(value, torch.Tensor):
        raise ValueError(
            f"objective: the function must return a torch tensor, found "
            f"{type(value).__name__}. Return the loss of each row, made of raw by torch."
        )
    if value.shape != scores.shape:
        raise ValueError(
            f"objective: the function must return the loss of each row, found shape "
            f"{tuple(value.shape)} for scores of shape {tuple(scores.shape)}. "
            "Leave out the mean or sum."
        )
    return value
