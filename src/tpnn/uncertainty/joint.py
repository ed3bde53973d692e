"""Joint errors: how far the raw scores of rows may be from the truth, all components together.

Errors of components with common or similar features cancel in part. So the error of their sum
comes from their joint posterior. At a row with functions x
and rough rests r_b(x) of the bags, all components added up, its square is

    1 / sum_i P_i + x' S x + q / (1 - q) mean_rows(var_b r_b),

the variances of the intercept, of the smooth part, and of the rough one by the jackknife.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.uncertainty.design import Design
from tpnn.uncertainty.linear_model import Group, LinearModel

ENOUGH_ROWS = 4000
ROWS_PER_BLOCK = 1024
BIAS_SHARE = 0.5  # of the rough rest that may be bias
NEIGHBOUR_WIDTHS = {1: 0.03, 2: 0.06, 3: 0.1}  # of the pooling kernel, on the rank scale
SMALLEST_MASS = 1e-12


@dataclass(frozen=True, eq=False)
class RowErrors:
    """Standard errors (n, K) of the raw scores of every ``step``-th distinct row."""

    step: int
    errors: FloatArray


def row_errors(
    models: Sequence[LinearModel],  # one for each output
    rests: Sequence[FloatArray],  # (M_1, ..., M_d, n_bags, K), rough rest of each component
    trained: float,  # share q of the rows that a bag trains on
) -> RowErrors:
    """Errors of some rows, in the unit of the training scale."""
    whole = models[0].design
    step = -(-len(whole.codes.rows) // ENOUGH_ROWS)
    with np.errstate(over="ignore"):  # infinite errors are refused with the posteriors
        squares = np.stack([_smooth_variances(model, step) for model in models], axis=1)
    return RowErrors(step, np.sqrt(squares + _rough_variances(whole, rests, step, trained)))


def _smooth_variances(model: LinearModel, step: int) -> FloatArray:
    """Variance (n,) of the intercept and of the smooth parts of all components."""
    squares, seen = np.array(1 / model.information), set[int]()
    for group in model.groups:
        squares = squares + _group_variances(group, seen, step)
        seen |= set(group.numbers)
    return squares


def _group_variances(group: Group, seen: set[int], step: int) -> FloatArray:
    """Variance (n,) of the components of a group that no group before it has."""
    new = [place for place, number in enumerate(group.numbers) if number not in seen]
    places = group.design.places
    columns = np.concatenate([np.empty(0, np.intp), *(places[place] for place in new)])
    design = replace(group.design.of(new), step=step)
    covariance = group.covariance.of(columns)
    n_rows = len(design.codes.rows[design.rows])
    squares = np.empty(n_rows)
    for low in range(0, n_rows, ROWS_PER_BLOCK):
        high = min(low + ROWS_PER_BLOCK, n_rows)
        squares[low:high] = covariance.squares(design.block(low, high))
    return squares


def _rough_variances(
    design: Design, rests: Sequence[FloatArray], step: int, trained: float
) -> FloatArray:
    """Variance of the rough part of each output (K,), its mean over the rows.

    With a single bag all of the rest may be wrong, as in ``rough_variance``.
    """
    rows = slice(None, None, step)
    total = sum(
        design.codes.values(component, rest, rows)
        for component, rest in zip(design.components, rests, strict=True)
    )  # (n, n_bags, K)
    if np.shape(total)[1] == 1:
        return np.asarray((np.asarray(total) ** 2).mean((0, 1)))
    return np.asarray(trained / (1 - trained) * np.var(total, axis=1, ddof=1).mean(0))


def rough_variance(rest: FloatArray, weights: Sequence[FloatArray], trained: float) -> FloatArray:
    """Variance of the rough rest (M_1, ..., M_d, n_bags, K), pooled over neighbouring nodes.

    ``trained`` is the share q of the rows that a bag trains on. With a single bag all of the rest
    may be wrong.
    """
    mean, n_bags = rest.mean(-2), rest.shape[-2]
    if n_bags == 1:
        return _pooled(mean**2, weights)
    jackknife = trained / (1 - trained) * rest.var(-2, ddof=1)
    return _pooled(jackknife + BIAS_SHARE**2 * mean**2, weights)


def _pooled(values: FloatArray, weights: Sequence[FloatArray]) -> FloatArray:
    """Mean of a grid over neighbouring nodes, by mass and by a normal kernel on their ranks."""
    width = NEIGHBOUR_WIDTHS[min(len(weights), max(NEIGHBOUR_WIDTHS))]
    for axis, by_node in enumerate(weights):
        masses = np.maximum(by_node, SMALLEST_MASS)
        ranks = np.cumsum(masses) - masses / 2
        kernel = np.exp(-0.5 * ((ranks[:, None] - ranks) / width) ** 2) * masses
        kernel /= kernel.sum(1, keepdims=True)
        values = np.moveaxis(np.tensordot(kernel, values, (1, axis)), 0, axis)
    return values
