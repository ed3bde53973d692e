"""Objectives: a loss, its derivatives, its link and the targets it accepts.

Raw scores of several bags stand side by side, (n, n_bags * K), the K outputs of a bag together; a
target has shape (n, T).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn._utils.rules import COUNT, Rule, is_number, is_positive
from tpnn.loss import formulas, risk_sets
from tpnn.loss.formulas import AnyArray, Derivatives, torch_formulas
from tpnn.loss.links import LINKS, Link

HUBER_THRESHOLD = 0.5  # standard deviations of the target
TWEEDIE_POWER = 1.5
QUARTILE_RANGE = 1.349  # interquartile range of a normal distribution, in standard deviations
N_NEWTON_STEPS, N_HALVINGS = 30, 40
MANY_ROWS, SMALLEST_STEP = 1_000_000, 1e-12  # with many rows, a smaller step is the last
SMALLEST_DISPERSION = 1e-12  # below it the target is a constant
MAX_MEAN_DEVIANCES = 3.0  # a bound on Pearson's statistic, which a few large values inflate
SMALLEST_COUNT_DISPERSION, LARGEST_COUNT_DISPERSION = 1e-5, 1e3
NOT_NEGATIVE = "numbers of at least 0, not all 0"


@dataclass(frozen=True)
class Objective:
    """What training minimises: sum of weight * loss(y, f(x))."""

    name: str  # value of the estimator's ``objective``
    link: Link
    # (y, raw, weights, xp) -> loss of each row, for each bag, summed over the outputs
    loss: Callable[..., AnyArray]
    # the same -> first and positive second derivative, as in formulas
    derivatives: Callable[..., Derivatives]
    # number of least squares problems that a second-order method solves in turn
    reweightings: int = 4
    # Whether training sees y shifted and scaled: to mean 0 and standard deviation 1 for
    # squared error, for the others by the median and quartiles, which no outlier moves.
    standardised: bool = False
    rule: str = "finite numbers"  # which targets are valid
    accepts: Callable[[AnyArray], bool] = lambda y: True  # the same as a test
    n_outputs: int = 1  # number of outputs K of the model
    couples_rows: bool = False  # whether a row's loss depends on the other rows and their weights
    couples_outputs: bool = False  # whether a step in one output changes the slopes of the others
    levels: tuple[float, ...] | None = None  # quantiles that are estimated
    steep: bool = False  # the second derivative has no bound, so Newton steps need a limit
    power: float | None = None  # power of the Tweedie deviance of which the loss is half
    # Whether the second derivative may be far below the curvature of the loss at a distance,
    # so that Newton steps are halved until the loss does not rise.
    is_damped: bool = False
    # Whether predictions are means, so that they should have the sum of the targets.
    # Quantiles and relative risks are no means, and a few outliers should not move the
    # constant of a robust or custom loss.
    predicts_means: bool = False
    has_intervals: bool = False  # whether intervals around predictions make sense
    degree: int = 0  # the reported loss is in the unit of y to this power,
    factor: float = 1.0  # and this many times the loss
    words: str = ""  # description in the documentation
    parameter: Parameter | None = None  # a value that the loss takes besides its name
    dispersion: float | None = None  # a of counts with the variance m + a m^2 at mean m
    is_estimated: bool = False  # whether a fit estimates the dispersion
    cause: int | None = None  # kind of event that survival is about; without it there is only one

    @property
    def kind(self) -> str:
        """What is predicted: "numbers", "rates", "classes", "quantiles" or "survival"."""
        return "survival" if self.couples_rows else self.link.kind

    def losses(self, y: AnyArray, raw: AnyArray, weights: Any = None, xp: Any = np) -> AnyArray:
        """Loss of each row in each bag, (n, n_bags), of raw scores (n, n_bags * K)."""
        return self.loss(*self._shaped(y, raw), weights, xp)

    def slopes(self, y: AnyArray, raw: AnyArray, weights: Any = None, xp: Any = np) -> Derivatives:
        """First and second derivatives, each (n, n_bags * K)."""
        gradient, hessian = self.derivatives(*self._shaped(y, raw), weights, xp)
        return gradient.reshape(raw.shape), hessian.reshape(raw.shape)

    def _shaped(self, y: AnyArray, raw: AnyArray) -> tuple[AnyArray, AnyArray]:
        if self.n_outputs == 1:
            return y, raw
        n_bags = raw.shape[1] // self.n_outputs
        return y[:, None, :], raw.reshape(len(raw), n_bags, self.n_outputs)

    @property
    def is_alone(self) -> bool:
        """Whether only rows at risk count, and none that had another event before."""
        return self.name != "fine_gray"

    @property
    def is_relative(self) -> bool:
        """Whether f is the logarithm of a mean: another unit of y moves only its constant."""
        return self.kind == "rates"

    def reported(self, unit: float = 1.0) -> Objective:
        """Return the loss as people read it, of y and raw scores in the user's unit.

        It is the mean over several outputs, and the deviance if the loss is half a deviance. A
        standardised loss measures residuals in ``unit``, the spread of y.
        """
        factor = self.factor / (1 if self.couples_outputs else self.n_outputs)

        def in_unit(power: int) -> Any:
            return factor * np.float64(unit) ** power  # a float of Python raises if it overflows

        def loss(y: AnyArray, raw: AnyArray, weights: Any, xp: Any) -> AnyArray:
            if self.power is not None:
                return formulas.tweedie_deviance(y, raw, self.power)
            if self.dispersion is not None:
                return formulas.negative_binomial_deviance(y, raw, self.dispersion)
            return in_unit(self.degree) * self.loss(y / unit, raw / unit, weights, xp)

        def derivatives(y: AnyArray, raw: AnyArray, weights: Any, xp: Any) -> Derivatives:
            first, second = self.derivatives(y / unit, raw / unit, weights, xp)
            return in_unit(self.degree - 1) * first, in_unit(self.degree - 2) * second

        return replace(self, loss=loss, derivatives=derivatives)

    def of_targets_in(self, unit: float) -> Objective:
        """Return the loss, over the unit, of targets that are counted in another unit."""
        return self if self.dispersion is None else negative_binomial(self.dispersion * unit)

    def in_units_of_dispersion(self, y: AnyArray, raw: AnyArray, weights: AnyArray) -> Objective:
        """Divide the loss of a mean by the dispersion of y around raw scores (n, 1).

        The dispersion is about 1 for counts. So the loss of rates, or of amounts in any unit, is
        comparable with penalties in rows, as the loss of a standardised target is.
        """
        dispersion = self._dispersion(y, raw, weights)
        unit = dispersion if dispersion > SMALLEST_DISPERSION else 1.0

        def loss(*arguments: Any) -> AnyArray:
            return self.loss(*arguments) / unit

        def derivatives(*arguments: Any) -> Derivatives:
            first, second = self.derivatives(*arguments)
            return first / unit, second / unit

        return replace(self, loss=loss, derivatives=derivatives)

    def _dispersion(self, y: AnyArray, raw: AnyArray, weights: AnyArray) -> float:
        """Pearson's statistic, or three mean deviances where a few large values make it larger."""
        gradient, hessian = self.slopes(y, raw, weights[:, None])
        perfect = np.where(y > 0, self.losses(y, np.log(np.where(y > 0, y, 1.0))), 0.0)
        deviance = 2 * (self.losses(y, raw) - perfect)
        sums = weights @ np.column_stack([gradient**2, MAX_MEAN_DEVIANCES * deviance])
        return float(sums.min() / (weights @ hessian[:, 0]))

    def start(self, y: AnyArray, offset: AnyArray, weights: AnyArray) -> AnyArray:
        """Constant raw score (K,) that minimises the loss, given the offset (n, 1)."""
        column, mean = weights[:, None], np.average(y, axis=0, weights=weights)
        if self.couples_rows:
            return np.zeros(self.n_outputs)
        if self.levels is not None:
            return weighted_quantiles((y - offset)[:, 0], weights, self.levels)
        constant = self.link.forward(mean) - np.average(offset[:, 0], weights=weights)
        if self.is_damped:  # Newton steps from far away are small; outliers move no median
            median = weighted_quantiles((y - offset)[:, 0], weights, (0.5,))
            losses = [self._total(y, offset + c, column) for c in (constant, median)]
            constant = median if losses[1] < losses[0] else constant
        for _ in range(N_NEWTON_STEPS):
            gradient, hessian = self.slopes(y, offset + constant, column)
            step = (column * gradient).sum(0) / (column * hessian).sum(0)
            if not np.isfinite(step).all():
                break
            constant = constant - step * self._damping(y, offset + constant, column, step)
            if len(y) > MANY_ROWS and np.abs(step).max() <= SMALLEST_STEP:
                break
        _check_finite(self.losses(y, offset + constant, column), gradient, hessian)
        return np.asarray(constant, np.float64)

    def _damping(self, y: AnyArray, raw: AnyArray, column: AnyArray, step: AnyArray) -> float:
        """Share of a Newton step after which the loss is not higher: 1, 1/2, 1/4, ...

        The second derivatives of built-in losses bound the loss or are exact, so they need none.
        """
        if not self.is_damped:
            return 1.0
        before = self._total(y, raw, column)
        for share in 0.5 ** np.arange(N_HALVINGS):
            if self._total(y, raw - share * step, column) <= before:
                return float(share)
        return 0.0

    def _total(self, y: AnyArray, raw: AnyArray, column: AnyArray) -> float:
        """Sum of the losses of raw scores (n, K), with weights (n, 1)."""
        return float((column * self.losses(y, raw, column)).sum())


