"""What values each parameter of the estimators may take, and the sentence when it does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np


class Rule(NamedTuple):
    """A parameter's rule in words, as a test, and a value that satisfies it."""

    words: str
    holds: Callable[[Any], bool]
    example: Any


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_whole(value) and int(value) >= 1


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _is_positive(value: Any) -> bool:
    return _is_number(value) and 0 < value < float("inf")


def _is_count_by_order(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_is_count, [*value.keys(), *value.values()]))


def _is_max_nodes(value: Any) -> bool:
    by_order = value if isinstance(value, Mapping) else {1: value}
    return all(_is_count(o) and _is_count(m) and 2 <= m <= 65535 for o, m in by_order.items())


def _one_of(*values: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value in values


def _is_interactions(value: Any) -> bool:
    if isinstance(value, str):
        return value in ("auto", "all")
    if isinstance(value, Mapping):
        known = set(value) <= {"method", "count"} and _one_of("histogram", "nid")(
            value.get("method", "histogram")
        )
        return known and _is_count(value.get("count", 1))
    if _is_count(value):
        return True
    return isinstance(value, list | tuple) and all(isinstance(s, list | tuple) for s in value)


def _are_feature_lists(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(s, list | tuple) for s in value)


def _is_random_state(value: Any) -> bool:
    if value is None or isinstance(value, np.random.RandomState | np.random.Generator):
        return True
    return _is_whole(value) and 0 <= int(value) < 2**32


def _is_objective(value: Any) -> bool:
    if isinstance(value, str):
        return value in REGRESSION
    if not isinstance(value, Mapping):
        return callable(value)
    given = {key: v for key, v in value.items() if key != "name"}
    rule = OBJECTIVE_PARAMETERS.get(value.get("name", ""))
    return rule is not None and set(given) == {rule[0]} and rule[1](given[rule[0]])


def _are_levels(value: Any) -> bool:
    levels = list(value) if isinstance(value, list | tuple | np.ndarray) else [value]
    inside = levels and all(_is_positive(level) and level < 1 for level in levels)
    return bool(inside) and all(a < b for a, b in pairwise(levels))


REGRESSION = (
    "squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma", "tweedie",
)  # fmt: skip
OBJECTIVE_PARAMETERS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "quantile": ("levels", _are_levels),
    "huber": ("threshold", _is_positive),
    "tweedie": ("power", lambda value: _is_number(value) and 1 <= value <= 2),
}
SHAPES = ("increasing", "decreasing", "convex", "concave")


def _is_monotone(value: Any) -> bool:
    return value is None or (
        isinstance(value, Mapping) and all(shape in SHAPES for shape in value.values())
    )


def _is_class_weight(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(_is_positive(weight) for weight in value.values())
    return value is None or _one_of("balanced")(value)


COUNT = Rule("a whole number of at least 1", _is_count, 1)
POSITIVE = Rule("a positive number", _is_positive, 0.01)

FEATURE_LISTS = Rule(
    "a list of tuples of feature names or indices", _are_feature_lists, [("age", "income")]
)

RULES: dict[str, Rule] = {
    "order": COUNT,
    "interactions": Rule(
        '"auto", "all", a number of pairs of at least 1, a dict such as {"method": "nid", '
        '"count": 300} ("histogram" or "nid"), or a list of tuples of feature names or indices, '
        "[] for none",
        _is_interactions,
        "all",
    ),
    "required_interactions": FEATURE_LISTS,
    "forbidden_interactions": FEATURE_LISTS,
    "interaction_groups": FEATURE_LISTS,
    "max_components": Rule(
        "None or a whole number of at least 1", lambda value: value is None or _is_count(value), 30
    ),
    "selection": Rule(
        '"auto", "noise", "one_se" or "none"', _one_of("auto", "noise", "one_se", "none"), "auto"
    ),
    "heredity": Rule("True or False", lambda value: isinstance(value, bool | np.bool_), False),
    "objective": Rule(
        f"one of {', '.join(REGRESSION)}; a dict such as {{'name': 'quantile', 'levels': "
        "[0.1, 0.9]}, {'name': 'huber', 'threshold': 1.0} or {'name': 'tweedie', 'power': 1.5}; "
        "or a torch function of y and raw score",
        _is_objective,
        "squared_error",
    ),
    "monotone": Rule(
        f"None, or a dict from feature to one of {', '.join(SHAPES)}",
        _is_monotone,
        {"age": "increasing"},
    ),
    "categorical": Rule(
        '"auto", or a list of names or indices of columns whose numbers are names',
        lambda value: _one_of("auto")(value) or isinstance(value, list | tuple),
        ["zip_code"],
    ),
    "min_level_rows": COUNT,
    "class_weight": Rule(
        'None, "balanced" or a dict from class to a positive number', _is_class_weight, "balanced"
    ),
    "solver": Rule('"auto", "grow" or "gradient"', _one_of("auto", "grow", "gradient"), "auto"),
    "growth": Rule('"auto", "smooth" or "none"', _one_of("auto", "smooth", "none"), "smooth"),
    "n_bases": Rule(
        'a whole number of at least 1, a dict from order to such numbers, or "auto"',
        lambda value: _one_of("auto")(value) or _is_count(value) or _is_count_by_order(value),
        "auto",
    ),
    "n_bags": COUNT,
    "scale": Rule('"centred" or "paper"', _one_of("centred", "paper"), "centred"),
    "activation": Rule('"sigmoid" or "relu"', _one_of("sigmoid", "relu"), "sigmoid"),
    "shared_bases": Rule("True or False", lambda value: isinstance(value, bool | np.bool_), False),
    "max_nodes": Rule(
        "a whole number from 2 to 65535, or a dict from order to such numbers",
        _is_max_nodes,
        256,
    ),
    "learning_rate": POSITIVE,
    "l2": Rule(
        'a number of at least 0, or "auto"',
        lambda value: _one_of("auto")(value) or (_is_number(value) and 0 <= value < float("inf")),
        1e-3,
    ),
    "max_steps": COUNT,
    "patience": COUNT,
    "validation_fraction": Rule(
        "a number between 0 and 1, both excluded",
        lambda value: _is_positive(value) and value < 1,
        0.15,
    ),
    "device": Rule('"auto", "cpu" or "cuda"', _one_of("auto", "cpu", "cuda"), "auto"),
    "time_limit": Rule(
        "None or a positive number of seconds",
        lambda value: value is None or _is_positive(value),
        60.0,
    ),
    "random_state": Rule(
        "None, a whole number from 0 to 2**32 - 1, or a NumPy generator", _is_random_state, 0
    ),
    "verbose": Rule(
        '"auto", 0 or 1',
        lambda value: _one_of("auto")(value) or (_is_number(value) and value in (0, 1)),
        1,
    ),
}


def check_parameters(values: Mapping[str, Any]) -> None:
    """Raise ValueError for the first value that breaks its rule."""
    for name, value in values.items():
        rule = RULES[name]
        if not rule.holds(value):
            raise ValueError(
                f"{name}: must be {rule.words}, found {value!r}. "
                f"Pass for example {name}={rule.example!r}."
            )
