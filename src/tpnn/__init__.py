"""Functional ANOVA models with unique components.

Names are imported when first used: loading and applying a saved model needs NumPy only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from tpnn import datasets
    from tpnn.anova.components import ComponentSet
    from tpnn.descent.solver import Descent
    from tpnn.estimators.classifier import TPNNClassifier
    from tpnn.estimators.regressor import TPNNRegressor
    from tpnn.estimators.survival import TPNNSurvival
    from tpnn.explain import plots
    from tpnn.explain.explanation import Explanation
    from tpnn.explain.stability import stability, stability_scores
    from tpnn.grow.solver import Grow
    from tpnn.interop.distill import distill
    from tpnn.interop.purify import purify
    from tpnn.model.model import AnovaModel, load_model

__version__ = "0.1.0"

__all__ = [
    "AnovaModel",
    "ComponentSet",
    "Descent",
    "Explanation",
    "Grow",
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

__getattr__, __dir__, _ = lazy_loader.attach(
    __name__,
    submodules=["datasets"],
    submod_attrs={
        "anova.components": ["ComponentSet"],
        "descent.solver": ["Descent"],
        "estimators.classifier": ["TPNNClassifier"],
        "estimators.regressor": ["TPNNRegressor"],
        "estimators.survival": ["TPNNSurvival"],
        "explain": ["plots"],
        "explain.explanation": ["Explanation"],
        "explain.stability": ["stability", "stability_scores"],
        "grow.solver": ["Grow"],
        "interop.distill": ["distill"],
        "interop.purify": ["purify"],
        "model.model": ["AnovaModel", "load_model"],
    },
)
