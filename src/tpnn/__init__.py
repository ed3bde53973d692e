"""Functional ANOVA models with unique components.

Names are imported when first used: loading and applying a saved model needs NumPy only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpnn import datasets, distributed, metrics, plots
    from tpnn import nn as nn
    from tpnn.anova.components import ComponentSet
    from tpnn.combine.merge import merge
    from tpnn.comparison.compare import compare
    from tpnn.descent.solver import Descent
    from tpnn.drift.monitor import monitor
    from tpnn.estimators.classifier import TPNNClassifier
    from tpnn.estimators.regressor import TPNNRegressor
    from tpnn.estimators.survival import TPNNSurvival
    from tpnn.explain.explanation import Explanation
    from tpnn.explain.stability import stability, stability_scores
    from tpnn.grow.solver import Grow
    from tpnn.interop.distill import distill
    from tpnn.interop.purify import purify
    from tpnn.model.loading import load_model
    from tpnn.model.model import AnovaModel
    from tpnn.model.provenance import Provenance
    from tpnn.predict.loaded import LoadedClassifier, LoadedRegressor, LoadedSurvival, load
    from tpnn.problem.fingerprint import fingerprint
    from tpnn.sheets.scorecard import scorecard
    from tpnn.validation.validate import validate

__version__ = "0.1.0"

__all__ = [
    "AnovaModel",
    "ComponentSet",
    "Descent",
    "Explanation",
    "Grow",
    "LoadedClassifier",
    "LoadedRegressor",
    "LoadedSurvival",
    "Provenance",
    "TPNNClassifier",
    "TPNNRegressor",
    "TPNNSurvival",
    "compare",
    "datasets",
    "distill",
    "distributed",
    "fingerprint",
    "load",
    "load_model",
    "merge",
    "metrics",
    "monitor",
    "plots",
    "purify",
    "scorecard",
    "stability",
    "stability_scores",
    "validate",
]

_SUBMODULES = {
    "datasets": "tpnn.datasets",
    "distributed": "tpnn.distributed",
    "metrics": "tpnn.metrics",
    "nn": "tpnn.nn",
    "plots": "tpnn.plots",
}
_HOMES = {
    "AnovaModel": "tpnn.model.model",
    "ComponentSet": "tpnn.anova.components",
    "Descent": "tpnn.descent.solver",
    "Explanation": "tpnn.explain.explanation",
    "Grow": "tpnn.grow.solver",
    "LoadedClassifier": "tpnn.predict.loaded",
    "LoadedRegressor": "tpnn.predict.loaded",
    "LoadedSurvival": "tpnn.predict.loaded",
    "Provenance": "tpnn.model.provenance",
    "TPNNClassifier": "tpnn.estimators.classifier",
    "TPNNRegressor": "tpnn.estimators.regressor",
    "TPNNSurvival": "tpnn.estimators.survival",
    "compare": "tpnn.comparison.compare",
    "distill": "tpnn.interop.distill",
    "fingerprint": "tpnn.problem.fingerprint",
    "load": "tpnn.predict.loaded",
    "load_model": "tpnn.model.loading",
    "merge": "tpnn.combine.merge",
    "monitor": "tpnn.drift.monitor",
    "purify": "tpnn.interop.purify",
    "scorecard": "tpnn.sheets.scorecard",
    "stability": "tpnn.explain.stability",
    "stability_scores": "tpnn.explain.stability",
    "validate": "tpnn.validation.validate",
}

if not TYPE_CHECKING:  # type checkers know the names, and must see that others are missing

    def __getattr__(name: str) -> Any:
        try:
            if name in _SUBMODULES:
                return import_module(_SUBMODULES[name])
            if name in _HOMES:
                return getattr(import_module(_HOMES[name]), name)
        except ModuleNotFoundError as error:
            if error.name is None:
                raise
            if not error.name.startswith("tpnn."):
                raise ModuleNotFoundError(
                    f"{name}: the package {error.name!r} is needed, found that it is not installed "
                    f"({error}). Install it, or tpnn with all that it needs: pip install tpnn",
                    name=error.name,
                ) from error
            raise ImportError(
                f"{name}: the whole library is needed, found tpnn-runtime, which predicts and "
                "explains. Install tpnn in its place."
            ) from error
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return list(__all__)
