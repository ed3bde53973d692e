"""Measurements that are not a model on a split of a table: a function each, by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

# name of the "data set" in a spec -> module with ``measure(name, model, split, quick) -> record``
HOMES = {
    "shap": "shap_values",
    "rate": "rate",
    "outlier": "outlier",
    "jcbm": "concepts",
    "icbm": "concepts",
    "celeba_icbm": "attributes",
}


Measure = Callable[[str, str, int, bool], dict[str, Any]]


def measure_of(name: str) -> Measure:
    """Return the function that measures a special cell."""
    measure: Measure = import_module(f"benchmarks.paper.special.{HOMES[name]}").measure
    return measure
