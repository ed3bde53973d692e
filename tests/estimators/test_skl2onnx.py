"""Pipelines that end in our estimators, converted by skl2onnx, give their own numbers."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from tests.conftest import QUICK
from tpnn import TPNNClassifier, TPNNRegressor
from tpnn.estimators.skl2onnx import register

skl2onnx = pytest.importorskip("skl2onnx", reason="the package skl2onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from skl2onnx.common.data_types import DoubleTensorType, StringTensorType  # noqa: E402

TOLERANCE = 1e-12  # in standard deviations of the target


@pytest.fixture(autouse=True)
def _registered() -> None:
    register()


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    X[:, 3] = rng.integers(0, 3, 300)
    return X, X[:, 0] + np.sin(3 * X[:, 1]) * X[:, 2] + X[:, 3] ** 2


def run(model: Any, X: np.ndarray, **settings: Any) -> dict[str, Any]:
    """Outputs of the converted model, which reads one array of doubles."""
    types = [("X", DoubleTensorType([None, X.shape[1]]))]
    converted = skl2onnx.convert_sklearn(model, initial_types=types, **settings)
    return outputs(converted, {"X": X})


def outputs(converted: Any, feeds: dict[str, np.ndarray]) -> dict[str, Any]:
    session = onnxruntime.InferenceSession(converted.SerializeToString())
    names = [known.name for known in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def scaled(model: Any) -> Pipeline:
    return Pipeline([("scale", StandardScaler()), ("model", model)])


@pytest.mark.parametrize("opset", [12, 15, 18, None])
def test_a_scaled_regressor(data: tuple[np.ndarray, np.ndarray], opset: int | None) -> None:
    X, y = data
    model = scaled(TPNNRegressor(**QUICK)).fit(X, y)
    found = run(model, X, target_opset=opset)
    assert list(found) == ["variable"]
    np.testing.assert_allclose(found["variable"][:, 0], model.predict(X), atol=TOLERANCE * y.std())


def test_several_quantiles_and_an_offset_column(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = data
    levels = {"name": "quantile", "levels": [0.2, 0.5, 0.8]}
    model = TPNNRegressor(objective=levels, offset=1, **QUICK).fit(X, y)
    found = run(model, X)["variable"]
    np.testing.assert_allclose(found, model.predict(X), atol=TOLERANCE * y.std())


@pytest.mark.parametrize("labels", [["no", "yes"], [4, 2, 9], [False, True]])
def test_a_scaled_classifier(data: tuple[np.ndarray, np.ndarray], labels: list[Any]) -> None:
    X, y = data
    target = np.array(labels)[np.digitize(y, np.quantile(y, [0.3, 0.6])[: len(labels) - 1])]
    model = scaled(TPNNClassifier(**QUICK)).fit(X, target)
    found = run(model, X, options={"zipmap": False})
    assert list(found) == ["label", "probabilities"]
    assert found["label"].tolist() == model.predict(X).tolist()
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), atol=1e-13)
    maps = run(model, X)["output_probability"]
    shares = np.array([list(known.values()) for known in maps])
    np.testing.assert_allclose(shares, model.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("encoder", [OneHotEncoder(sparse_output=False), OrdinalEncoder()])
def test_columns_of_several_kinds(data: tuple[np.ndarray, np.ndarray], encoder: Any) -> None:
    X, y = data
    frame = pd.DataFrame(X[:, :3], columns=list("abc"))
    frame["city"] = np.array(["u", "v", "w"])[X[:, 3].astype(int)]
    columns = [("numbers", StandardScaler(), list("abc")), ("city", encoder, ["city"])]
    categorical = [3] if isinstance(encoder, OrdinalEncoder) else "auto"
    last = TPNNRegressor(categorical=categorical, **QUICK)
    model = Pipeline([("columns", ColumnTransformer(columns)), ("model", last)]).fit(frame, y)
    types = [(name, DoubleTensorType([None, 1])) for name in "abc"]
    types += [("city", StringTensorType([None, 1]))]
    converted = skl2onnx.convert_sklearn(model, initial_types=types)
    found = outputs(converted, {name: frame[[name]].to_numpy() for name in frame})["variable"]
    np.testing.assert_allclose(found[:, 0], model.predict(frame), atol=TOLERANCE * y.std())


def test_several_models_in_one_graph(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = data
    models = [(f"order {k}", TPNNRegressor(order=k, **QUICK)) for k in (1, 2)]
    model = VotingRegressor(models).fit(X, y)
    found = run(model, X)["variable"][:, 0]
    np.testing.assert_allclose(found, model.predict(X), atol=1e-6 * y.std())  # of its weights


def test_a_constant_model(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = data
    model = TPNNRegressor(**QUICK).fit(X, y)
    model.model_ = model.model_.restrict([])
    np.testing.assert_array_equal(run(model, X)["variable"], np.full((300, 1), model.intercept_))


def test_text_in_a_pipeline_is_refused(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = data
    model = TPNNRegressor(**QUICK).fit(pd.DataFrame({"city": X[:, 3].astype(str)}), y)
    with pytest.raises(ValueError, match=r"must read numbers to be converted, found levels such"):
        run(model, X[:, :1])


def test_an_offset_without_a_column_is_announced(data: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = data
    model = TPNNRegressor(**QUICK).fit(X, y, offset=X[:, 0])
    with pytest.warns(UserWarning, match="a converted pipeline adds no offset"):
        run(model, X)


def test_skl2onnx_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(ImportError, match="register: needs skl2onnx, which is not installed"):
        register()
