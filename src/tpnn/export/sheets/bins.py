"""Bins: a model on bands, a few groups of the values of each feature, shared by its components."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tpnn._utils.arrays import FloatArray, Int32Array, IntArray
from tpnn._utils.rules import COUNT, Rule, check_parameters, is_not_negative
from tpnn.anova.components import Component
from tpnn.export.sheets.tidy import title, values_at
from tpnn.loss.row_values import checked_numbers, refuse_masked
from tpnn.model.model import AnovaModel
from tpnn.table.axis import UNSEEN_LEVEL, UNSEEN_WORD, Axis
from tpnn.table.columns import array_of, require_pandas
from tpnn.table.encoder import Feature
from tpnn.table.table import NOMINAL, NUMBER, PERIODIC, Table
from tpnn.table.words import (
    MISSING_WORD,
    read_levels,
    read_number,
    shown_unit,
    value_word,
)

if TYPE_CHECKING:
    import pandas as pd

MAX_LEVELS_NAMED = 5  # in the label of a band
MAX_DIGITS = 17  # of a double
SHARE = Rule("a share from 0 to 0.5", lambda value: is_not_negative(value) and value <= 0.5, 0.05)


@dataclass(frozen=True, eq=False, kw_only=True)
class Bands:
    """Groups of the values of one feature; missing and unseen values have the last bands."""

    # (n_points,): nodes or numbers of levels, then NaN (missing) and, with levels, inf (unseen)
    numbers: FloatArray
    masses: FloatArray  # (n_points,), share of the training mass at each point
    of_point: Int32Array  # (n_points,), band of each point
    cuts: FloatArray  # (n_regular - 1,), where a new band begins, for a feature without levels
    labels: tuple[str, ...]  # every band in words
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
        return np.asarray(matrix / matrix.sum(1, keepdims=True))

    def locate(self, column: FloatArray) -> IntArray:
        """Band of each value of a column of numbers, (n_rows,)."""
        is_special = ~np.isfinite(column)
        numbers = np.where(is_special, 0.0, column)
        if self.has_levels:
            bands = self.of_point[numbers.astype(np.intp)].astype(np.intp)
        else:
            bands = np.searchsorted(self.cuts, numbers, side="right")
        return np.where(is_special, self.n_regular + np.isinf(column), bands)


class BandRules(NamedTuple):
    """How the bands of every feature are chosen."""

    max_bands: Mapping[str, int]  # of each feature
    cuts: Mapping[str, Any]  # of features whose bands are given
    min_share: float  # of the training mass, in every band that is found


def band_rules(
    model: AnovaModel, max_bands: Any, default: int, cuts: Mapping[str, Any] | None, share: float
) -> BandRules:
    """Check how the bands of a model shall be chosen; ``default`` is for features not named."""
    names = model.feature_names
    most = dict(max_bands) if isinstance(max_bands, Mapping) else dict.fromkeys(names, max_bands)
    wanted = {} if cuts is None else dict(cuts)
    for argument, named in (("max_bands", most), ("cuts", wanted)):
        unknown = [name for name in named if name not in names]
        if unknown:
            raise ValueError(
                f"{argument}: must name features of the model, found {unknown[0]!r}. It has "
                f"{list(names)[:10]!r}."
            )
    for value in most.values():
        check_parameters({"max_bands": value}, {"max_bands": COUNT})
    check_parameters({"min_share": share}, {"min_share": SHARE})
    return BandRules(dict.fromkeys(names, default) | most, wanted, float(share))


def feature_bands(model: AnovaModel, feature: int, rules: BandRules) -> Bands:
    """Find the bands of a feature that lose least in all components that use it.

    The loss is the variance within bands, summed over the components. That of an interaction is
    averaged over its other features. Bands that the rules give are taken as they are.
    """
    name, about = model.feature_names[feature], model.encoder.features[feature]
    axis = model.encoder.axes[min(model.encoder.axes)][feature]
    regular, masses = _points(model, feature, about, axis)
    if name in rules.cuts:
        regular, masses, of_regular, cuts = _wanted(name, about, regular, masses, rules.cuts[name])
    else:
        of_regular = _found(model, feature, (regular, masses), rules)
        cuts = np.empty(0) if about.levels else _cuts(about, regular, of_regular)
    specials = np.array([np.nan, UNSEEN_LEVEL] if about.levels else [np.nan])
    n_regular, nodes = int(of_regular.max(initial=-1)) + 1, axis.locate(specials)[0]
    return Bands(
        numbers=np.append(regular, specials),
        masses=np.append(masses, np.append(axis.weights, 0.0)[nodes]),
        of_point=np.append(of_regular, n_regular + np.arange(len(specials))).astype(np.int32),
        cuts=cuts,
        labels=_labels(about, cuts, of_regular),
        has_levels=bool(about.levels),
    )


def _labels(about: Feature, cuts: FloatArray, of_regular: IntArray) -> tuple[str, ...]:
    """Every band in words, those of missing and unseen values too."""
    n_regular = int(of_regular.max(initial=-1)) + 1
    words = _range_labels(about, cuts)[:n_regular]
    if about.levels:
        members = [np.flatnonzero(of_regular == band) for band in range(n_regular)]
        named = [[str(about.levels[i]) for i in levels[:MAX_LEVELS_NAMED]] for levels in members]
        more = [max(len(levels) - MAX_LEVELS_NAMED, 0) for levels in members]
        words = [" | ".join([*texts, *[f"{n} more"] * (n > 0)])
                 for texts, n in zip(named, more, strict=True)]  # fmt: skip
    return (*words, MISSING_WORD, *[UNSEEN_WORD] * bool(about.levels))


def _found(
    model: AnovaModel, feature: int, points: tuple[FloatArray, FloatArray], rules: BandRules
) -> IntArray:
    """Band of each point by dynamic programming."""
    regular, masses = points
    order, profile = np.arange(len(regular)), _profile(model, feature, regular)
    if model.encoder.features[feature].kind == NOMINAL:  # without an order of their own, levels
        order = np.lexsort(profile.T[::-1])  # with like effects are joined
    of_regular = np.empty(len(regular), np.intp)
    most = rules.max_bands[model.feature_names[feature]]
    of_regular[order] = best_segments(profile[order], masses[order], most, rules.min_share)
    return of_regular


def _wanted(
    name: str, about: Feature, regular: FloatArray, masses: FloatArray, asked: Any
) -> tuple[FloatArray, FloatArray, IntArray, FloatArray]:
    """Points, masses and bands of a feature whose bands the user names, and its cuts."""
    if about.levels:
        return regular, masses, _wanted_groups(name, about, asked), np.empty(0)
    listed = [asked] if isinstance(asked, str) or not isinstance(asked, Iterable) else list(asked)
    cuts = np.array([read_number(name, about, value, "cuts") for value in listed])
    if (np.diff(cuts) <= 0).any() or not len(cuts):
        raise ValueError(
            f"cuts: those of {name!r} must increase, found {listed!r:.200}. Pass the values at "
            "which a new band begins."
        )
    # A band that no node is in needs a point, at which the model is read.
    points = np.union1d(regular, [np.nextafter(cuts[0], -np.inf), *cuts])
    spread = np.zeros(len(points))
    spread[np.searchsorted(points, regular)] = masses
    return points, spread, np.searchsorted(cuts, points, side="right"), cuts


def _wanted_groups(name: str, about: Feature, asked: Any) -> IntArray:
    """Band of each level, from lists of levels; those in none of them are the last band."""
    if isinstance(asked, str) or not isinstance(asked, Iterable):
        raise ValueError(
            f"cuts: {name!r} has levels, so its bands are lists of them, found {asked!r:.200}. "
            f"Pass [{list(about.levels[:2])!r}, ...]."
        )
    groups = [read_levels(name, about, levels, "cuts") for levels in asked]
    named = [level for group in groups for level in group]
    if len(set(named)) < len(named):
        twice = next(level for level in named if named.count(level) > 1)
        raise ValueError(
            f"cuts: a level can be in one band only, found {about.levels[twice]!r} of {name!r} in "
            "two. Leave it out of one."
        )
    bands = np.full(len(about.levels), len(groups))
    for band, group in enumerate(groups):
        bands[list(group)] = band
    return bands


def merged(about: Feature, bands: Bands, of_band: IntArray) -> Bands:
    """Join bands of a feature; ``of_band`` has the new number of each regular band."""
    of_all = np.append(of_band, of_band[-1] + 1 + np.arange(bands.n_bands - bands.n_regular))
    of_point = of_all[bands.of_point]
    cuts = bands.cuts[np.diff(of_band) > 0] if len(bands.cuts) else bands.cuts
    labels = _labels(about, cuts, of_point[bands.of_point < bands.n_regular])
    return replace(bands, of_point=of_point.astype(np.int32), cuts=cuts, labels=labels)


def _points(
    model: AnovaModel, feature: int, about: Feature, axis: Axis
) -> tuple[FloatArray, FloatArray]:
    """Values of a feature at which some component bends, and the mass of each."""
    if axis.groups is not None:
        numbers = np.arange(float(len(about.levels)))
        nodes, _ = axis.locate(numbers)
        sizes = np.bincount(nodes, minlength=axis.n_nodes)
        return numbers, (axis.weights / np.maximum(sizes, 1))[nodes]
    used = {len(s) for s in model.components if feature in s} | {min(model.encoder.axes)}
    axes = [model.encoder.axes[order][feature] for order in sorted(used)]
    numbers = np.unique(np.concatenate([a.values for a in axes]))
    if about.levels:
        numbers = np.arange(float(len(about.levels)))
    masses = np.zeros(len(numbers))
    masses[np.searchsorted(numbers, axis.values)] = axis.weights[axis.regular]
    return numbers, masses


def _profile(model: AnovaModel, feature: int, regular: FloatArray) -> FloatArray:
    """Values of all components of a feature at its points, times the root of the other masses."""
    columns = [np.zeros((len(regular), 1))]
    for component in model.components:
        if feature not in component:
            continue
        place, axes = component.index(feature), model.axes(component)
        numbers = [
            regular if j == feature else axis.numbers
            for j, axis in zip(component, axes, strict=True)
        ]
        values = np.moveaxis(values_at(model, component, numbers), place, 0)
        for axis in (axis for k, axis in enumerate(axes) if k != place):
            values = values * np.sqrt(axis.weights).reshape(-1, *[1] * (values.ndim - 2))
            values = np.moveaxis(values, 1, -1)
        columns.append(values.reshape(len(regular), -1))
    return np.hstack(columns[1:] or columns)


def _cuts(about: Feature, regular: FloatArray, of_regular: IntArray) -> FloatArray:
    """Values at which a new band begins, as short as the nodes on both sides allow."""
    unit = shown_unit(about.kind)
    # such as years, and numbers of late payments
    is_whole = about.kind in (NUMBER, PERIODIC) and not np.any(regular % 1)
    cuts = []
    for last in np.flatnonzero(np.diff(of_regular)):
        low, high = regular[last], regular[last + 1]
        cut = short_between(low / unit, high / unit) * unit
        cut = float(np.ceil(cut)) if is_whole else cut
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


def _range_labels(about: Feature, cuts: FloatArray) -> list[str]:
    """Bands as half-open ranges, in words."""
    if not len(cuts):
        return ["all values"]
    is_plain = about.kind in (NUMBER, PERIODIC)
    words = [
        repr(float(cut)).removesuffix(".0") if is_plain else value_word(about, cut) for cut in cuts
    ]
    inner = [f"{low} to < {high}" for low, high in pairwise(words)]
    return [f"< {words[0]}", *inner, f">= {words[-1]}"]


ROUNDING = 1e-9  # of sums of masses
MAX_POINTS = 2048  # the programme needs the square of this; more points are joined in advance


def best_segments(
    values: FloatArray, masses: FloatArray, max_segments: int, min_share: float = 0.0
) -> IntArray:
    """Segment of each point, (n_points,), numbered from 0.

    With values v_i, (n_points, n_values), and masses w_i, no other way to cut the points into at
    most ``max_segments`` runs of neighbours, each with ``min_share`` of the mass, has a smaller
    loss sum_i w_i |v_i - mean of its segment|^2. Equal neighbours stay together. Dynamic
    programming finds it.

    >>> best_segments(np.array([[0.0], [0.1], [5.0], [5.2]]), np.ones(4), 2)
    array([0, 0, 1, 1])
    """
    changed = (np.diff(values, axis=0) != 0).any(1)
    runs: IntArray = np.append(0, np.cumsum(changed))[: len(values)]  # of equal neighbours
    starts = np.flatnonzero(np.diff(runs, prepend=-1))
    if len(starts) > MAX_POINTS:
        starts = starts[np.linspace(0, len(starts), MAX_POINTS, endpoint=False).astype(np.intp)]
        runs = np.searchsorted(starts, np.arange(len(values)), side="right") - 1
    if len(starts) <= max_segments and not min_share:
        return runs
    losses = _losses(values, masses, starts)
    if min_share:
        sums = np.concatenate([[0.0], np.cumsum(np.add.reduceat(masses, starts))])
        is_small = sums[None, 1:] - sums[:-1, None] < min_share * sums[-1] * (1 - ROUNDING)
        is_small[0, -1] = False  # all points together are always a segment
        losses[is_small] = np.inf
    return _cut(losses, min(max_segments, len(starts)))[runs]


def _losses(values: FloatArray, masses: FloatArray, starts: IntArray) -> FloatArray:
    """Loss of every segment from run a to run b, both included, (n_runs, n_runs)."""
    centred = values - values.mean(0)
    mass = np.add.reduceat(masses, starts)
    first = np.add.reduceat(masses[:, None] * centred, starts)
    second = np.add.reduceat(masses * (centred**2).sum(1), starts)
    w, f, s = (
        np.concatenate([np.zeros_like(x[:1]), np.cumsum(x, 0)]) for x in (mass, first, second)
    )
    weight = w[None, 1:] - w[:-1, None]
    square = sum((g[None, 1:] - g[:-1, None]) ** 2 for g in f.T)
    loss = s[None, 1:] - s[:-1, None]
    loss -= np.divide(square, weight, out=np.zeros_like(loss), where=weight > 0)
    return np.where(np.tri(len(mass), k=-1, dtype=bool), np.inf, np.maximum(loss, 0.0))


def _cut(losses: FloatArray, most: int) -> IntArray:
    """Segment of each run: best[k, b] = min_a best[k - 1, a - 1] + losses[a, b].

    Of all numbers of segments up to ``most`` it takes the best one, the largest if several are.
    """
    best, origins, totals = losses[0], [], [losses[0, -1]]
    for _ in range(1, most):
        before = np.append(np.inf, best[:-1])  # the least loss of the runs before a
        sums = before[:, None] + losses
        origins.append(sums.argmin(0))
        best = sums.min(0)
        totals.append(best[-1])
    n_segments = most - int(np.argmin(totals[::-1]))
    segments, last = np.zeros(len(losses), np.intp), len(losses) - 1
    for k in range(n_segments - 1, 0, -1):
        first = origins[k - 1][last]
        segments[first : last + 1] = k
        last = first - 1
    return segments


@dataclass(frozen=True, eq=False)
class BandedModel:
    """A model on bands."""

    model: AnovaModel
    bands: Mapping[int, Bands]  # of every feature that a component uses
    tables: Mapping[Component, FloatArray]  # (n_bands_1, ..., n_bands_d), means over the cells
    intercept: float

    def codes(self, table: Table) -> dict[int, IntArray]:
        """Band of every row in each feature; ``table`` is one that the encoder has read."""
        columns = self.model.encoder.columns(table)
        return {feature: bands.locate(columns[feature]) for feature, bands in self.bands.items()}

    def masses(self, component: Component) -> FloatArray:
        """Product of the band masses, (n_bands_1, ..., n_bands_d)."""
        masses = [self.bands[feature].band_masses for feature in component]
        return reduce(np.multiply.outer, masses)

    def line_labels(self, component: Component) -> dict[str, Any]:
        """Band of each feature in every cell, in words: what each line of a frame is about."""
        shape = [self.bands[feature].n_bands for feature in component]
        places = np.indices(shape).reshape(len(component), -1)
        return {
            self.model.feature_names[feature]: np.array(self.bands[feature].labels, object)[place]
            for feature, place in zip(component, places, strict=True)
        }

    def levels(self, what: str, values: Mapping[int, Any]) -> pd.DataFrame:
        """Make a line for every level: its feature, the level, its band, and the value of that.

        ``values`` are those of the bands of each feature that has some, (n_bands,).
        """
        require_pandas("levels")
        import pandas as pd

        lines = []
        for feature, bands in self.bands.items():
            name = self.model.feature_names[feature]
            for level, band in zip(self.model.encoder.features[feature].levels, bands.of_point,
                                   strict=False):  # fmt: skip
                value = values[feature][band] if feature in values else None
                lines.append((name, level, bands.labels[band], value))
        return pd.DataFrame(lines, columns=["feature", "level", "band", what])

    def name(self, component: Component) -> str:
        """Name of a component."""
        return title([self.model.feature_names[j] for j in component])

    def variances(self, component: Component) -> tuple[float, float]:
        """Variance of a component under the product of the masses, and what the bands lose."""
        bands = [self.bands[feature] for feature in component]
        values = values_at(self.model, component, [b.numbers for b in bands])
        masses = reduce(np.multiply.outer, [b.masses for b in bands])
        banded = self.tables[component][np.ix_(*(b.of_point for b in bands))]
        return float((masses * values**2).sum()), float((masses * (values - banded) ** 2).sum())


def banded(model: AnovaModel, rules: BandRules) -> BandedModel:
    """Put a model with one output on bands."""
    used = sorted({feature for component in model.components for feature in component})
    bands = {feature: feature_bands(model, feature, rules) for feature in used}
    tables = {s: cell_means(model, s, bands) for s in model.components}
    return BandedModel(model, bands, tables, float(model.intercepts[0]))


def band_of_value(model: AnovaModel, feature: int, bands: Bands, value: Any) -> int:
    """Band of a value or level that a user names; None is a missing value."""
    name, about = model.feature_names[feature], model.encoder.features[feature]
    if value is None:
        return bands.n_regular
    if about.levels:
        return int(bands.of_point[read_levels(name, about, [value], "base")[0]])
    return int(bands.locate(np.array([read_number(name, about, value, "base")]))[0])


def cell_means(model: AnovaModel, component: Component, bands: Mapping[int, Bands]) -> FloatArray:
    """Mean of a component over every cell of its bands, (n_bands_1, ..., n_bands_d)."""
    means = values_at(model, component, [bands[feature].numbers for feature in component])
    for axis, feature in enumerate(component):
        means = np.moveaxis(np.tensordot(bands[feature].averaging, means, (1, axis)), 0, axis)
    return means


def summed(
    tables: Mapping[Component, FloatArray], codes: Mapping[int, IntArray], n_rows: int
) -> FloatArray:
    """Sum of all components on rows with these bands, (n_rows,)."""
    total = np.zeros(n_rows)
    for component, table in tables.items():
        total += table[tuple(codes[feature] for feature in component)]
    return total


def check_both(X: Any, y: Any) -> None:
    """Refuse rows without targets, and targets without rows."""
    if (X is None) != (y is None):
        raise ValueError(
            "y: rows are passed as X and y together, and only one of them was passed. Pass both, "
            "or neither."
        )


def refuse_unless(kinds: Sequence[str], model: AnovaModel, what: str) -> None:
    """Refuse a model that predicts something else, or has several outputs.

    ``what`` says what is refused, and for which models it is.
    """
    n_outputs = len(model.intercepts)
    if model.task.kind not in kinds or n_outputs > 1:
        raise ValueError(
            f"model: {what}. This model has {n_outputs} output{'s' * (n_outputs > 1)} and the "
            f"{model.link.name} link. Use to_table()."
        )


def targets_of(model: AnovaModel, y: Any, n_rows: int) -> FloatArray:
    """Targets as numbers; labels of a classifier as 0 and 1."""
    refuse_masked("y", y)
    labels = array_of(y)
    is_class = bool(model.classes)
    values = (labels == model.classes[1]) * 1.0 if is_class else checked_numbers("y", labels)
    are_valid = np.isin(labels, list(model.classes)).all() if is_class else (values >= 0).all()
    if values.shape != (n_rows,) or not are_valid:
        rule = f"the labels {list(model.classes)}" if is_class else "numbers of at least 0"
        raise ValueError(
            f"y: {rule} are needed, one per row of X, found shape {values.shape} for {n_rows} rows "
            "or other values. Pass the targets of these rows."
        )
    return values
