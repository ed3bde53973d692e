"""The scikit-learn contract."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.conftest import QUICK, QUICK_DESCENT
from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival

ESTIMATORS = [TPNNRegressor, TPNNClassifier, TPNNSurvival]


@pytest.mark.filterwarnings("ignore:y. times and events are needed, found times alone:UserWarning")
@parametrize_with_checks(
    [kind(**s, order=2) for s in (QUICK, QUICK_DESCENT) for kind in ESTIMATORS]
)
def test_estimator_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_clone_pipeline_and_search(table: Any, quick: dict[str, Any]) -> None:
    X, y = table
    model = TPNNRegressor(**quick)
    assert repr(clone(model).get_params()) == repr(model.get_params())
    pipeline = make_pipeline(StandardScaler(), model).set_output(transform="pandas")
    search = GridSearchCV(pipeline, {"tpnnregressor__order": [1, 2]}, cv=2).fit(X, y)
    assert search.best_estimator_[-1].feature_names_in_.tolist() == list(X.columns)
    assert np.isfinite(cross_val_score(model, X, y, cv=2)).all()


def test_parallel_cross_validation(table: Any, labels: Any, quick: dict[str, Any]) -> None:
    X, _ = table
    scores = cross_val_score(TPNNClassifier(**quick), X, labels, cv=2, n_jobs=2)
    assert scores.min() > 0.6


@pytest.mark.parametrize("seed", [np.random.RandomState, np.random.default_rng])
def test_generators_as_random_state(seed: Any, table: Any, quick: dict[str, Any]) -> None:
    X, y = table
    one, other = (
        TPNNRegressor(**{**quick, "random_state": seed(3)}).fit(X, y).predict(X) for _ in range(2)
    )
    assert np.array_equal(one, other)
