"""Functional ANOVA models with unique components.

Names are imported when first used: loading and applying a saved model needs NumPy only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpnn import datasets, plots
    from tpnn.agreement import stability, stability_scores
    from tpnn.classification import TPNNClassifier
    from tpnn.components import ComponentSet
    from tpnn.distillation import distill
    from tpnn.explain import Explanation
    from tpnn.foreign import purify
    from tpnn.model import AnovaModel, load_model
    from tpnn.regression import TPNNRegressor
    from tpnn.survival import TPNNSurvival

__version__ = "0.1.0"

__all__ = [
    "AnovaModel",
    "ComponentSet",
    "Explanation",
    "TPNNClassifier",
    "TPNNRegressor",
    "TPNNSurvival",
    "datasets",
    "distill",
    "load_model",
    "plots",
    "purify",
    "stability",
    "stability_scores",
]

_HOME = {
    "AnovaModel": "model",
    "ComponentSet": "components",
    "Explanation": "explain",
    "TPNNClassifier": "classification",
    "TPNNRegressor": "regression",
    "TPNNSurvival": "survival",
    "distill": "distillation",
    "load_model": "model",
    "purify": "foreign",
    "stability": "agreement",
    "stability_scores": "agreement",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tpnn' has no attribute {name!r}")
    if name in _HOME:
        return getattr(import_module(f"tpnn.{_HOME[name]}"), name)
    return import_module(f"tpnn.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)
