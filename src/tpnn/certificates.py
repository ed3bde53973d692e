"""Certificates: in which features a model provably rises or falls, whatever the others are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tpnn.model import AnovaModel

FloatArray = NDArray[np.float64]

ROUNDING = 1e-9  # relative to the largest step of the main effect


def monotone_directions(model: AnovaModel) -> dict[str, str]:
    """Features in which the raw score is monotone on every pair of rows, with their direction.

    Between two nodes the score is linear in a feature. Its slope is that of the main effect plus
    those of all interactions with the feature, each at least its smallest slope over the nodes of
    the other features. Where this sum is nowhere negative the score cannot fall: a proof from the
    tables alone, for every value of every other feature.

    Parameters
    ----------
    model : AnovaModel
        A model with one output.

    Returns
    -------
    dict from str to {"increasing", "decreasing"}
        Features without a certificate are left out; they may still be monotone.
    """
    directions = {}
    for feature, name in enumerate(model.feature_names):
        axis = model.encoder.axes[1][feature]
        if axis.is_nominal or axis.n_regular < 2:
            continue
        low, high = slope_bounds(model, feature)
        slack = ROUNDING * max(float(np.abs(low).max()), float(np.abs(high).max()))
        if low.min() >= -slack and high.max() > slack:
            directions[name] = "increasing"
        elif high.max() <= slack and low.min() < -slack:
            directions[name] = "decreasing"
    return directions


def slope_bounds(model: AnovaModel, feature: int) -> tuple[FloatArray, FloatArray]:
    """Least and largest rise of the raw score between neighbouring nodes of a feature, (M - 1,)."""
    axis = model.encoder.axes[1][feature]
    fine = axis.values[: axis.n_regular]
    low, high = np.zeros(len(fine) - 1), np.zeros(len(fine) - 1)
    for component, table in zip(model.components, model.tables, strict=True):
        if feature not in component:
            continue
        place = component.index(feature)
        own = model.axes(component)[place]
        nodes = own.values[: own.n_regular]
        if len(nodes) < 2:
            continue
        values = np.moveaxis(table, place, 0)[: len(nodes)].reshape(len(nodes), -1)
        slopes = np.diff(values, axis=0) / np.diff(nodes)[:, None]
        middles = (fine[1:] + fine[:-1]) / 2
        interval = np.clip(np.searchsorted(nodes, middles) - 1, 0, len(nodes) - 2)
        inside = (middles > nodes[0]) & (middles < nodes[-1])  # beyond its nodes a table is flat
        rise = np.where(inside, np.diff(fine), 0.0)
        low += rise * slopes.min(1)[interval]
        high += rise * slopes.max(1)[interval]
    return low, high
