"""Edit: what is changed in which component, checked, and as a record that JSON can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np

from tpnn._utils.arrays import BoolArray
from tpnn._utils.rules import Rule, check_parameters, is_finite, is_positive, one_of
from tpnn.anova.components import Component, resolve_feature, resolve_interactions
from tpnn.anova.shapes import SHAPES, check_shape
from tpnn.lifecycle.edit.where import Where, read_where
from tpnn.model.check import MOST_NODES
from tpnn.model.model import AnovaModel
from tpnn.table.table import DATE, NOMINAL
from tpnn.table.words import read_number

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
    features = _read_component(model, component)
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


def _read_component(model: AnovaModel, component: Named) -> Component:
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
            f"of this model, found {len(features)}. Edit a component of lower order."
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
        return _read_smoothing(model, features, value)
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


def _read_smoothing(model: AnovaModel, features: Component, value: Any) -> float:
    if all(model.encoder.features[j].kind == NOMINAL for j in features):
        name = model.feature_names[features[0]]
        raise ValueError(
            f"smooth: the levels of {name!r} have no order, so none of them lies between others. "
            "Use flatten or scale."
        )
    return DEFAULT_SMOOTHING if value is True else float(value)


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
