"""Edit: what is changed in which component, checked, and as a record that JSON can hold.

A new node of a main effect has no mass, so no mean changes. Levels that share a node have equal
values. If one of them gets its own node, it takes an equal share of the mass, so no mean changes.
In higher orders the masses are those of the main effect, shared linearly by neighbouring nodes: a
function of one feature has the same mean in all orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

import numpy as np

from tpnn._utils.arrays import BoolArray, FloatArray
from tpnn._utils.rules import Rule, check_parameters, is_finite, is_positive, one_of
from tpnn.anova.components import Component, ComponentSet, resolve_feature, resolve_interactions
from tpnn.anova.measure import moved
from tpnn.anova.posterior import Posterior
from tpnn.anova.shapes import SHAPES, check_shape
from tpnn.model.check import MOST_NODES
from tpnn.model.evidence import Evidence
from tpnn.model.model import AnovaModel, changed
from tpnn.table.axis import Axis
from tpnn.table.encoder import Feature
from tpnn.table.table import DATE, NOMINAL, ORDERED
from tpnn.table.words import read_levels, read_number, read_range, value_word


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


Named = str | int | Sequence[str | int]

PLACES = ("between", "levels", "missing")
DEFAULT_SMOOTHING = 0.05  # share of the rows


class Change(TypedDict, total=False):
    """What an edit does, and where; docs/editing.md has the meaning of each key."""

    between: Any
    levels: Any
    missing: Any
    output: str
    add: float
    set: float
    scale: float
    limit: Any
    flatten: bool
    smooth: float | bool
    points: Any
    shape: str
    without: bool


def _are_limits(value: Any) -> bool:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        return False
    if not all(end is None or is_finite(end) for end in value):
        return False
    return None in value or bool(value[0] <= value[1])


def _are_points(value: Any) -> bool:
    pairs = list(value.items()) if isinstance(value, Mapping) else value
    return _is_list(pairs) and all(
        _is_list(pair) and len(pair) == 2 and is_finite(pair[1]) for pair in pairs
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0


OPERATIONS = {
    "add": Rule("a finite number", is_finite, 0.2),
    "set": Rule("a finite number", is_finite, 0.0),
    "scale": Rule("a finite number", is_finite, 0.5),
    "limit": Rule("a pair of numbers in order, None for no limit", _are_limits, (-1, 1)),
    "flatten": Rule("True", lambda value: value is True, True),
    "smooth": Rule(
        "True, or a share of the rows above 0 and at most 1",
        lambda value: value is True or (is_positive(value) and value <= 1),
        DEFAULT_SMOOTHING,
    ),
    "points": Rule("pairs of a value and the effect there", _are_points, {30: 0.1}),
    "shape": Rule(f"one of {', '.join(SHAPES)}", one_of(*SHAPES), "increasing"),
    "without": Rule("True", lambda value: value is True, True),
}


@dataclass(frozen=True)
class Edit:
    """One edit of one component, checked against a model."""

    component: Component  # its features
    where: tuple[Where, ...]  # for which values of each feature
    operation: str  # one of ``OPERATIONS``
    value: Any  # its number, pair, list of (number, effect) or shape
    outputs: BoolArray  # (n_outputs,), which outputs it is for
    record: dict[str, Any]  # as JSON can hold it; ``read_edit`` makes the same edit of it


def read_edit(model: AnovaModel, component: Named, change: Mapping[str, Any]) -> Edit:
    """Check an edit, given as the keys of ``Change``, against the model that it is for."""
    arguments = {key: value for key, value in change.items() if value is not None}
    unknown = [key for key in arguments if key not in Change.__annotations__]
    if unknown:
        raise ValueError(
            f"{unknown[0]}: an edit is one of {', '.join(OPERATIONS)}, found {unknown[0]!r}. "
            "Choose one of them."
        )
    features = read_component(model, component)
    operation = _read_operation(arguments)
    where = tuple(
        read_where(model.feature_names[j], model.encoder.features[j], model.encoder.axes[1][j], one)
        for j, one in zip(features, _by_feature(model, features, arguments), strict=True)
    )
    value = _read_value(model, features, where, operation, arguments)
    outputs = _read_outputs(model, arguments.get("output"))
    record = _record(model, features, where, operation, value)
    if "output" in arguments:
        record["output"] = arguments["output"]
    return Edit(features, where, operation, value, outputs, record=record)


def read_component(model: AnovaModel, component: Named) -> Component:
    """Features of a component as a user names it, of an order that the model knows."""
    named = [component] if isinstance(component, str | int) else component
    if not _is_list(named):
        raise ValueError(
            f"component: must be a feature or a list of features, found {component!r:.200}. Pass "
            f"{model.feature_names[0]!r}, for example."
        )
    if len(named) == 1:
        one = named[0]
        features: Component = (resolve_feature(one, model.feature_names, "component"),)
    else:
        (features,) = resolve_interactions([named], model.feature_names, None, "component")
    if len(features) not in model.encoder.axes:
        raise ValueError(
            f"component: must have at most {max(model.encoder.axes)} features, the largest order "
            f"of this model, found {len(features)}. Name a component of lower order."
        )
    return features


def _read_operation(arguments: Mapping[str, Any]) -> str:
    named = [name for name in OPERATIONS if name in arguments]
    if len(named) != 1:
        raise ValueError(
            f"edit: exactly one of {', '.join(OPERATIONS)} is needed, found "
            f"{', '.join(named) or 'none'}. Make one edit after the other."
        )
    check_parameters({named[0]: arguments[named[0]]}, OPERATIONS)
    return named[0]


def _by_feature(
    model: AnovaModel, features: Component, arguments: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Range, levels and missing values of each feature of a component."""
    by_feature: list[dict[str, Any]] = [{} for _ in features]
    for key in PLACES:
        if key not in arguments:
            continue
        value = arguments[key]
        is_listed = key == "missing" and _is_list(value)
        if isinstance(value, Mapping) or is_listed:
            pairs = [(name, True) for name in value] if is_listed else value.items()
            for name, one in pairs:
                index = resolve_feature(name, model.feature_names, key)
                if index not in features:
                    raise ValueError(
                        f"{key}: features must be those of the component, found {name!r}. "
                        "Leave it out."
                    )
                by_feature[features.index(index)][key] = one
        elif len(features) == 1:
            by_feature[0][key] = value
        else:
            raise ValueError(
                f"{key}: a component of several features needs a dict by feature, found "
                f"{value!r}. Pass {key}={{{model.feature_names[features[0]]!r}: ...}}."
            )
    return by_feature


