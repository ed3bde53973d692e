"""Lifting: a model's grids of values on the nodes that it has in common with other models."""

from __future__ import annotations

import numpy as np

from tpnn._typing import FloatArray
from tpnn.anova.components import Component
from tpnn.combine.nodes import own_numbers
from tpnn.model.model import AnovaModel
from tpnn.table.axis import UNSEEN_LEVEL, Axis
from tpnn.table.encoder import Feature, TableEncoder


def lifted(model: AnovaModel, encoder: TableEncoder) -> dict[Component, FloatArray]:
    """Grids (M_1, ..., M_d, n_outputs) of a model on common nodes: the same function everywhere.

    The components are those of the model, with the numbers of the common features; they are pure
    under the masses of the model and in general not under the common ones.

    Parameters
    ----------
    model : AnovaModel
        The model.
    encoder : TableEncoder
        What ``common_encoder`` made of this model and others.
    """
    place_of = {name: place for place, name in enumerate(encoder.feature_names)}
    grids = {}
    for component, table in model.by_component().items():
        target = [place_of[model.feature_names[feature]] for feature in component]
        grid = np.pad(table, [(0, 2)] * len(component) + [(0, 0)])  # what fit has not seen is zero
        for axis, (feature, place) in enumerate(zip(component, target, strict=True)):
            known, own = model.encoder.features[feature], model.axes(component)[axis]
            common = encoder.axes[len(component)][place]
            numbers = _own_nodes(known, own, encoder.features[place], common)
            lower, fraction = own.locate(numbers)
            fraction = fraction.reshape(-1, *[1] * (grid.ndim - axis - 1))
            below, above = grid.take(lower, axis), grid.take(lower + 1, axis)
            grid = below + fraction * (above - below)
        order = np.argsort(target)
        grids[tuple(sorted(target))] = grid.transpose(*order, len(order))
    return grids


def _own_nodes(known: Feature, own: Axis, feature: Feature, common: Axis) -> FloatArray:
    """Write common nodes as numbers that the axis of the model itself can locate."""
    regular = common.values[: common.n_regular]
    if common.groups is not None:
        first = np.unique(common.groups, return_index=True)[1]
        levels = [feature.levels[level] for level in first]
        regular = np.append(own_numbers(known, levels, feature.are_text), UNSEEN_LEVEL)
    if own.n_regular == 0:
        regular = np.full(len(regular), UNSEEN_LEVEL)  # whatever it is, fit has not seen it
    return np.append(regular, np.nan)
