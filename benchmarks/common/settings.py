"""Settings of a fit as plain dicts: they travel as JSON, are named in tables, and make estimators.

A solver is a name, ``{"solver": "gradient"}``, or a dict with its name and its parameters,
``{"solver": {"name": "gradient", "max_steps": 10}}``; without one it is the default, which grows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tpnn import Descent, Grow

SOLVERS: dict[str, Any] = {"grow": Grow, "gradient": Descent}
LENGTHS = {"grow": "max_rounds", "gradient": "max_steps"}
DEFAULT = "grow"


def as_parameters(
    settings: Mapping[str, Any], length: int | None = None, **further: Any
) -> dict[str, Any]:
    """Return parameters of an estimator, with a solver of its own.

    Parameters
    ----------
    settings : dict
        Settings as above.
    length : int, optional
        Most rounds of growth, or most gradient steps.
    **further
        Further parameters of the solver.
    """
    chosen = settings.get("solver", DEFAULT)
    parameters = {"name": chosen} if isinstance(chosen, str) else dict(chosen)
    name = parameters.pop("name")
    if length is not None:
        parameters[LENGTHS[name]] = length
    return {**settings, "solver": SOLVERS[name](**parameters, **further)}


def described(settings: Mapping[str, Any]) -> str:
    """Say how an estimator was asked to fit.

    >>> described({"order": 1})
    'default solver, order=1'
    >>> described({"solver": {"name": "gradient", "max_steps": 10}, "n_bags": 1})
    "solver='gradient', max_steps=10, n_bags=1"
    """
    words = [] if "solver" in settings else ["default solver"]
    for name, value in settings.items():
        if isinstance(value, dict):
            words += [f"{name if key == 'name' else key}={each!r}" for key, each in value.items()]
        else:
            words.append(f"{name}={value!r}")
    return ", ".join(words)