def _read_value(
    model: AnovaModel,
    features: Component,
    where: Sequence[Where],
    operation: str,
    arguments: Mapping[str, Any],
) -> Any:
    """Value of an operation, in the form of its record."""
    value, is_limited = arguments[operation], not all(one.is_all for one in where)
    alone = {"shape": "the whole feature", "without": "the whole component"}
    alone["points"] = "the values that it lists"
    if operation in alone and (is_limited or (operation != "points" and "output" in arguments)):
        raise ValueError(
            f"{operation}: is for {alone[operation]}, so between, levels, missing and output have "
            "no meaning here. Leave them out."
        )
    if operation in ("points", "shape") and len(features) > 1:
        raise ValueError(
            f"{operation}: one feature is needed, found {len(features)}. Name one feature."
        )
    if operation == "shape":
        check_shape(model.encoder, features[0], value, "shape")
    if operation == "points":
        return _read_points(where[0], value)
    if operation == "smooth":
        if all(model.encoder.features[j].kind == NOMINAL for j in features):
            raise ValueError(
                f"smooth: the levels of {model.feature_names[features[0]]!r} have no order, so "
                "none of them lies between others. Use flatten or scale."
            )
        return DEFAULT_SMOOTHING if value is True else float(value)
    if operation == "limit":
        return [None if end is None else float(end) for end in value]
    return value if operation in ("flatten", "shape", "without") else float(value)


def _read_points(where: Where, value: Any) -> list[list[float]]:
    if where.feature.levels:
        raise ValueError(
            f"points: is for numbers, and {where.name!r} has levels. Pass levels=[...] and "
            "set=..., one edit for each effect."
        )
    pairs = value.items() if isinstance(value, Mapping) else value
    points = [
        [read_number(where.name, where.feature, x, "points"), float(effect)] for x, effect in pairs
    ]
    positions = [x for x, _ in points]
    if len(positions) > MOST_NODES:
        raise ValueError(
            f"points: a feature can have at most {MOST_NODES} nodes, found {len(positions)}. "
            "Leave some out."
        )
    if len(set(positions)) < len(positions):
        raise ValueError("points: a value is listed twice. Remove one of them.")
    return sorted(points)


def _read_outputs(model: AnovaModel, output: Any) -> BoolArray:
    if output is None:
        return np.ones(len(model.intercepts), bool)
    if output not in model.output_names:
        raise ValueError(
            f"output: must be one of the model's outputs, found {output!r}. "
            f"It has {list(model.output_names) or 'one output only'}."
        )
    return np.array([name == output for name in model.output_names])


def _record(
    model: AnovaModel, features: Component, where: Sequence[Where], operation: str, value: Any
) -> dict[str, Any]:
    """Edit by names, as JSON can hold it."""
    record: dict[str, Any] = {"component": [model.feature_names[j] for j in features]}
    ranges = {one.name: [_plain(one, end) for end in one.between] for one in where if one.between}
    levels = {
        one.name: [one.feature.levels[number] for number in one.levels]
        for one in where
        if one.levels is not None
    }
    missing = [one.name for one in where if one.missing]
    where_words = {"between": ranges, "levels": levels, "missing": missing}
    record |= {key: what for key, what in where_words.items() if what}
    return record | {operation: value}


def _plain(where: Where, end: float) -> float | str | None:
    """End of a range as a number or, for a date, in words; None without a limit."""
    if np.isinf(end):
        return None
    if where.feature.kind == DATE:
        return str(np.datetime64(round(end * 1e6), "us"))
    return end
