"""Where: for which values an edit is, and finer nodes, so that the edit can end there.

A new node of a main effect has no mass, so no mean changes. Levels that share a node have equal
values. If one of them gets its own node, it takes an equal share of the mass, so no mean changes.
In higher orders the masses are those of the main effect, shared linearly by neighbouring nodes: a
function of one feature has the same mean in all orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tpnn._utils.arrays import BoolArray, FloatArray
from tpnn.anova.components import ComponentSet
from tpnn.anova.measure import moved
from tpnn.anova.posterior import Posterior
from tpnn.model.evidence import Evidence
from tpnn.model.model import AnovaModel, changed
from tpnn.table.axis import Axis
from tpnn.table.encoder import Feature
from tpnn.table.table import NOMINAL, ORDERED
from tpnn.table.words import read_levels, read_range, value_word


def with_values(axis: Axis, feature: Feature, values: Iterable[float]) -> Axis:
    """Ordered axis that has nodes at the given values too, of mass zero.

    >>> axis = Axis(np.array([0.0, 1.0]), np.array([0.5, 0.5]))
    >>> with_values(axis, Feature("number"), [0.25]).values
    array([0.  , 0.25, 1.  ])
    """
    nodes = np.union1d(axis.values, np.array(list(values)) + 0.0)  # no -0.0
    if len(nodes) == len(axis.values):
        return axis
    masses = np.zeros(len(nodes))
    masses[np.searchsorted(nodes, axis.values)] = axis.weights[axis.regular]
    labels = None if axis.levels is None else tuple(feature.levels[int(v)] for v in nodes)
    weights = axis.with_missing(masses, axis.weights[axis.missing])
    return replace(axis, values=nodes, weights=weights, levels=labels)


def with_own_nodes(axis: Axis, feature: Feature, numbers: Sequence[int]) -> Axis:
    """Nominal axis on which levels share no node with others than themselves.

    ``numbers`` are those of the levels that get a node each where they share one with another.
    """
    assert axis.groups is not None
    members = {number: np.flatnonzero(axis.groups == axis.groups[number]) for number in numbers}
    split = [number for number in numbers if not set(members[number]) <= set(numbers)]
    if not split:
        return axis
    first = axis.seen.stop  # an unseen level and missing values stay last
    groups, labels, masses = axis.groups.copy(), list(axis.levels or ()), axis.weights.tolist()
    for place, number in enumerate(split):
        share = axis.weights[axis.groups[number]] / len(members[number])
        masses[groups[number]] -= share
        masses.insert(first + place, share)
        labels.insert(first + place, feature.levels[number])
    groups[split] = first + np.arange(len(split))
    values = np.arange(float(len(labels)))
    weights = np.maximum(np.array(masses), 0.0)  # what is left may be below 0 by rounding
    return replace(axis, values=values, weights=weights, levels=tuple(labels), groups=groups)


def refined(
    model: AnovaModel, order: int, finer: Mapping[int, Callable[[Axis], Axis]]
) -> AnovaModel:
    """Model of the same function on finer axes of some features, in all orders up to one.

    ``finer`` has for each of these features the function that makes an axis finer. Coarse nodes
    must be fine nodes, so what is new in an order is new in all lower ones. In higher orders the
    masses are those of the finer main effect, shared linearly by neighbouring nodes.
    """
    new = {
        size: tuple(
            finer[j](axis) if size <= order and j in finer else axis for j, axis in enumerate(axes)
        )
        for size, axes in model.encoder.axes.items()
    }
    for size in range(2, order + 1):
        each = zip(model.encoder.axes[size], new[size], new[1], strict=True)
        new[size] = tuple(
            one
            if two is one
            else replace(two, weights=two.masses_of(main.numbers, main.weights)[:-1])
            for one, two, main in each
        )

    def all_moved(
        tables: Sequence[FloatArray], components: ComponentSet = model.components
    ) -> tuple[FloatArray, ...]:
        pairs = zip(components, tables, strict=True)
        return tuple(moved(table, model.axes(s), [new[len(s)][j] for j in s]) for s, table in pairs)

    rest = model.remainder
    spreads, posteriors = model.evidence.spreads, model.evidence.posteriors
    posteriors = posteriors and tuple(
        one and _moved_posterior(one, model.axes(s), [new[len(s)][j] for j in s])
        for s, one in zip(model.components, posteriors, strict=True)
    )
    return changed(
        model,
        encoder=replace(model.encoder, axes=new),
        tables=all_moved(model.tables),
        remainder=rest and replace(rest, tables=all_moved(rest.tables, rest.components)),
        evidence=Evidence(spreads=spreads and all_moved(spreads), posteriors=posteriors),
    )


def _moved_posterior(posterior: Posterior, old: Sequence[Axis], new: Sequence[Axis]) -> Posterior:
    """Posterior on finer nodes: products of interpolated functions are interpolated products."""
    return replace(
        posterior,
        factors=tuple(
            moved(factor.astype(np.float64), [one], [two]).astype(np.float32)
            for factor, one, two in zip(posterior.factors, old, new, strict=True)
        ),
        rough=moved(posterior.rough.astype(np.float64), old, new).astype(np.float32),
    )


@dataclass(frozen=True)
class Where:
    """Values of one feature; all of them where nothing else is said."""

    name: str  # of the feature
    feature: Feature
    between: tuple[float, float] | None = None  # smallest and largest number, both included
    levels: tuple[int, ...] | None = None  # numbers of levels
    missing: bool = False  # whether missing values belong to it

    @property
    def is_all(self) -> bool:
        """Whether nothing limits it."""
        return self.between is None and self.levels is None and not self.missing

    def finer(self, axis: Axis, main: Axis) -> Axis:
        """Axis on which some nodes are inside and all others are outside.

        ``main`` is the axis of the main effect, which has the outermost nodes.
        """
        if self.levels is not None:
            if axis.groups is not None:
                return with_own_nodes(axis, self.feature, self.levels)
            near = {n + step for n in self.levels for step in (-1, 0, 1)}
            levels = [float(n) for n in near if 0 <= n < len(self.feature.levels)]
            return with_values(axis, self.feature, levels)
        if self.between is None:
            return axis
        nodes, (low, high) = main.values, self.between
        ends = [low, max(_neighbour(low, -1, main), nodes[0])] if low > nodes[0] else []
        ends += [high, min(_neighbour(high, 1, main), nodes[-1])] if high < nodes[-1] else []
        return with_values(axis, self.feature, ends)

    def mask(self, axis: Axis) -> BoolArray:
        """Which nodes of a finer axis are inside, (M,)."""
        if self.is_all:
            return np.ones(axis.n_nodes, bool)
        inside = np.zeros(axis.n_nodes, bool)
        nodes = axis.values
        if self.between is not None:
            low, high = self.between
            inside[axis.regular] = (nodes >= low) & (nodes <= high)
        if self.levels is not None and axis.groups is not None:
            inside[axis.groups[list(self.levels)]] = True
        elif self.levels is not None:
            inside[axis.regular] |= np.isin(nodes, self.levels)
        if self.missing:
            inside[axis.missing] = True
        return inside


def _neighbour(edge: float, way: int, axis: Axis) -> float:
    """Next number beyond the end of a range; beside zero, one in proportion to the values."""
    if edge != 0:
        return float(np.nextafter(edge, way * np.inf))
    sizes = np.abs(axis.values)
    return way * float(np.spacing(sizes[sizes > 0].min(initial=1.0)))


def read_where(name: str, feature: Feature, axis: Axis, given: Mapping[str, Any]) -> Where:
    """Check "between", "levels" and "missing" of one feature; ``axis`` is its main effect's."""
    between, levels = given.get("between"), given.get("levels")
    missing = given.get("missing", False)
    if not isinstance(missing, bool | np.bool_):
        raise ValueError(
            f"missing: must be True or False for {name!r}, found {missing!r:.200}. Pass True to "
            "include missing values."
        )
    if missing and not axis.has_missing:
        raise ValueError(
            f"missing: {name!r} had no missing values when the model was fitted, so the model has "
            "no node for them. Leave missing out."
        )
    if between is not None and levels is not None:
        raise ValueError(
            f"between: {name!r} takes a range or levels, and both were passed. Leave one out."
        )
    return Where(
        name=name,
        feature=feature,
        between=None if between is None else _read_range(name, feature, axis, between),
        levels=None if levels is None else read_levels(name, feature, levels),
        missing=bool(missing),
    )


def _read_range(name: str, feature: Feature, axis: Axis, between: Any) -> tuple[float, float]:
    if feature.kind in (NOMINAL, ORDERED):
        raise ValueError(
            f"between: {name!r} has levels, so the range {between!r} means nothing. Pass "
            f"levels={list(feature.levels[:2])!r}, for example."
        )
    low, high = read_range(name, feature, between, "between")
    nodes = axis.values
    if len(nodes) == 0 or high < nodes[0] or low > nodes[-1]:
        words = [value_word(feature, node) for node in nodes[[0, -1]]] if len(nodes) else ["no"] * 2
        raise ValueError(
            f"between: must meet the values of {name!r} that the model knows, from {words[0]} to "
            f"{words[1]}, found {tuple(between)!r}. Choose a range among them."
        )
    return low, high
