"""Contributions of features to rows: Shapley values, with intervals, perhaps against a reference.

The contribution of feature j at x against the row r is the sum of (f_S(x) - f_S(r)) / |S| over all
S that contain j, and the contributions of all features add up to f(x) - f(r). Without a reference
f_S(r) is zero, the average of f_S. The remainder is one more contribution, that of no feature. The
interval adds up the half widths of the bands of these
differences. So it is exact where a feature has a main effect alone, and else rather too wide than
too narrow.

A contrast is a weighted sum of the values of components on their nodes. With weights u the
posterior of the sum has mean and variance

    u (m - f) + u f,    |u Phi R|^2 + sum u^2 v,

and those of several components are added, as if their errors were independent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn._utils.rules import COUNT, check_parameters
from tpnn.anova.components import Component
from tpnn.anova.posterior import (
    SMALLEST_ERROR,
    Posterior,
    Uncertainty,
    check_level,
    folded_quantiles,
)
from tpnn.anova.shapley import share, value_weights
from tpnn.explain.response import NO_BANDS
from tpnn.loss.links import LINKS
from tpnn.model.model import AnovaModel, part_scores
from tpnn.model.remainder import remainder_name
from tpnn.table.axis import Axis
from tpnn.table.table import NUMBER, PERIODIC
from tpnn.table.words import value_word

Columns = Mapping[int, FloatArray]  # of features


class Contrast(NamedTuple):
    """How far one value of a feature, or group of rows, is from another.

    Parameters
    ----------
    difference : float
        Of the raw score.
    error : float
        Standard error of the difference.
    lower : float
        Lower end of its interval.
    upper : float
        Upper end.
    ratio : float
        The same as a relativity, odds ratio or hazard ratio, exp(difference); NaN where the link is
        neither a logarithm nor a logit.
    ratio_lower : float
        Lower end of its interval.
    ratio_upper : float
        Upper end.
    p_value : float
        Smallest p for which the interval of level 1 - p does not hold zero.
    """

    difference: float
    error: float
    lower: float
    upper: float
    ratio: float
    ratio_lower: float
    ratio_upper: float
    p_value: float

    @classmethod
    def of(
        cls, difference: float, bias: float, variance: float, has_ratio: bool, level: float
    ) -> Contrast:
        """Contrast whose posterior mean is ``difference + bias``."""
        error = math.sqrt(variance)
        ratio = np.array([abs(bias) / max(error, SMALLEST_ERROR)])
        reach = error * float(folded_quantiles(ratio, level)[0])
        ends = np.array([difference, difference - reach, difference + reach])
        ratios = LINKS["log"].inverse(ends) if has_ratio else np.full(3, np.nan)
        p_value = _beyond(abs(difference), abs(bias), error)
        return cls._make(map(float, (difference, error, *ends[1:], *ratios, p_value)))


def _beyond(distance: float, bias: float, error: float) -> float:
    """P(|N(bias, error^2)| >= distance).

    >>> round(_beyond(1.96, 0.0, 1.0), 3), _beyond(0.0, 0.0, 0.0)
    (0.05, 1.0)
    """
    if error == 0:
        return float(distance <= bias)
    ends = ((distance + side * bias) / error for side in (-1, 1))
    return min(sum(math.erfc(end / math.sqrt(2)) / 2 for end in ends), 1.0)


def contrast_of(
    model: AnovaModel,
    places: Sequence[int],
    one: Columns,
    other: Columns,
    level: float,
    known: float = 0.0,
) -> Contrast:
    """Contrast of the means of some components over two groups of rows, given as numbers.

    ``known`` is a part of the difference that has no error.
    """
    check_level(level)
    difference, bias, variance = known, 0.0, 0.0
    for place in places:
        component = model.components.components[place]
        axes, posterior = model.axes(component), model.evidence.posterior(place)
        if posterior is None:
            raise ValueError(NO_BANDS.format("contrast", "it"))
        sides = ([columns[j] for j in component] for columns in (one, other))
        first, second = (node_shares(axes, columns) for columns in sides)
        weights = first - second
        shift, own = posterior.uncertainty().of_sum(weights)
        difference += float((weights * model.tables[place][..., 0]).sum())
        bias, variance = bias + float(shift[0]), variance + float(own[0])
    return Contrast.of(difference, bias, variance, bool(model.link.ratio), level)


def node_shares(axes: Sequence[Axis], columns: Sequence[FloatArray]) -> FloatArray:
    """Share of rows at each node (M_1, ..., M_d): each row shares itself between its neighbours.

    Rows with a value that fit has not seen have no node.

    >>> axis = Axis(np.array([0.0, 1.0]), np.array([0.5, 0.5]))
    >>> node_shares([axis], [np.array([0.25, 1.0])])
    array([0.375, 0.625])
    """
    shape = tuple(axis.n_nodes + 2 for axis in axes)  # what fit has not seen is on node M
    places = [axis.locate(column) for axis, column in zip(axes, columns, strict=True)]
    shares = np.zeros(math.prod(shape))
    for corner in product((0, 1), repeat=len(axes)):
        nodes = [lower + up for (lower, _), up in zip(places, corner, strict=True)]
        parts = [f if up else 1 - f for (_, f), up in zip(places, corner, strict=True)]
        numbers = np.ravel_multi_index(nodes, shape)
        shares += np.bincount(numbers, np.prod(parts, axis=0), len(shares))
    seen = tuple(slice(axis.n_nodes) for axis in axes)
    return np.asarray(shares.reshape(shape)[seen] / max(len(columns[0]), 1))


SMALLEST_STEP = 1e-300  # of values that are rounded
Place = tuple[IntArray, FloatArray]  # lower node of each row, and how far it is to the next one


@dataclass(frozen=True, eq=False)
class Contributions:
    """Contributions of the features and of the remainder to some rows, of a model with one output.

    The remainder comes last, if the model has one.
    """

    values: FloatArray  # (n_rows, n_features[ + 1]), Shapley values, less those of the reference
    reaches: FloatArray  # likewise, half widths of intervals of 95 %; NaN if unknown
    reference: list[FloatArray] | None = None  # the reference row, (1,) each; None: the average


def contributions(
    model: AnovaModel, columns: Sequence[FloatArray], reference: list[FloatArray] | None = None
) -> Contributions:
    """Contributions to rows that are numbers already, one column for each feature."""
    parts, n_features = [*model.components], len(model.feature_names)
    if model.remainder is not None:
        parts.append((n_features,))  # as if it were the main effect of one more feature
        n_features += 1
    weights = value_weights(parts, n_features)
    scores = part_scores(model, columns)
    if reference is not None:
        scores = scores - part_scores(model, reference)
    reaches = np.full_like(scores, np.nan)
    posteriors = model.evidence.posteriors or [None] * len(model.components)
    for number, (component, posterior) in enumerate(zip(model.components, posteriors, strict=True)):
        if posterior is not None:
            uncertainty = uncertainty_at(model, component, posterior, columns, reference)
            reaches[:, number] = uncertainty.half_widths()[:, 0]
    # A component without a band makes the reaches of its features NaN.
    is_unknown = share(np.isnan(reaches).astype(float), weights) > 0
    reaches = np.where(is_unknown, np.nan, share(np.nan_to_num(reaches), weights))
    return Contributions(share(scores, weights), reaches, reference)


def uncertainty_at(
    model: AnovaModel,
    component: Component,
    posterior: Posterior,
    columns: Sequence[FloatArray],
    reference: Sequence[FloatArray] | None = None,
) -> Uncertainty:
    """Posterior of a component on rows, (n, ...), less its value at the reference.

    Between nodes the component is the mean of its neighbours with the weights w, so its smooth part
    is too, and its rough part has the variance sum(w^2 v). The difference to the reference, with
    weights u, has sum((w - u)^2 v).
    """
    axes = model.axes(component)
    *factors, shifts, roots, nodes, units = (a.astype(np.float64) for a in posterior.arrays)
    at = [axis.locate(columns[j]) for axis, j in zip(axes, component, strict=True)]
    # The smooth part is a sum of functions, which interpolate; the rough part adds variances.
    functions, rough = _functions(factors, at), _mixed(nodes, at, 2)
    if reference is not None:
        row = [reference[j] for j in component]
        there = [axis.locate(value) for axis, value in zip(axes, row, strict=True)]
        functions = functions - _functions(factors, there)
        shared = nodes * node_shares(axes, row)[..., None]
        rough = rough + _mixed(nodes, there, 2) - 2 * _mixed(shared, at, 1)
    is_unseen = np.any([lower == a.n_nodes for a, (lower, _) in zip(axes, at, strict=True)], axis=0)
    rough = np.where(is_unseen[:, None], np.nan, rough.clip(0))
    return Uncertainty(functions, shifts, roots, rough, units)


def _functions(factors: Sequence[FloatArray], places: Sequence[Place]) -> FloatArray:
    """Smooth functions on rows, (n, k): products of the functions (M_j, k) of each feature."""
    return reduce(
        np.multiply, [_mixed(f, [place], 1) for f, place in zip(factors, places, strict=True)]
    )


def _mixed(grid: FloatArray, places: Sequence[Place], power: int) -> FloatArray:
    """Sum of a grid (M_1, ..., M_d, K) over the neighbours of each row, (n, K).

    The weights are those of linear interpolation, to a power; values without a node give zero.
    """
    total = np.zeros((len(places[0][0]), grid.shape[-1]))
    for corner in product((0, 1), repeat=len(places)):
        weights, nodes = list[FloatArray](), list[IntArray]()
        for side, size, (lower, t) in zip(corner, grid.shape, places, strict=False):
            node = lower + side
            weights.append((node < size) * (t if side else 1 - t) ** power)
            nodes.append(np.minimum(node, size - 1))
        total += reduce(np.multiply, weights)[:, None] * grid[tuple(nodes)]
    return total


REMAINDER_SUBJECT = "The remainder, many small effects together,"
LARGEST_SHARE_SAID = 0.99  # of the rows; a larger one would be rounded to all of them
SCORE_NAMES = {"numbers": "score", "classes": "log-odds"}  # of models with one output


@dataclass(frozen=True)
class Reason:
    """One feature's contribution to the raw score of one row, or that of the remainder.

    Parameters
    ----------
    feature : str
        The feature, or "remainder".
    value : str
        Its value in the row, in words; empty for the remainder.
    contribution : float
        Shapley value of the feature or, on the response scale of a log or logit link, its
        exponential: the factor on the prediction or on the odds.
    words : str
        One sentence, for a letter.
    lower : float
        Lower end of the interval of the contribution, of at least 95 %; NaN if the model has no
        bands, or for a value that fit has not seen.
    upper : float
        Its upper end.
    """

    feature: str
    value: str
    contribution: float
    words: str
    lower: float = math.nan
    upper: float = math.nan

    def __str__(self) -> str:
        return self.words

    def __repr__(self) -> str:
        has_band = not math.isnan(self.lower)
        band = f", from {self.lower:.4g} to {self.upper:.4g}" if has_band else ""
        return f"Reason({self.feature!r}, {self.value!r}, {self.contribution:.4g}{band})"


def reasons(
    model: AnovaModel,
    columns: Sequence[FloatArray],
    shares: Contributions,
    n_reasons: int,
    adverse: str | None,
    as_factor: bool = False,
) -> list[list[Reason]]:
    """List the largest contributions of every row, in words; see ``Explanation.reasons``."""
    if adverse not in (None, "low", "high"):
        raise ValueError(
            f"adverse: must be 'low', 'high' or None, found {adverse!r}. Pass 'low' where a low "
            "score is unfavourable."
        )
    check_parameters({"n_reasons": n_reasons}, {"n_reasons": COUNT._replace(example=4)})
    strength = {None: np.abs, "low": np.negative, "high": np.positive}[adverse](shares.values)
    order = np.argsort(-strength, axis=1, kind="stable")[:, :n_reasons]
    return [
        [
            _reason(model, columns, shares, (row, int(feature)), as_factor)
            for feature in features
            if strength[row, feature] > 0
        ]
        for row, features in enumerate(order)
    ]


def _reason(
    model: AnovaModel,
    columns: Sequence[FloatArray],
    shares: Contributions,
    at: tuple[int, int],
    as_factor: bool,
) -> Reason:
    """Put one contribution to one row into words; ``at`` is (row, feature)."""
    task, shown = model.task, shares.values[at]
    name, value, subject = _subject(model, columns, at)
    ends = [shown - shares.reaches[at], shown + shares.reaches[at]]
    verb, score = "raises" if shown > 0 else "lowers", SCORE_NAMES.get(task.kind, "raw score")
    if as_factor:
        shown, *ends = np.exp([shown, *ends])
        verb, score = "multiplies", "odds" if task.kind == "classes" else "prediction"
    if task.kind == "classes" and task.classes:
        score += f" of {task.classes[1]}"
    words = f"{subject} {verb} the {score} by {abs(shown):.3g}"
    if shares.reference is not None:
        _, usual, _ = _subject(model, shares.reference, (0, at[1]))
        words += f", compared with {usual or 'the reference'}"
    # the one NaN that compares equal within records
    lower, upper = (math.nan if math.isnan(end) else float(end) for end in ends)
    return Reason(
        feature=name,
        value=value,
        contribution=float(shown),
        words=f"{words}.",
        lower=lower,
        upper=upper,
    )


def _subject(
    model: AnovaModel, columns: Sequence[FloatArray], at: tuple[int, int]
) -> tuple[str, str, str]:
    """Name of a feature, its value in a row, and both with the standing of the value, in words."""
    row, place = at
    if place == len(columns):
        return *remainder_name(model.feature_names), "", REMAINDER_SUBJECT
    name, number = model.feature_names[place], float(columns[place][row])
    axis = model.encoder.axes[1][place]
    value = value_word(model.encoder.features[place], _rounded(axis, number))
    return name, value, f"{name} = {value}{_standing(axis, number)}"


def _rounded(axis: Axis, number: float) -> float:
    """Round a number to a thousandth of the range of the feature; whole numbers stay as they are.

    >>> axis = Axis(np.array([0.0, 120.0]), np.array([0.5, 0.5]))
    >>> _rounded(axis, 36.6966), _rounded(axis, 1234.0)
    (36.7, 1234.0)
    """
    is_plain = axis.kind in (NUMBER, PERIODIC) and not axis.is_empty
    ends = axis.values[[0, -1]] if is_plain else np.zeros(2)
    size = float(ends[1] / 2 - ends[0] / 2) / 500
    if not np.isfinite(number) or number.is_integer() or size < SMALLEST_STEP:
        return number
    return round(number, -math.floor(math.log10(size)))


def _standing(axis: Axis, number: float) -> str:
    """Say where a value stands among the training rows; nothing for labels.

    >>> _standing(Axis(np.array([1.0, 2.0]), np.array([0.8, 0.2])), 2.0)
    ', higher than in 80 % of cases,'
    >>> _standing(Axis(np.array([1.0, 2.0]), np.array([0.998, 0.002])), 2.0)
    ', higher than in more than 99 % of cases,'
    """
    if axis.is_nominal or not np.isfinite(number):
        return ""
    weights = axis.weights[axis.regular]
    below, above = (
        float(weights[side].sum() / weights.sum())
        for side in (axis.values < number, axis.values > number)
    )
    side, share = ("higher", below) if below >= above else ("lower", above)
    words = "more than 99" if share > LARGEST_SHARE_SAID else f"{100 * share:.0f}"
    return f", {side} than in {words} % of cases," if share >= 0.5 else ""
