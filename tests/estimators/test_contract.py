"""What users of scikit-learn expect to work: pipelines, searches, calibration, names, weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LinearRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.conftest import QUICK
from tpnn import TPNNClassifier, TPNNRegressor


def test_pipeline_search_and_cross_validation(table: Any) -> None:
    X, y = table
    model = make_pipeline(StandardScaler(), TPNNRegressor(**QUICK))
    search = GridSearchCV(model, {"tpnnregressor__order": [1, 2]}, cv=2, n_jobs=2).fit(X, y)
    assert set(search.best_params_) == {"tpnnregressor__order"}
    assert search.best_score_ > 0.3
    assert cross_val_score(TPNNRegressor(**QUICK), X, y, cv=2, n_jobs=2).min() > 0.3


def test_calibration(table: Any, labels: Any) -> None:
    X, _ = table
    calibrated = CalibratedClassifierCV(TPNNClassifier(**QUICK), cv=2).fit(X, labels)
    assert calibrated.predict_proba(X).sum(1) == pytest.approx(1.0)


def test_components_as_features_of_another_model(table: Any) -> None:
    """Linear regression on the components gives each the weight one: they are the best already.

    What deep trees say beyond them is no feature.
    """
    X, y = table
    model = TPNNRegressor(**QUICK).set_output(transform="pandas").fit(X, y)
    components = model.transform(X)
    assert list(components.columns[:4]) == list(X.columns)
    assert any(" x " in name for name in components.columns)
    total = model.intercept_ + components.to_numpy().sum(axis=1)
    assert total + model.model_.remainder_scores(X) == pytest.approx(model.predict(X))
    assert make_pipeline(clone(model), LinearRegression()).fit(X, y).score(X, y) > 0.8


def test_names_of_several_outputs(table: Any) -> None:
    X, y = table
    model = TPNNClassifier(**QUICK, order=1).fit(X, pd.cut(y, 3, labels=["a", "b", "c"]))
    assert model.get_feature_names_out()[:3].tolist() == ["smooth: a", "smooth: b", "smooth: c"]
    assert model.transform(X).shape == (400, 12)
    assert model.transform(X[:0]).shape == (0, 12)


@pytest.mark.parametrize(
    ("dtype", "classes"),
    [
        ("Int64", [0, 1, 2]),
        ("int64[pyarrow]", [0, 1, 2]),
        ("boolean", [False, True]),
        ("string", ["0", "1", "2"]),
    ],
)
def test_nullable_labels_keep_their_type(table: Any, dtype: str, classes: list[Any]) -> None:
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    X, y = table
    labels = pd.Series(pd.qcut(y, len(classes), labels=False)).astype("Int64").astype(dtype)
    model = TPNNClassifier(**QUICK, order=1).fit(X, labels)
    assert repr(model.classes_.tolist()) == repr(classes)
    assert repr(np.unique(model.predict(X)).tolist()) == repr(classes)
    names = model.get_feature_names_out()[: len(classes)]
    assert len(classes) == 2 or names.tolist() == [f"smooth: {label}" for label in classes]
    assert model.score(X, labels) > 0.6


def test_names_of_components_are_unique(table: Any) -> None:
    X, y = table
    X = X.set_axis(["a", "b", "a x b", "c"], axis=1)
    names = TPNNRegressor(**QUICK, interactions="all").fit(X, y).get_feature_names_out().tolist()
    assert names[:5] == ["a", "b", "a x b", "c", "a x b (component)"]
    assert len(set(names)) == len(names) == 10


def test_weights_are_routed(table: Any) -> None:
    X, y = table
    weights = np.random.default_rng(0).random(400)
    with sklearn.config_context(enable_metadata_routing=True):
        model = TPNNRegressor(**QUICK).set_fit_request(sample_weight=True)
        scorer = get_scorer("r2").set_score_request(sample_weight=True)
        search = GridSearchCV(model, {"order": [1]}, cv=2, scoring=scorer)
        search.fit(X, y, sample_weight=weights)
    direct = TPNNRegressor(**QUICK, order=1).fit(X, y, sample_weight=weights)
    assert np.array_equal(search.best_estimator_.predict(X), direct.predict(X))


def test_class_weights_are_weights_of_rows(table: Any) -> None:
    X, y = table
    rare = (y > np.quantile(y, 0.9)).to_numpy()
    by_class = TPNNClassifier(**QUICK, class_weight={False: 1.0, True: 9.0}).fit(X, rare)
    by_row = TPNNClassifier(**QUICK).fit(X, rare, sample_weight=np.where(rare, 9.0, 1.0))
    assert np.array_equal(by_class.predict_proba(X), by_row.predict_proba(X))
    balanced = TPNNClassifier(**QUICK, class_weight="balanced").fit(X, rare)
    assert balanced.predict(X).mean() > TPNNClassifier(**QUICK).fit(X, rare).predict(X).mean()
    with pytest.raises(ValueError, match=r"^class_weight: must be .*, found 'equal'"):
        TPNNClassifier(**QUICK, class_weight="equal").fit(X, rare)


KINDS = {
    "number": lambda rng, n: rng.normal(size=n),
    "huge": lambda rng, n: rng.normal(size=n) * 1e300,
    "tiny": lambda rng, n: rng.normal(size=n) * 1e-300,
    "whole": lambda rng, n: rng.integers(-3, 3, n),
    "constant": lambda rng, n: np.full(n, 7.0),
    "flag": lambda rng, n: rng.random(n) < 0.5,
    "string": lambda rng, n: rng.choice(["a", "b", "a longer name"], n),
    "unique": lambda rng, n: np.array([f"id{i}" for i in rng.permutation(n)]),
    "category": lambda rng, n: pd.Categorical(rng.choice(list("xyz"), n), ordered=True),
    "date": lambda rng, n: pd.Timestamp("2020") + pd.to_timedelta(rng.integers(0, 999, n), "D"),
    "missing": lambda rng, n: np.full(n, np.nan),
}


@given(
    kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4),
    n_rows=st.sampled_from([2, 3, 7, 40]),
    holes=st.sampled_from([0.0, 0.3]),
    task=st.sampled_from(["regression", "binary", "three classes", "poisson"]),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@pytest.mark.filterwarnings("ignore:X. levels or missing values")
def test_any_table(kinds: list[str], n_rows: int, holes: float, task: str, seed: int) -> None:
    """Random tables through fit, predict and explain: no crash, no NaN, the laws hold."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({f"{k}{i}": KINDS[k](rng, n_rows) for i, k in enumerate(kinds)})
    X = X.mask(rng.random(X.shape) < holes) if holes else X
    X = X.infer_objects()
    y: Any = rng.normal(size=n_rows)
    model: Any = TPNNRegressor(**QUICK)
    if task == "poisson":
        y, model = (
            rng.poisson(2.0, n_rows) + 1.0 * (np.arange(n_rows) == 0),
            model.set_params(objective="poisson"),
        )
    elif task != "regression":
        y, model = np.arange(n_rows) % (2 if task == "binary" else 3), TPNNClassifier(**QUICK)
    model.fit(X, y)
    predicted = model.predict(X)
    assert len(predicted) == n_rows
    assert not pd.isna(predicted).any()
    assert model.model_.identifiability_error() < 1e-6
    raw = model.model_.raw_scores(X)
    total = model.model_.intercept + model.model_.component_scores(X).sum(1)
    total = total + model.model_.remainder_scores(X)
    assert total == pytest.approx(raw, rel=1e-6, abs=1e-9 * (1 + np.abs(raw).max()))
    shap = model.shap_values(X)
    assert np.isfinite(np.asarray(shap.values)).all()
