"""Contrasts: how two values of a feature, or two groups of rows, differ, and how sure that is.

The difference is a weighted sum of the values of components on their nodes. With weights u the
posterior of the sum has mean and variance

    u (m - f) + u f,    |u Phi R|^2 + sum u^2 v,

and those of several components are added, as if their errors were independent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.posterior import SMALLEST_ERROR, check_level, folded_quantiles
from tpnn.explain.response import NO_BANDS
from tpnn.loss.links import LINKS
from tpnn.model.model import AnovaModel
from tpnn.table.axis import Axis

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
    shape, n_rows = tuple(axis.n_nodes for axis in axes), len(columns[0])
    located = [axis.locate(column) for axis, column in zip(axes, columns, strict=True)]
    shares = np.zeros(tuple(size + 2 for size in shape))
    for corner in product((0, 1), repeat=len(axes)):
        parts = [t if up else 1 - t for up, (_, t) in zip(corner, located, strict=True)]
        nodes = tuple(low + up for up, (low, _) in zip(corner, located, strict=True))
        np.add.at(shares, nodes, np.prod(parts, axis=0) / n_rows)
    return shares[tuple(map(slice, shape))]
