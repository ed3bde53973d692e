"""Regrid: a model's grids of values on other nodes, such as those it shares with other models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import Component
from tpnn.model.model import AnovaModel, tables_by_component
from tpnn.table.axis import UNSEEN_LEVEL, Axis
from tpnn.table.encoder import Feature, TableEncoder, level_text


def lifted(model: AnovaModel, encoder: TableEncoder) -> dict[Component, FloatArray]:
    """Grids (M_1, ..., M_d, n_outputs) of a model on the nodes of another encoder.

    The encoder has all features of the model, at all its orders. The components are those of the
    model, with the numbers of the encoder's features. If its nodes include all nodes of the model,
    the function is the same everywhere. Components are pure under the masses of the model, in
    general not under others.
    """
    place_of = {name: place for place, name in enumerate(encoder.feature_names)}
    grids = {}
    for component, table in tables_by_component(model).items():
        target = [place_of[model.feature_names[feature]] for feature in component]
        grid = np.pad(table, [(0, 2)] * len(component) + [(0, 0)])  # what fit has not seen is zero
        for axis, (feature, place) in enumerate(zip(component, target, strict=True)):
            known, own = model.encoder.features[feature], model.axes(component)[axis]
            other = encoder.axes[len(component)][place]
            numbers = _own_nodes(known, own, encoder.features[place], other)
            lower, fraction = own.locate(numbers)
            fraction = fraction.reshape(-1, *[1] * (grid.ndim - axis - 1))
            below, above = grid.take(lower, axis), grid.take(lower + 1, axis)
            grid = below + fraction * (above - below)
        order = np.argsort(target)
        grids[tuple(sorted(target))] = grid.transpose(*order, len(order))
    return grids


def own_numbers(feature: Feature, levels: Sequence[Any], are_text: bool) -> FloatArray:
    """Numbers of the given levels among those of a feature; inf where it has not seen them.

    ``are_text`` says that the given levels are text, whatever the feature's own ones are.
    """
    own = map(level_text, feature.levels) if are_text else feature.levels
    number = {level: float(place) for place, level in enumerate(own)}
    return np.array([number.get(level, UNSEEN_LEVEL) for level in levels])


def _own_nodes(known: Feature, own: Axis, feature: Feature, other: Axis) -> FloatArray:
    """Write the nodes of another axis as numbers that the axis of the model itself can locate."""
    numbers = other.numbers.copy()
    if own.is_empty:
        numbers[other.regular] = UNSEEN_LEVEL  # whatever it is, fit has not seen it
    elif feature.levels:
        levels = [feature.levels[int(number)] for number in numbers[other.seen]]
        numbers[other.seen] = own_numbers(known, levels, feature.are_text)
    return numbers