def _check_finite(losses: AnyArray, gradient: AnyArray, hessian: AnyArray) -> None:
    finite = np.isfinite(np.column_stack([losses, gradient, hessian])).all(1)
    if not finite.all():
        raise ValueError(
            "objective: the loss of every row, and its derivatives, must be finite at the best "
            f"constant, found NaN or inf in {(~finite).sum()} of {len(finite)} rows. Change the "
            "function or the targets."
        )


def weighted_quantiles(values: AnyArray, weights: AnyArray, levels: Any) -> AnyArray:
    """Smallest of the values (n,) up to which at least these shares of the weights lie."""
    order = np.argsort(values)
    below = np.cumsum(weights[order]) / weights.sum()
    return values[order][np.minimum(np.searchsorted(below, levels), len(values) - 1)]


def mean_and_deviation(y: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of every column of y (n, T); the latter is 1 if y is constant."""
    mean = np.where((y == y[0]).all(0), y[0], weights @ y)  # the sum of equal values is rounded
    centred = y - mean
    largest = np.maximum(centred.max(0), -centred.min(0))  # in this unit no square overflows
    largest[largest == 0] = 1.0
    centred /= largest
    centred **= 2
    deviation = largest * np.sqrt(weights @ centred)
    return mean, np.where(deviation > 0, deviation, 1.0)


def median_and_quartiles(y: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Median, and standard deviation estimated from the quartiles as if y (n, 1) were normal."""
    low, median, high = weighted_quantiles(y[:, 0], weights, (0.25, 0.5, 0.75))
    if high > low:
        return np.array([median]), np.array([(high - low) / QUARTILE_RANGE])
    return mean_and_deviation(y, weights)


class Parameter(NamedTuple):
    """A value that a loss takes besides its name, as in {"name": "huber", "threshold": 1.0}."""

    name: str
    rule: Rule
    make: Callable[[Any], Objective]  # the loss with a value that satisfies the rule


def _is_count_like(y: AnyArray) -> bool:
    return bool((y >= 0).all() and y.any())


def _are_levels(value: Any) -> bool:
    levels = list(value) if isinstance(value, list | tuple | np.ndarray) else [value]
    inside = levels and all(is_positive(level) and level < 1 for level in levels)
    return bool(inside) and all(a < b for a, b in pairwise(levels))


def tweedie(power: float) -> Objective:
    """Tweedie deviance: power 1 is Poisson, 2 is gamma, between them zeros are likely."""
    return Objective(
        name="tweedie",
        words="amounts, many of them zero",
        link=LINKS["log"],
        loss=partial(formulas.tweedie_loss, power=power),
        derivatives=partial(formulas.tweedie_slopes, power=power),
        rule=NOT_NEGATIVE,
        accepts=_is_count_like,
        steep=True,
        power=power,
        predicts_means=True,
        has_intervals=True,
        parameter=Parameter(
            "power",
            Rule("a number from 1 to 2", lambda value: is_number(value) and 1 <= value <= 2, 1.5),
            tweedie,
        ),
    )


def negative_binomial(dispersion: float) -> Objective:
    """Likelihood of counts with mean m and variance m + dispersion m^2."""
    return replace(
        tweedie(1.0),
        name="negative_binomial",
        words="counts that vary more than Poisson's; the dispersion is estimated, or given",
        loss=partial(formulas.negative_binomial_loss, dispersion=dispersion),
        derivatives=partial(formulas.negative_binomial_slopes, dispersion=dispersion),
        power=None,
        dispersion=dispersion,
        parameter=Parameter(
            "dispersion", Rule("a positive number", is_positive, 0.5), negative_binomial
        ),
    )


def likeliest_dispersion(y: FloatArray, raw: FloatArray, weights: FloatArray) -> float:
    """Dispersion of counts y (n,) with means exp(f) by maximum likelihood.

    It is ``SMALLEST_COUNT_DISPERSION`` where counts vary no more than Poisson's.
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import gammaln

    def loss(log_dispersion: float) -> float:
        shape = np.exp(-log_dispersion)
        rows = formulas.negative_binomial_loss(y, raw, None, np, 1 / shape)
        constants = gammaln(shape) - gammaln(y + shape) - y * log_dispersion
        return float(weights @ (rows + constants))

    bounds = np.log([SMALLEST_COUNT_DISPERSION, LARGEST_COUNT_DISPERSION])
    return float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded").x))


def quantiles(levels: Any) -> Objective:
    """Pinball loss at one level, or at several, whose predictions never cross."""
    if np.ndim(levels) and np.size(levels) == 1:
        levels = levels[0]
    array = np.asarray(levels, np.float32)
    return Objective(
        name="quantile",
        words="the median, or any other quantiles",
        link=LINKS["quantiles" if array.ndim else "identity"],
        loss=partial(formulas.pinball_loss, levels=array),
        derivatives=partial(formulas.pinball_slopes, levels=array),
        standardised=True,
        n_outputs=array.size,
        levels=tuple(np.atleast_1d(levels).tolist()),
        degree=1,
        parameter=Parameter(
            "levels",
            Rule("numbers that increase between 0 and 1", _are_levels, [0.1, 0.9]),
            quantiles,
        ),
    )


def huber(threshold: float) -> Objective:
    """Squared error up to the threshold, in standard deviations by the quartiles, then linear."""
    return Objective(
        name="huber",
        words="numbers with outliers; the threshold is in standard deviations of y, estimated from "
        "its quartiles",
        link=LINKS["identity"],
        loss=partial(formulas.huber_loss, threshold=threshold),
        derivatives=partial(formulas.huber_slopes, threshold=threshold),
        standardised=True,
        has_intervals=True,
        degree=2,
        parameter=Parameter("threshold", Rule("a positive number", is_positive, 1.0), huber),
    )


def cox(cause: int | None) -> Objective:
    """Partial likelihood of the hazard of an event; of one kind of several, others censor it."""
    return Objective(
        name="cox",
        words="times until an event, some of them censored; with a cause, the hazard of one of "
        "several kinds of events while none has happened",
        link=LINKS["log"],
        loss=risk_sets.cox_loss,
        derivatives=risk_sets.cox_slopes,
        couples_rows=True,
        steep=True,
        parameter=Parameter("cause", COUNT, cox),
        cause=cause,
    )


def efron(cause: int | None) -> Objective:
    """Partial likelihood of the same hazard, by Efron's rule for events at the same time."""
    return replace(
        cox(cause),
        name="cox_efron",
        words="the same, with Efron's rule for tied times in place of Breslow's",
        loss=risk_sets.efron_loss,
        derivatives=risk_sets.efron_slopes,
        parameter=Parameter("cause", COUNT, efron),
    )


def fine_gray(cause: int) -> Objective:
    """Partial likelihood of the hazard of the share of all rows that have had one kind of event."""
    return replace(
        cox(cause),
        name="fine_gray",
        words="times until one of several kinds of events, by the share of all rows that have had "
        "it (Fine and Gray)",
        loss=risk_sets.fine_gray_loss,
        derivatives=risk_sets.fine_gray_slopes,
        parameter=Parameter("cause", COUNT, fine_gray),
    )


def custom(function: Callable[[Any, Any], Any]) -> Objective:
    """Loss given as a torch function (y, raw) -> loss of each row, with derivatives by autograd."""
    loss, slopes = torch_formulas(function)
    return Objective(
        name="custom",
        link=LINKS["identity"],
        loss=loss,
        derivatives=slopes,
        steep=True,
        is_damped=True,
    )


SQUARED_ERROR = Objective(
    name="squared_error",
    words="the mean of numbers, of one target or of several",
    link=LINKS["identity"],
    loss=formulas.squared_error_loss,
    derivatives=formulas.squared_error_slopes,
    reweightings=1,
    standardised=True,
    predicts_means=True,
    has_intervals=True,
    degree=2,
    factor=2.0,  # the loss is half the square
)
LOG_LOSS = Objective(
    name="log_loss",
    words="the probability of each class",
    link=LINKS["logit"],
    loss=formulas.logistic_loss,
    derivatives=formulas.logistic_slopes,
    reweightings=2,
    predicts_means=True,
    has_intervals=True,
)
COX = cox(None)
POISSON = replace(tweedie(1.0), name="poisson", words="counts", parameter=None)
OBJECTIVES = {
    objective.name: objective
    for objective in (
        SQUARED_ERROR,
        replace(
            quantiles(0.5),
            name="absolute_error",
            words="the median of numbers",
            has_intervals=True,
            factor=2.0,  # the loss is half the distance
            parameter=None,
        ),
        huber(HUBER_THRESHOLD),
        quantiles(0.5),
        POISSON,
        replace(negative_binomial(1.0), is_estimated=True),
        replace(
            tweedie(2.0),
            name="gamma",
            words="positive amounts",
            rule="positive numbers",
            accepts=lambda y: bool((y > 0).all()),
            parameter=None,
        ),
        tweedie(TWEEDIE_POWER),
        LOG_LOSS,
        COX,
        efron(None),
        fine_gray(1),
    )
}


OF_REGRESSION = ("numbers", "rates")  # kinds that a regressor can be asked for
OF_SURVIVAL = ("survival",)


def objectives_of(kinds: Sequence[str] = OF_REGRESSION) -> dict[str, Objective]:
    """Losses of some kinds, by name."""
    return {name: one for name, one in OBJECTIVES.items() if one.kind in kinds}


def is_objective(value: Any, kinds: Sequence[str] = OF_REGRESSION) -> bool:
    """Whether an estimator of losses of some kinds, by default a regressor, takes an objective.

    >>> is_objective("huber"), is_objective({"name": "huber", "threshold": -1}), is_objective("cox")
    (True, False, False)
    """
    if callable(value):
        return kinds == OF_REGRESSION
    named = {"name": value} if isinstance(value, str) else value
    if not isinstance(named, Mapping) or not isinstance(named.get("name"), str):
        return False
    objective = objectives_of(kinds).get(named["name"])
    values = {key: item for key, item in named.items() if key != "name"}
    if objective is None or isinstance(value, str):
        return objective is not None
    parameter = objective.parameter
    return (
        parameter is not None
        and values.keys() == {parameter.name}
        and parameter.rule.holds(values[parameter.name])
    )


def examples_of_parameters(kinds: Sequence[str] = OF_REGRESSION) -> list[dict[str, Any]]:
    """Objectives with a parameter as a dict, one example for each."""
    return [
        {"name": name, objective.parameter.name: objective.parameter.rule.example}
        for name, objective in objectives_of(kinds).items()
        if objective.parameter is not None
    ]


def several_targets(n_outputs: int) -> Objective:
    """Squared error of several targets at once."""
    return replace(SQUARED_ERROR, loss=formulas.targets_loss, n_outputs=n_outputs)


def several_classes(n_classes: int) -> Objective:
    """Log-loss of more than two classes; y has an indicator column for each."""
    return replace(
        LOG_LOSS,
        link=LINKS["softmax"],
        loss=formulas.softmax_loss,
        derivatives=formulas.softmax_slopes,
        n_outputs=n_classes,
        couples_outputs=True,
    )


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
    if n_targets > 1:
        return several_targets(n_targets)
    values = {"name": objective} if isinstance(objective, str) else dict(objective)
    chosen = OBJECTIVES[values.pop("name")]
    return chosen.parameter.make(*values.values()) if chosen.parameter and values else chosen
