"""Rules: which values of parameters are valid, and what is said if one is not; warnings."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np


class Rule(NamedTuple):
    """The rule of a parameter."""

    words: str  # follows "must be" in messages
    holds: Callable[[Any], bool]
    example: Any  # a value that satisfies the rule


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number, and not True or False."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_count(value: Any) -> bool:
    """Whether a value is a whole number of at least 1."""
    return is_whole(value) and int(value) >= 1


def is_number(value: Any) -> bool:
    """Whether a value is a number, and not True or False."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def is_finite(value: Any) -> bool:
    """Whether a value is a number that a double can hold."""
    return is_number(value) and abs(value) <= sys.float_info.max


def is_positive(value: Any) -> bool:
    """Whether a value is a finite number above 0."""
    return is_number(value) and 0 < value < float("inf")


def is_not_negative(value: Any) -> bool:
    """Whether a value is a finite number of at least 0."""
    return is_number(value) and 0 <= value < float("inf")


def one_of(*values: str) -> Callable[[Any], bool]:
    """Return a test whether a value is one of these strings."""
    return lambda value: isinstance(value, str) and value in values


def choice_of(*values: str) -> Rule:
    """Make the rule of a parameter that is one of these strings."""
    return Rule(f"one of {', '.join(values)}", one_of(*values), values[0])


COUNT = Rule("a whole number of at least 1", is_count, 1)
POSITIVE = Rule("a positive number", is_positive, 0.01)
SHARE = Rule("a number above 0 and below 1", lambda x: is_number(x) and 0 < x < 1, 0.1)
FLAG = Rule("True or False", lambda value: isinstance(value, bool | np.bool_), False)


def check_parameters(values: Mapping[str, Any], rules: Mapping[str, Rule], owner: str = "") -> None:
    """Raise ValueError for the first value that breaks its rule.

    The message suggests ``name=value``, or ``solver=owner(name=value)`` for a solver's parameter.
    """
    for name, value in values.items():
        rule = rules.get(name)
        if rule is not None and not rule.holds(value):
            example = f"{name}={rule.example!r}"
            suggested = f"solver={owner}({example})" if owner else example
            raise ValueError(
                f"{name}: must be {rule.words}, found {value!r}. Pass for example {suggested}."
            )


def optional(module: str, needed_by: str, install: str) -> Any:
    """Import a module that not everybody has, or say how to get it."""
    library = module.partition(".")[0]
    try:
        import_module(library)
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f'{needed_by}: needs {library}, which is not installed. Run: pip install "{install}"'
        ) from error


# Packages whose lines do not help a user: ours, and those whose functions call or wrap ours.
PASSED_OVER = ("tpnn", "sklearn", "joblib", "contextlib", "functools")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's own code that called this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _package(frame.f_globals) in PASSED_OVER:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _package(module_globals: dict[str, object]) -> str:
    return str(module_globals.get("__name__", "")).partition(".")[0]
