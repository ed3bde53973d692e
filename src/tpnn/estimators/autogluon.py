"""AutoGluon: our estimators as one of its models; ``tpnn.autogluon`` is this module.

AutoGluon fits eight models on eight folds and averages them, so each has few bags of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from autogluon.common import space
from autogluon.core.constants import MULTICLASS, QUANTILE, REGRESSION
from autogluon.core.models import AbstractModel

from tpnn.estimators.classifier import TPNNClassifier
from tpnn.estimators.memory import estimate_memory
from tpnn.estimators.regressor import TPNNRegressor
from tpnn.solvers.grow.solver import Grow

LIMIT_SHARE = 0.9  # of the time limit; the rest is for what AutoGluon does around a fit
OF_SOLVER = ("max_rounds", "patience", "l2")  # parameters of Grow, the others are the estimator's


class TPNNModel(AbstractModel):
    """Functional ANOVA model for AutoGluon: binary, multiclass, regression and quantile problems.

    Levels and missing values are passed as they are. The validation rows of AutoGluon stop growth,
    the time limit and the cores are kept to. ``explain()`` explains the fitted model.

    Examples
    --------
    >>> from tpnn.autogluon import TPNNModel  # doctest: +SKIP
    >>> predictor.fit(data, hyperparameters={TPNNModel: {}})  # doctest: +SKIP
    """

    ag_key = "TPNN"
    ag_name = "TPNN"
    ag_priority = 35
    seed_name = "random_state"
    _supported_problem_types = ("binary", "multiclass", "regression", "quantile")
    _default_auxiliary_params_extra = {  # noqa: RUF012
        "valid_raw_types": ["int", "float", "category", "bool", "datetime"]
    }

    def _fit(
        self,
        X: pd.DataFrame,
        y: pd.Series,
        X_val: pd.DataFrame | None = None,
        y_val: pd.Series | None = None,
        time_limit: float | None = None,
        sample_weight: Any = None,
        sample_weight_val: Any = None,
        num_cpus: int | str = 1,
        **_: Any,
    ) -> None:
        X = self.preprocess(X, y=y)
        rows: dict[str, Any] = {}
        if X_val is not None and y_val is not None:
            rows = {"X_val": self.preprocess(X_val), "y_val": y_val}
        levels = self.quantile_levels if self.problem_type == QUANTILE else None
        estimator = estimator_for(self.problem_type, self._get_model_params(), levels)
        estimator.set_params(n_jobs=None if num_cpus == "auto" else int(num_cpus), verbose=0)
        if time_limit is not None:
            estimator.set_params(time_limit=max(LIMIT_SHARE * time_limit, 0.1))
        weights = sample_weight
        if rows and (sample_weight is not None or sample_weight_val is not None):
            parts = zip((sample_weight, sample_weight_val), (X, rows["X_val"]), strict=True)
            weights = np.concatenate([np.ones(len(t)) if w is None else w for w, t in parts])
        self.model = estimator.fit(X, y, weights, **rows)

    def explain(self, X: pd.DataFrame | None = None) -> Any:
        """Explain the fitted model, or its predictions for rows of AutoGluon's table."""
        return self.model.explain(None if X is None else self.preprocess(X))

    def _set_default_params(self) -> None:
        self._set_default_param_value("n_bags", 4)

    def _get_default_searchspace(self) -> dict[str, Any]:
        """Return the seven parameters to tune; each at its default is the default model."""
        return {
            "order": space.Categorical("auto", 1, 2),
            "n_bags": space.Categorical(4, 2, 8),
            "max_nodes": space.Categorical(256, 64, 128),
            "min_rows": space.Categorical(1, 5, 20),
            "max_rounds": space.Int(500, 4000, default=2000),
            "patience": space.Int(10, 100, default=30),
            "l2": space.Categorical("auto", 1e-3, 1e-2),
        }

    def _more_tags(self) -> dict[str, Any]:
        return {"can_refit_full": False}  # growth stops by itself only with held-out rows

    @classmethod
    def _estimate_memory_usage_static(
        cls,
        *,
        X: pd.DataFrame,
        y: pd.Series | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
        problem_type: str = REGRESSION,
        num_classes: int | None = 1,
        **_: Any,
    ) -> int:
        """Peak memory of a fit in bytes."""
        parameters = {"n_bags": 4, **(hyperparameters or {})}
        levels = (0.1, 0.5, 0.9) if problem_type == QUANTILE else None
        settings = estimator_for(problem_type, parameters, levels).get_params(deep=False)
        n_outputs = (num_classes or 3) if problem_type == MULTICLASS else len(levels or (0.5,))
        return int(estimate_memory(X, n_outputs=n_outputs, **settings))


def estimator_for(problem_type: str, parameters: Mapping[str, Any], levels: Any) -> Any:
    """Make the estimator of a type of problem from the parameters that AutoGluon chose."""
    named = {name: value for name, value in parameters.items() if not name.startswith("ag")}
    solver = {name: named.pop(name) for name in OF_SOLVER if name in named}
    if "min_rows" in named:
        named["categorical"] = {"features": "auto", "min_rows": named.pop("min_rows")}
    if solver:
        named["solver"] = Grow(**solver)
    if problem_type == QUANTILE:
        return TPNNRegressor(objective={"name": "quantile", "levels": list(levels)}, **named)
    return TPNNRegressor(**named) if problem_type == REGRESSION else TPNNClassifier(**named)
