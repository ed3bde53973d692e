"""Targets on the training scale: y = shift + scale * target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn._utils.shelf import MEMORY, Shelf
from tpnn.loss.objectives import (
    Objective,
    mean_and_deviation,
    median_and_quartiles,
    weighted_quantiles,
)
from tpnn.model.task import both_classes
from tpnn.table.columns import all_finite

LARGEST_NUMBER = float(np.finfo(np.float64).max)
LARGEST_TARGET = 1e30  # in standard deviations by the quartiles; single precision must hold it
LARGEST_LOG_RISK = 1e5  # of an offset
LARGEST_MEDIAN_OFFSET = 32.0  # of log risks; a larger one is taken out of them
FEW_ROWS = 30  # below which the classes of rows are not taken for certain


@dataclass(frozen=True)
class Targets:
    """What the user passes besides the table: y (n_rows, T), weights, offset, groups (n_rows,)."""

    y: FloatArray
    weights: FloatArray | None
    offset: FloatArray
    groups: IntArray | None = None


@dataclass(frozen=True, kw_only=True)
class Scaled:
    """Targets as a solver sees them."""

    y: FloatArray  # (n, T), on the training scale
    offset: FloatArray  # (n, 1)
    objective: Objective  # in units of its dispersion if rescaling y only shifts the raw score
    best_constant: FloatArray  # (K,), its raw score
    shift: FloatArray  # (K,) or (1,)
    scale: FloatArray  # (K,) or (1,): raw score of the user = shift + scale * raw score


def _check_log_risks(offset: FloatArray) -> None:
    """Refuse offsets beside which single precision cannot hold the effects of features."""
    if np.abs(offset).max(initial=0.0) > LARGEST_LOG_RISK:
        raise ValueError(
            f"offset: known log risks must lie between {-LARGEST_LOG_RISK:g} and "
            f"{LARGEST_LOG_RISK:g}, found {offset.min():g} to {offset.max():g}. Subtract a "
            "constant, which changes no relative risk, or correct them."
        )


def centred_offset(
    offset: FloatArray, weights: FloatArray | None, objective: Objective
) -> FloatArray:
    """Offsets (n,); without their weighted median if it is large and a constant changes no loss.

    So the offset takes no digits from the raw scores, which are in single precision.
    """
    if not objective.couples_rows:
        return offset
    _check_log_risks(offset)
    masses = np.ones(len(offset)) if weights is None else weights
    median = float(weighted_quantiles(offset, masses, 0.5))
    return offset - median if abs(median) > LARGEST_MEDIAN_OFFSET else offset


def softened(y: FloatArray, weights: FloatArray, n_rows: float, objective: Objective) -> FloatArray:
    """Targets (n, T); of classes with few rows, probabilities in place of indicators.

    With N rows of its class, a row is of this class with the probability (N + 1) / (N + K) and of
    each of the K - 1 others with 1 / (N + K), which is Laplace's rule for the next row like it
    (Platt, 1999). A handful of rows are always separable; without this the odds have no bound.
    """
    if n_rows >= FEW_ROWS or objective.kind != "classes":
        return y
    indicators = both_classes(y[:, 0]) if y.shape[1] == 1 else y  # (n, K)
    counts = indicators @ (n_rows * (weights @ indicators))  # N of each row's class
    soft: FloatArray = (counts[:, None] * indicators + 1) / (counts + indicators.shape[1])[:, None]
    return soft[:, 1:] if y.shape[1] == 1 else soft


def scaled(
    y: FloatArray,
    offset: FloatArray,
    weights: FloatArray,
    objective: Objective,
    shelf: Shelf = MEMORY,
) -> Scaled:
    """Bring targets (n, T) with offsets (n, 1) and weights (n,) onto the training scale."""
    shift, scale = np.zeros(1), np.ones(1)
    if objective.standardised:  # the offset is subtracted from the target
        with np.errstate(over="ignore"):
            y, offset = shelf.keep(y - offset), np.zeros_like(offset)
        y, shift, scale = _standardised(y, weights, objective.predicts_means)
    elif objective.is_relative:
        shift = np.log(weights @ y)
        y = y / np.exp(shift)
    best = objective.start(y, offset, weights)
    if objective.is_relative:
        objective = objective.in_units_of_dispersion(y, offset + best, weights)
    return Scaled(
        y=y, offset=offset, objective=objective, best_constant=best, shift=shift, scale=scale
    )


def _standardised(
    y: FloatArray, weights: FloatArray, squared: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return targets on the training scale, in place, their shift and their scale."""
    low, high = y.min(0), y.max(0)
    measure = mean_and_deviation if squared else median_and_quartiles
    with np.errstate(over="ignore", invalid="ignore"):  # of differences that are refused below
        shift, scale = measure(y, weights)
        y -= shift
        y /= scale
        is_narrow = not squared or bool((high / 2 - low / 2 < LARGEST_NUMBER / 2).all())
    if not squared:  # the loss is linear out there, so that clipping moves no minimum
        y = np.clip(y, -LARGEST_TARGET, LARGEST_TARGET)
    if not is_narrow or not np.isfinite(scale).all() or not all_finite(y):
        raise ValueError(
            f"y: differences of targets, without their offsets, must be below {LARGEST_NUMBER:.2g},"
            f" found values from {low.min():.2g} to {high.max():.2g}. Pass them in a larger unit."
        )
    return y, shift, scale
