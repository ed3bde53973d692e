"""Random settings of an estimator; features are named by position until the table is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from itertools import combinations
from typing import Any

import numpy as np

from tests.fuzz import columns as kinds
from tests.fuzz.columns import Column
from tpnn import Descent, Grow

HAS_TORCH = find_spec("torch") is not None
SHAPES = ("increasing", "decreasing", "convex", "concave")
Settings = dict[str, Any]
Name = Callable[[Any], Any]


def random_settings(
    rng: np.random.Generator, columns: Sequence[Column], unordered: Sequence[str]
) -> Settings:
    """Draw valid settings: few bags and rounds most of the time, the defaults some of the time.

    Columns of ``unordered`` kinds can have no shape.
    """
    settings: Settings = {"random_state": int(rng.integers(2**32)), "verbose": 0, "n_jobs": 1}
    if rng.random() < 0.01:
        return settings
    n_features = len(columns)
    order = int(rng.choice([1, 2, 2, 2, 3]))
    settings |= {
        "order": order,
        "n_bags": int(rng.choice([1, 2, 3])),
        "solver": _random_solver(rng),
        "interactions": _random_interactions(rng, n_features, order),
        "selection": str(rng.choice(["auto", "noise", "one_se", "none"])),
        "max_nodes": [2, 5, {1: 40, 2: 8, 3: 4}, 256][rng.integers(4)],
        "validation_fraction": float(rng.choice([0.15, 0.15, 0.5, 0.02, 0.9])),
        "categorical": {"min_rows": int(rng.choice([1, 1, 1, 3]))},
        "shapes": _random_shapes(rng, [column.kind in unordered for column in columns]),
    }
    asked = settings["interactions"]
    if rng.random() < 0.2 and not isinstance(asked, list):
        rules = asked if isinstance(asked, dict) else {"count": asked}
        settings["interactions"] = {**rules, "heredity": True}
    if rng.random() < 0.3:
        settings["max_components"] = int(rng.integers(1, 8))
    required = settings["interactions"]
    if isinstance(required, dict) and required.get("required"):
        settings.pop("max_components", None)  # it would have to cover them
    numbers = [j for j, column in enumerate(columns) if column.kind in kinds.NUMBERS]
    if numbers and rng.random() < 0.15:
        labels = [int(j) for j in numbers if rng.random() < 0.5 and j not in settings["shapes"]]
        settings["categorical"] |= {"features": labels}
    return settings


def deep_settings(settings: Settings, rng: np.random.Generator) -> Settings:
    """Change settings so that the fit grows deep trees, most of the time with a remainder."""
    kept = {key: value for key, value in settings.items() if key not in ("selection", "shapes")}
    if not isinstance(kept.get("solver"), Grow):
        kept["solver"] = Grow(max_rounds=int(rng.choice([3, 10, 40])))
    asked = kept.get("interactions")
    if not isinstance(asked, dict) or "count" in asked:
        kept["interactions"] = "auto"
    remainder = (True, True, "auto", False)[rng.integers(4)]
    if remainder is not True or rng.random() < 0.7:
        kept.pop("order", None)  # with an order, only a remainder that is asked for grows
    return kept | {"remainder": remainder}


def _random_solver(rng: np.random.Generator) -> Any:
    if rng.random() < 0.04:
        return Descent(
            n_bases=int(rng.integers(1, 5)),
            max_steps=int(rng.integers(1, 4)),
            activation=str(rng.choice(["sigmoid", "relu"])),
            scale=str(rng.choice(["centred", "paper"])),
            shared_bases=bool(rng.random() < 0.3),
        )
    penalties: tuple[str | float, ...] = (0.0, 1.0, "auto", "auto")
    return Grow(
        growth=str(rng.choice(["auto", "auto", "smooth", "none"])),
        l2=penalties[rng.integers(len(penalties))],
        max_rounds=int(rng.choice([1, 3, 10, 40])),
        patience=int(rng.choice([1, 5, 50])),
    )


def _random_interactions(rng: np.random.Generator, n_features: int, order: int) -> Any:
    subsets = [s for k in range(2, order + 1) for s in combinations(range(n_features), k)]
    if not subsets:
        return "all" if order == 1 or rng.random() < 0.5 else "auto"
    few = [subsets[place] for place in rng.integers(len(subsets), size=rng.integers(1, 3))]
    listed = sorted(set(few))
    rest: Settings = {"forbidden": [listed[-1]]}
    if rng.random() < 0.5 and not any(set(listed[-1]) <= set(s) for s in listed[:-1]):
        rest["required"] = listed[:-1]
    choices: list[Any] = [
        "auto", "all", int(rng.integers(1, 4)), [], listed, rest,
        {"count": int(rng.integers(1, 4)), "required": listed}, {"groups": [(0, n_features - 1)]},
    ]  # fmt: skip
    return choices[rng.integers(len(choices))]


def _random_shapes(rng: np.random.Generator, unordered: Sequence[bool]) -> dict[int, str]:
    """Shapes of some features that have an order."""
    if rng.random() < 0.7:
        return {}
    chosen = [j for j, excluded in enumerate(unordered) if not excluded and rng.random() < 0.5]
    return {j: str(rng.choice(SHAPES)) for j in chosen}


def named(settings: Settings, name: Name) -> Settings:
    """Return settings in which every feature has the name, or index, that the table knows it by."""
    answer = dict(settings)
    for key in ("shapes", "interactions", "categorical"):
        if key in settings:
            answer[key] = _named(settings[key], name)
    return answer


def _named(part: Any, name: Name) -> Any:
    """Replace positions inside lists and tuples and in the keys of ``shapes``."""
    if isinstance(part, dict):
        if all(isinstance(key, int) for key in part):
            return {name(key): shape for key, shape in part.items()}
        return {key: _named(value, name) for key, value in part.items()}
    if isinstance(part, list):
        return [_named(item, name) if isinstance(item, tuple) else name(item) for item in part]
    return tuple(map(name, part)) if isinstance(part, tuple) else part
