"""tpnn.load: a loaded model answers as the estimator did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tpnn
from tests.conftest import QUICK
from tests.models import small_model
from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival

REFERENCE = Path(__file__).parents[1] / "reference" / "version_1"


@pytest.fixture(scope="module")
def rows() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=300), "b": rng.choice(["u", "v"], 300)})
    X["years"] = rng.uniform(0.5, 2, 300)
    return X, X.a.to_numpy() + (X.b == "u")


def loaded(estimator: Any, folder: Path, form: str) -> Any:
    path = folder / f"model.{form}"
    estimator.model_.save(path) if form == "tpnn" else estimator.model_.to_json(path)
    return tpnn.load(path)


def assert_same_attributes(model: Any, estimator: Any) -> None:
    assert model.components_ == estimator.components_
    for name in ("feature_names_in_", "intercept_", "n_features_in_"):
        assert np.array_equal(getattr(model, name), getattr(estimator, name))


@pytest.mark.parametrize("form", ["tpnn", "json"])
def test_a_regressor(rows: Any, tmp_path: Path, form: str) -> None:
    X, y = rows
    settings: dict[str, Any] = {**QUICK, "objective": "poisson", "exposure": "years"}
    estimator = TPNNRegressor(**settings).fit(X, y + 3)
    model = loaded(estimator, tmp_path, form)
    assert type(model) is tpnn.LoadedRegressor
    assert np.array_equal(model.predict(X), estimator.predict(X))
    assert np.array_equal(model.explain(X).scores, estimator.explain(X).scores)
    assert np.array_equal(model.shap_values(X).values, estimator.shap_values(X).values)
    assert_same_attributes(model, estimator)
    assert not hasattr(model, "predict_proba")
    assert repr(model).startswith("LoadedRegressor(AnovaModel(")
    with pytest.raises(ValueError, match=r"^X: the columns seen during fit are needed, \['a'\]"):
        model.predict(X[["b", "years"]])


@pytest.mark.parametrize("form", ["tpnn", "json"])
@pytest.mark.parametrize(
    "labels", [np.array(["no", "yes"]), np.array([False, True]), np.array([3, 7, 9])]
)
def test_a_classifier(rows: Any, tmp_path: Path, form: str, labels: Any) -> None:
    X, y = rows[0][["a", "b"]], rows[1]
    ranks = np.searchsorted([0.0, 0.7][: len(labels) - 1], y)
    estimator = TPNNClassifier(**QUICK).fit(X, labels[ranks])
    model = loaded(estimator, tmp_path, form)
    assert type(model) is tpnn.LoadedClassifier
    assert np.array_equal(model.predict(X), estimator.predict(X))
    assert model.predict(X).dtype == estimator.predict(X).dtype
    assert np.array_equal(model.predict_proba(X), estimator.predict_proba(X))
    assert np.array_equal(model.decision_function(X), estimator.decision_function(X))
    assert np.array_equal(model.classes_, estimator.classes_)
    assert_same_attributes(model, estimator)
    if len(labels) > 2:
        with pytest.raises(ValueError, match=r"^offset: two classes are needed"):
            model.predict(X, np.zeros(len(X)))


@pytest.mark.parametrize("form", ["tpnn", "json"])
def test_survival(rows: Any, tmp_path: Path, form: str) -> None:
    X, y = rows
    targets = pd.DataFrame({"time": np.exp(-y), "died": y > 0})
    estimator = TPNNSurvival(**QUICK, order=2).fit(X, targets)
    model = loaded(estimator, tmp_path, form)
    assert type(model) is tpnn.LoadedSurvival
    times = [0.1, 0.5, 2.0]
    assert np.array_equal(model.predict(X), estimator.predict(X))
    assert np.array_equal(model.predict_survival(X, times), estimator.predict_survival(X, times))
    assert model.model_.provenance.targets == ("time", "died")
    assert_same_attributes(model, estimator)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("regression", tpnn.LoadedRegressor),
        ("poisson", tpnn.LoadedRegressor),
        ("quantiles", tpnn.LoadedRegressor),
        ("two_classes", tpnn.LoadedClassifier),
        ("three_classes", tpnn.LoadedClassifier),
        ("survival", tpnn.LoadedRegressor),  # it has no baseline
    ],
)
def test_models_that_no_estimator_fitted_show_their_task(name: str, kind: type) -> None:
    assert type(tpnn.load(REFERENCE / f"{name}.tpnn")) is kind


def test_arrays_have_no_names(tmp_path: Path) -> None:
    small_model(2).save(tmp_path / "model")
    model = tpnn.load(tmp_path / "model")
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 3
    with pytest.raises(ValueError, match="LoadedRegressor is expecting 3 features"):
        model.predict(np.zeros((2, 5)))
