"""Choices: which values each feature of a row may take, what they cost and what they add.

A feature that changes alone, or with others that it does not interact with, moves freely along its
curve, which is linear between nodes. Features that change together and interact move from node to
node: products of two positions between nodes would not be linear. Levels are what they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpnn._utils.arrays import FloatArray
from tpnn.anova.components import resolve_feature
from tpnn.model.model import AnovaModel
from tpnn.table.axis import Axis
from tpnn.table.encoder import Feature, level_text
from tpnn.table.table import DATE, DURATION, NOMINAL
from tpnn.table.words import SECONDS_PER_DAY

LEVEL_COST = 1.0  # of another level without order


@dataclass(frozen=True, eq=False, kw_only=True)
class Choice:
    """What one feature may become."""

    feature: int
    values: FloatArray  # (n_values,), the current one among them; increasing if it is free
    current: int  # place of the current value
    costs: FloatArray  # (n_values,); linear between neighbours if it is free
    is_free: bool  # whether values between two neighbours may be chosen, too
    is_inside: bool  # whether the current value is within its range
    step: float | None  # unit of which values must be whole multiples, if all nodes are

    def cost_of(self, value: float) -> float:
        """Cost of a value."""
        if self.is_free:
            return float(np.interp(value, self.values, self.costs))
        return float(self.costs[int(np.flatnonzero(self.values == value)[0])])


def movable(
    model: AnovaModel, row: FloatArray, fixed: Collection[Any], ranges: Mapping[Any, Any]
) -> tuple[list[int], dict[int, Any]]:
    """Features that may change and matter, and the ranges of all features by their number.

    Missing values and unseen levels stay: nobody knows what they could become.
    """
    names = model.feature_names
    stays = {resolve_feature(feature, names, "fixed") for feature in fixed}
    limits = {resolve_feature(feature, names, "ranges"): given for feature, given in ranges.items()}
    for feature, given in limits.items():  # a wrong range is an error, used or not
        _limits(model.encoder.features[feature], names[feature], given)
    used = {feature for component in model.components for feature in component}
    return sorted(j for j in used - stays if np.isfinite(row[j])), limits


def choice_of(
    model: AnovaModel, feature: int, current: float, given: Any, is_linked: bool
) -> Choice:
    """Values that a feature may take, from node to node if it is linked to another change."""
    known, name = model.encoder.features[feature], model.feature_names[feature]
    finest = model.encoder.axes[min(model.encoder.axes)][feature]
    step, is_inside = _step(known, finest, current), True
    if known.levels:
        values = _level_values(finest, known, current, _limits(known, name, given))
    else:
        ends = _whole_ends(_limits(known, name, given), step)
        values = _number_values(model, feature, current, ends, is_linked)
        is_inside = ends[0] <= current <= ends[1]
    if known.kind == NOMINAL:
        costs = np.where(values == current, 0.0, LEVEL_COST)
    else:
        costs = np.abs(values - current) / finest.tenths_range
    is_free = not (is_linked or known.levels)
    return Choice(
        feature=feature,
        values=values,
        current=int(np.flatnonzero(values == current)[0]),
        costs=costs,
        is_free=is_free,
        is_inside=is_inside,
        step=step if is_free else None,
    )


def _limits(known: Feature, name: str, given: Any) -> Any:
    """Numbers of allowed levels, or the ends (low, high) of a range of numbers."""
    if known.levels:
        if given is None:
            return np.arange(float(len(known.levels)))
        own = [level_text(level) if known.are_text else level for level in known.levels]
        asked = [level_text(level) if known.are_text else level for level in _listed(given)]
        unknown = [level for level in asked if level not in own]
        if unknown or not asked:
            raise ValueError(
                f"ranges: that of {name!r} must list levels among {list(known.levels)[:5]}, found "
                f"{given!r}. List the levels that it may take."
            )
        return np.array([float(own.index(level)) for level in asked])
    ends = (None, None) if given is None else tuple(_listed(given))
    if len(ends) == 2:
        low, high = (_number(known, end, side) for end, side in zip(ends, (-1, 1), strict=True))
        if low <= high:
            return low, high
    raise ValueError(
        f"ranges: that of {name!r} must be two values (low, high), None where there is no end, "
        f"found {given!r}. Pass the smallest and the largest value that it may take."
    )


def _listed(given: Any) -> Sequence[Any]:
    return [given] if isinstance(given, str) or not hasattr(given, "__iter__") else list(given)


def _number(known: Feature, end: Any, side: int) -> float:
    """End of a range as the number that the encoder would read."""
    if end is None:
        return side * np.inf
    if known.kind == DATE:
        return float(np.datetime64(end, "us").astype(np.int64)) / 1e6
    if known.kind == DURATION:
        return float(np.timedelta64(end, "us").astype(np.int64)) / 1e6
    return float(end)


def _level_values(axis: Axis, known: Feature, current: float, allowed: FloatArray) -> FloatArray:
    """Levels to choose from: of those that share a node, the first; and the current one."""
    if axis.groups is not None:
        nodes = axis.groups[allowed.astype(np.intp)]
        allowed = allowed[np.sort(np.unique(nodes, return_index=True)[1])]
    return np.unique(np.append(allowed, current))


def _number_values(
    model: AnovaModel, feature: int, current: float, ends: tuple[float, float], is_linked: bool
) -> FloatArray:
    """Nodes within the range, its ends, and the current value.

    A feature that is linked has the nodes of its highest order, one that moves freely all nodes.
    """
    orders = sorted({len(s) for s in model.components if feature in s})
    chosen = orders[-1:] if is_linked else orders
    axes = [model.encoder.axes[order][feature] for order in chosen]
    nodes = np.concatenate([axis.values for axis in axes])
    low, high = ends
    inside = nodes[(nodes >= low) & (nodes <= high)]
    limits = [low] * bool(nodes.min() < low < np.inf) + [high] * bool(-np.inf < high < nodes.max())
    return np.unique(np.concatenate([inside, limits, [current]]))


def _whole_ends(ends: tuple[float, float], step: float | None) -> tuple[float, float]:
    """Move the ends of a range to whole multiples of a step within it."""
    if step is None:
        return ends
    return float(np.ceil(ends[0] / step)) * step, float(np.floor(ends[1] / step)) * step


def _step(known: Feature, axis: Axis, current: float) -> float | None:
    """Return the unit if all nodes and the current value are whole numbers, or whole days."""
    unit = SECONDS_PER_DAY if known.kind in (DATE, DURATION) else 1.0
    numbers = np.append(axis.values, current) / unit
    return unit if (numbers == np.rint(numbers)).all() else None
