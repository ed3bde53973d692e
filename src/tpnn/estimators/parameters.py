"""Which values each parameter of the estimators may take, and the messages if it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import signature
from itertools import pairwise
from typing import Any, ParamSpec

import numpy as np

from tpnn._utils.checks import (
    FLAG,
    Rule,
    is_count,
    is_number,
    is_positive,
    is_whole,
    one_of,
)
from tpnn.anova.constraints import SIGNS

Arguments = ParamSpec("Arguments")


def _are_feature_lists(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(s, list | tuple) for s in value)


def _are_components(value: Any) -> bool:
    listed = _are_feature_lists(value) and len(value) > 0
    return value is None or (listed and all(len(component) > 0 for component in value))


def _is_categorical(value: Any) -> bool:
    given = value if isinstance(value, Mapping) else {"features": value}
    features = given.get("features", "auto")
    are_features = one_of("auto")(features) or isinstance(features, list | tuple)
    is_known = given.keys() <= {"features", "min_rows"}
    return are_features and is_known and is_count(given.get("min_rows", 1))


def _is_max_nodes(value: Any) -> bool:
    by_order = value if isinstance(value, Mapping) else {1: value}
    return all(is_count(o) and is_count(m) and 2 <= m <= 65535 for o, m in by_order.items())


INTERACTION_RULES: dict[str, Callable[[Any], bool]] = {
    "count": lambda value: one_of("auto", "all")(value) or is_count(value),
    "method": one_of("histogram", "nid"),
    **dict.fromkeys(("required", "forbidden", "groups"), _are_feature_lists),
}


def _is_interactions(value: Any) -> bool:
    if isinstance(value, Mapping):
        known = value.keys() <= INTERACTION_RULES.keys()
        return known and all(INTERACTION_RULES[key](part) for key, part in value.items())
    return INTERACTION_RULES["count"](value) or _are_feature_lists(value)


def _is_solver(value: Any) -> bool:
    if isinstance(value, str):
        return value in ("auto", "grow", "gradient")
    has = all(hasattr(value, name) for name in ("solve", "rules", "devices", "get_params"))
    return has and not isinstance(value, type)


def _is_random_state(value: Any) -> bool:
    if value is None or isinstance(value, np.random.RandomState | np.random.Generator):
        return True
    return is_whole(value) and 0 <= int(value) < 2**32


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
    inside = levels and all(is_positive(level) and level < 1 for level in levels)
    return bool(inside) and all(a < b for a, b in pairwise(levels))


REGRESSION = (
    "squared_error", "absolute_error", "huber", "quantile", "poisson", "gamma", "tweedie",
)  # fmt: skip
OBJECTIVE_PARAMETERS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "quantile": ("levels", _are_levels),
    "huber": ("threshold", is_positive),
    "tweedie": ("power", lambda value: is_number(value) and 1 <= value <= 2),
}


def _is_monotone(value: Any) -> bool:
    return value is None or (
        isinstance(value, Mapping) and all(shape in SIGNS for shape in value.values())
    )


def _is_class_weight(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(is_positive(weight) for weight in value.values())
    return value is None or one_of("balanced")(value)


def _is_column(value: Any) -> bool:
    return value is None or isinstance(value, str) or (is_whole(value) and value >= 0)


COLUMN_WORDS = "None, or the name or position of a column of X"

RULES: dict[str, Rule] = {
    "order": Rule(
        '"auto" or a whole number of at least 1',
        lambda value: one_of("auto")(value) or is_count(value),
        "auto",
    ),
    "interactions": Rule(
        '"auto", "all", a number of pairs of at least 1, a list of tuples of feature names or '
        'indices ([] for none), or a dict with some of "count", "method" ("histogram" or "nid"), '
        '"required", "forbidden" and "groups"',
        _is_interactions,
        "all",
    ),
    "components": Rule(
        "None, or a list of at least one tuple of feature names or indices, such as "
        '[("age",), ("age", "bmi")]',
        _are_components,
        [("age",), ("age", "bmi")],
    ),
    "max_components": Rule(
        "None or a whole number of at least 1", lambda value: value is None or is_count(value), 30
    ),
    "selection": Rule(
        '"auto", "noise", "one_se" or "none"', one_of("auto", "noise", "one_se", "none"), "auto"
    ),
    "heredity": FLAG,
    "objective": Rule(
        f"one of {', '.join(REGRESSION)}; a dict such as {{'name': 'quantile', 'levels': "
        "[0.1, 0.9]}, {'name': 'huber', 'threshold': 1.0} or {'name': 'tweedie', 'power': 1.5}; "
        "or a torch function of y and raw score",
        _is_objective,
        "squared_error",
    ),
    "monotone": Rule(
        f"None, or a dict from feature to one of {', '.join(SIGNS)}",
        _is_monotone,
        {"age": "increasing"},
    ),
    "categorical": Rule(
        '"auto", a list of names or indices of columns whose numbers are labels, or a dict with '
        'such a value as "features" and a whole number of at least 1 as "min_rows"',
        _is_categorical,
        ["zip_code"],
    ),
    "offset": Rule(
        f"{COLUMN_WORDS}; numbers themselves are passed to fit", _is_column, "log_exposure"
    ),
    "exposure": Rule(COLUMN_WORDS, _is_column, "exposure"),
    "class_weight": Rule(
        'None, "balanced" or a dict from class to a positive number', _is_class_weight, "balanced"
    ),
    "solver": Rule('"auto", "grow", "gradient", Grow(...) or Descent(...)', _is_solver, "grow"),
    "n_bags": Rule(
        '"auto" or a whole number of at least 1',
        lambda value: one_of("auto")(value) or is_count(value),
        8,
    ),
    "max_nodes": Rule(
        "a whole number from 2 to 65535, or a dict from order to such numbers",
        _is_max_nodes,
        256,
    ),
    "validation_fraction": Rule(
        "a number between 0 and 1, both excluded",
        lambda value: is_positive(value) and value < 1,
        0.15,
    ),
    "bands": FLAG,
    "device": Rule('"auto", "cpu" or "cuda"', one_of("auto", "cpu", "cuda"), "auto"),
    "n_jobs": Rule(
        "None or a whole number other than 0",
        lambda value: value is None or (is_whole(value) and value != 0),
        -1,
    ),
    "time_limit": Rule(
        "None or a positive number of seconds",
        lambda value: value is None or is_positive(value),
        60.0,
    ),
    "random_state": Rule(
        "None, a whole number from 0 to 2**32 - 1, or a NumPy generator", _is_random_state, 0
    ),
    "verbose": Rule(
        '"auto", 0 or 1',
        lambda value: one_of("auto")(value) or (is_number(value) and value in (0, 1)),
        1,
    ),
}

NEW_SPELLINGS = {
    "min_level_rows": 'categorical={"min_rows": ...}',
    "growth": "solver=Grow(growth=...)",
    "l2": "solver=Grow(l2=...) or solver=Descent(l2=...)",
    "max_steps": "solver=Grow(max_rounds=...) or solver=Descent(max_steps=...)",
    "patience": "solver=Grow(patience=...) or solver=Descent(patience=...)",
    "n_bases": "solver=Descent(n_bases=...)",
    "shared_bases": "solver=Descent(shared_bases=...)",
    "activation": "solver=Descent(activation=...)",
    "scale": "solver=Descent(scale=...)",
    "learning_rate": "solver=Descent(learning_rate=...)",
    "required_interactions": 'interactions={"required": ...}',
    "forbidden_interactions": 'interactions={"forbidden": ...}',
    "interaction_groups": 'interactions={"groups": ...}',
}


def refuse_unknown(
    given: Mapping[str, Any], known: Iterable[str], error: type[Exception] = TypeError
) -> None:
    """Raise an error for an unknown parameter; for an old one, the error names the new spelling."""
    known = sorted(known)
    for name, value in given.items():
        if name not in known:
            new = NEW_SPELLINGS.get(name)
            remedy = f"Pass {new}." if new else f"The parameters are {', '.join(known)}."
            raise error(
                f"{name}: must be a parameter of the estimator, found {name}={value!r}. {remedy}"
            )


def refusing_unknown(constructor: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Make a constructor refuse unknown parameters with the message of ``refuse_unknown``."""
    known = set(signature(constructor).parameters) - {"self"}

    @wraps(constructor)
    def checked(*values: Arguments.args, **named: Arguments.kwargs) -> None:
        refuse_unknown(named, known)
        constructor(*values, **named)

    return checked
