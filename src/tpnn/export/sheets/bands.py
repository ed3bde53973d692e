"""Bands: the values of one feature in a few groups, shared by all components that use it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tpnn._utils.arrays import FloatArray, IntArray
from tpnn.export.sheets.frozen import values_at
from tpnn.export.sheets.segments import best_segments
from tpnn.model.model import AnovaModel
from tpnn.table.axis import UNSEEN_LEVEL, Axis
from tpnn.table.encoder import Feature
from tpnn.table.frame import DATE, DURATION, NOMINAL, NUMBER
from tpnn.table.words import MISSING_WORD, SECONDS_PER_DAY, UNSEEN_WORD, value_word

MAX_LEVELS_NAMED = 5  # in the label of a band
MAX_DIGITS = 17  # of a double


@dataclass(frozen=True, eq=False, kw_only=True)
class Bands:
    """Groups of the values of one feature.

    Parameters
    ----------
    numbers : array of shape (n_points,)
        Points that the bands were found on: nodes, or numbers of levels, then missing (NaN) and,
        for a feature with levels, unseen (inf).
    masses : array of shape (n_points,)
        Share of the training mass at each point.
    of_point : array of shape (n_points,)
        Band of each point; missing and unseen values have bands of their own, the last ones.
    cuts : array of shape (n_regular_bands - 1,)
        Where a new band begins, for a feature without levels.
    labels : tuple of str
        Every band in words.
    has_levels : bool
        Whether the numbers are those of levels.
    """

    numbers: FloatArray
    masses: FloatArray
    of_point: IntArray
    cuts: FloatArray
    labels: tuple[str, ...]
    has_levels: bool

    @property
    def n_bands(self) -> int:
        """Number of bands, those of missing and unseen values included."""
        return len(self.labels)

    @property
    def n_regular(self) -> int:
        """Number of bands of values that fit has seen and that are not missing."""
        return self.n_bands - 1 - self.has_levels

    @property
    def band_masses(self) -> FloatArray:
        """Mass of each band, (n_bands,)."""
        masses = np.zeros(self.n_bands)
        np.add.at(masses, self.of_point, self.masses)
        return masses

    @property
    def averaging(self) -> FloatArray:
        """Matrix (n_bands, n_points) of the mean over each band under the masses."""
        matrix = np.zeros((self.n_bands, len(self.numbers)))
        empty = self.band_masses[self.of_point] == 0
        matrix[self.of_point, np.arange(len(self.numbers))] = np.where(empty, 1.0, self.masses)
        means: FloatArray = matrix / matrix.sum(1, keepdims=True)
        return means

    def locate(self, column: FloatArray) -> IntArray:
        """Band of each value of a column of numbers, (n_rows,)."""
        odd = ~np.isfinite(column)
        known = np.where(odd, 0.0, column)
        if self.has_levels:
            bands = self.of_point[known.astype(np.intp)]
        else:
            bands = np.searchsorted(self.cuts, known, side="right")
        return np.where(odd, self.n_regular + np.isinf(column), bands)


def feature_bands(model: AnovaModel, feature: int, max_bands: int) -> Bands:
    """Find the bands of a feature that lose least in all components that use it.

    The loss is the variance within bands, summed over the components: of the main effect and, for
    every interaction, averaged over its other features.
    """
    known, axis = (
        model.encoder.features[feature],
        model.encoder.axes[min(model.encoder.axes)][feature],
    )
    regular, masses = _points(model, feature, known, axis)
    order = np.arange(len(regular))
    profile = _profile(model, feature, regular)
    if known.kind == NOMINAL:
        order = np.lexsort(profile.T[::-1])
    of_regular = np.empty(len(regular), np.intp)
    of_regular[order] = best_segments(profile[order], masses[order], max_bands)
    specials = [np.nan, UNSEEN_LEVEL] if known.levels else [np.nan]
    n_regular = int(of_regular.max(initial=-1)) + 1
    cuts = np.empty(0) if known.levels else _cuts(known, regular, of_regular)
    labels = _level_labels(known, of_regular) if known.levels else _range_labels(known, cuts)
    return Bands(
        numbers=np.append(regular, specials),
        masses=np.append(masses, _special_masses(axis)[: len(specials)]),
        of_point=np.append(of_regular, n_regular + np.arange(len(specials))),
        cuts=cuts,
        labels=(*labels[:n_regular], MISSING_WORD, *[UNSEEN_WORD] * bool(known.levels)),
        has_levels=bool(known.levels),
    )


def _points(
    model: AnovaModel, feature: int, known: Feature, axis: Axis
) -> tuple[FloatArray, FloatArray]:
    """Values of a feature at which some component bends, and the mass of each."""
    if axis.groups is not None:
        numbers = np.arange(float(len(known.levels)))
        nodes, _ = axis.locate(numbers)
        sizes = np.bincount(nodes, minlength=axis.n_nodes)
        return numbers, (axis.weights / np.maximum(sizes, 1))[nodes]
    used = {len(s) for s in model.components if feature in s} | {min(model.encoder.axes)}
    axes = [model.encoder.axes[order][feature] for order in sorted(used)]
    numbers = np.unique(np.concatenate([a.values[: a.n_regular] for a in axes]))
    if known.levels:
        numbers = np.arange(float(len(known.levels)))
    masses = np.zeros(len(numbers))
    masses[np.searchsorted(numbers, axis.values[: axis.n_regular])] = axis.weights[: axis.n_regular]
    return numbers, masses


def _special_masses(axis: Axis) -> FloatArray:
    """Mass of missing values and of unseen levels."""
    padded = np.append(axis.weights, 0.0)
    return padded[[axis.missing_node, axis.unseen_node]]


def _profile(model: AnovaModel, feature: int, regular: FloatArray) -> FloatArray:
    """Values of all components of a feature at its points, times the root of the other masses."""
    columns = [np.zeros((len(regular), 1))]
    for component in model.components:
        if feature not in component:
            continue
        place, axes = component.index(feature), model.axes(component)
        numbers = [regular if j == feature else _node_numbers(axis) for j, axis in
                   zip(component, axes, strict=True)]  # fmt: skip
        values = np.moveaxis(values_at(model, component, numbers), place, 0)
        for axis in (axis for k, axis in enumerate(axes) if k != place):
            values = values * np.sqrt(axis.weights).reshape(-1, *[1] * (values.ndim - 2))
            values = np.moveaxis(values, 1, -1)
        columns.append(values.reshape(len(regular), -1))
    return np.hstack(columns[1:] or columns)


def _node_numbers(axis: Axis) -> FloatArray:
    """Numbers that lie on each node of an axis."""
    if axis.groups is None:
        return axis.values
    numbers = np.full(axis.n_nodes, np.nan)
    numbers[axis.groups] = np.arange(len(axis.groups))
    if axis.has_unseen:
        numbers[axis.unseen_node] = UNSEEN_LEVEL
    return numbers


def _cuts(known: Feature, regular: FloatArray, of_regular: IntArray) -> FloatArray:
    """Values at which a new band begins, as short as the nodes on both sides allow."""
    unit = SECONDS_PER_DAY if known.kind in (DATE, DURATION) else 1.0
    cuts = []
    for last in np.flatnonzero(np.diff(of_regular)):
        low, high = regular[last], regular[last + 1]
        cut = short_between(low / unit, high / unit) * unit
        cuts.append(cut if low < cut <= high else high)
    return np.array(cuts)


def short_between(low: float, high: float) -> float:
    """Shortest decimal above ``low`` and at most ``high``, close to their middle.

    >>> short_between(24.0, 25.0), short_between(0.4312, 0.4398), short_between(-1.0, 1.0)
    (25.0, 0.435, 0.0)
    """
    middle = low / 2 + high / 2
    for digits in range(MAX_DIGITS):
        rounded = float(f"{middle:.{digits}e}")
        if low < rounded <= high:
            return rounded
        if float(f"{high:.{digits}e}") == high:
            return float(high)
    return float(high)


def _range_labels(known: Feature, cuts: FloatArray) -> list[str]:
    """Bands as half-open ranges, in words."""
    if not len(cuts):
        return ["all values"]
    words = [
        repr(float(cut)).removesuffix(".0") if known.kind == NUMBER else value_word(known, cut)
        for cut in cuts
    ]
    inner = [f"{low} to < {high}" for low, high in pairwise(words)]
    return [f"< {words[0]}", *inner, f">= {words[-1]}"]


def _level_labels(known: Feature, of_regular: IntArray) -> list[str]:
    n_bands = int(of_regular.max(initial=-1)) + 1
    return [_joined([str(known.levels[i]) for i in np.flatnonzero(of_regular == band)])
            for band in range(n_bands)]  # fmt: skip


def _joined(levels: Sequence[str]) -> str:
    named = " | ".join(levels[:MAX_LEVELS_NAMED])
    more = len(levels) - MAX_LEVELS_NAMED
    return f"{named} | {more} more" if more > 0 else named
