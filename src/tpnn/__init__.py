"""Functional ANOVA models with unique components.

Names are imported when first used: loading and applying a saved model needs NumPy only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tpnn import datasets
    from tpnn.anova.components import ComponentSet
    from tpnn.estimators import distributed
    from tpnn.estimators.classifier import TPNNClassifier
    from tpnn.estimators.memory import estimate_memory
    from tpnn.estimators.optimism import optimism
    from tpnn.estimators.regressor import TPNNRegressor
    from tpnn.estimators.survival import TPNNSurvival
    from tpnn.estimators.verify import verify
    from tpnn.estimators.warm_up import warmup
    from tpnn.explain import metrics, plots
    from tpnn.explain.explanation import Explanation
    from tpnn.explain.stability import stability, stability_scores
    from tpnn.export.sheets.scorecard import ScoreCard, scorecard
    from tpnn.lifecycle.compare.compare import compare
    from tpnn.lifecycle.distill import distill
    from tpnn.lifecycle.edit.widget import editor
    from tpnn.lifecycle.fairness import fairness
    from tpnn.lifecycle.foreign.purified import purify
    from tpnn.lifecycle.foreign.read import read
    from tpnn.lifecycle.merge import merge, tariff
    from tpnn.lifecycle.monitor import monitor
    from tpnn.lifecycle.validate.validate import validate
    from tpnn.model import mlflow
    from tpnn.model.evidence import Provenance
    from tpnn.model.loading import (
        LoadedClassifier,
        LoadedRegressor,
        LoadedSurvival,
        check_decisions,
        load,
    )
    from tpnn.model.model import AnovaModel
    from tpnn.solvers.descent.head import TPNNHead
    from tpnn.solvers.descent.solver import Descent
    from tpnn.solvers.grow.solver import Grow
    from tpnn.solvers.problem.fingerprint import fingerprint

__version__ = "1.0.0"

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
    "ScoreCard",
    "TPNNClassifier",
    "TPNNHead",
    "TPNNRegressor",
    "TPNNSurvival",
    "check_decisions",
    "compare",
    "datasets",
    "distill",
    "distributed",
    "editor",
    "estimate_memory",
    "fairness",
    "fingerprint",
    "load",
    "merge",
    "metrics",
    "mlflow",
    "monitor",
    "optimism",
    "plots",
    "purify",
    "read",
    "scorecard",
    "stability",
    "stability_scores",
    "tariff",
    "validate",
    "verify",
    "warmup",
]

_SUBMODULES = {
    "autogluon": "tpnn.estimators.autogluon",  # not in __all__: it needs AutoGluon to be imported
    "datasets": "tpnn.datasets",
    "distributed": "tpnn.estimators.distributed",
    "metrics": "tpnn.explain.metrics",
    "mlflow": "tpnn.model.mlflow",
    "plots": "tpnn.explain.plots",
}
_HOMES = {
    "AnovaModel": "tpnn.model.model",
    "ComponentSet": "tpnn.anova.components",
    "Descent": "tpnn.solvers.descent.solver",
    "Explanation": "tpnn.explain.explanation",
    "Grow": "tpnn.solvers.grow.solver",
    "LoadedClassifier": "tpnn.model.loading",
    "LoadedRegressor": "tpnn.model.loading",
    "LoadedSurvival": "tpnn.model.loading",
    "Provenance": "tpnn.model.evidence",
    "ScoreCard": "tpnn.export.sheets.scorecard",
    "TPNNClassifier": "tpnn.estimators.classifier",
    "TPNNHead": "tpnn.solvers.descent.head",
    "TPNNRegressor": "tpnn.estimators.regressor",
    "TPNNSurvival": "tpnn.estimators.survival",
    "check_decisions": "tpnn.model.loading",
    "compare": "tpnn.lifecycle.compare.compare",
    "distill": "tpnn.lifecycle.distill",
    "editor": "tpnn.lifecycle.edit.widget",
    "estimate_memory": "tpnn.estimators.memory",
    "fairness": "tpnn.lifecycle.fairness",
    "fingerprint": "tpnn.solvers.problem.fingerprint",
    "load": "tpnn.model.loading",
    "merge": "tpnn.lifecycle.merge",
    "monitor": "tpnn.lifecycle.monitor",
    "optimism": "tpnn.estimators.optimism",
    "purify": "tpnn.lifecycle.foreign.purified",
    "read": "tpnn.lifecycle.foreign.read",
    "scorecard": "tpnn.export.sheets.scorecard",
    "stability": "tpnn.explain.stability",
    "stability_scores": "tpnn.explain.stability",
    "tariff": "tpnn.lifecycle.merge",
    "validate": "tpnn.lifecycle.validate.validate",
    "verify": "tpnn.estimators.verify",
    "warmup": "tpnn.estimators.warm_up",
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
                    f"{name}: needs the package {error.name!r}, which is not installed ({error}). "
                    "Install it, or tpnn with all that it needs: pip install tpnn",
                    name=error.name,
                ) from error
            raise ImportError(
                f"{name}: needs the whole library, and only tpnn-runtime is installed, which "
                "predicts and explains. Install tpnn in its place."
            ) from error
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return list(__all__)
