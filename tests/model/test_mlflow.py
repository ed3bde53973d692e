"""MLflow: what is saved and logged predicts as before, without pickle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tpnn import TPNNClassifier, TPNNRegressor, mlflow
from tpnn.model.mlflow import _contributions

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow warns while it is imported

QUICK: Any = {"n_bags": 2, "random_state": 0, "verbose": 0}
RNG = np.random.default_rng(0)
X = pd.DataFrame({"age": RNG.integers(18, 80, 300), "town": RNG.choice(["a", "b", "c"], 300)})
X["paid"], X["since"] = X["age"] > 40, pd.Timestamp("2020-01-01") + pd.to_timedelta(X["age"], "D")
X["rate"] = RNG.normal(size=300)
Y = (X["age"] / 20 + (X["town"] == "a") * X["rate"]).to_numpy()


@pytest.mark.parametrize("remainder", [True, False])
def test_contributions_add_up_to_the_raw_score(remainder: bool) -> None:
    model = TPNNRegressor(**QUICK, remainder=remainder).fit(X, Y).model_
    table = pd.DataFrame(_contributions(model, X))
    assert ("remainder" in table) is remainder
    assert np.allclose(table.sum(axis=1), model.raw_scores(X), rtol=0, atol=1e-12)
    classes = TPNNClassifier(**QUICK, remainder=remainder).fit(X, X["town"]).model_
    table = pd.DataFrame(_contributions(classes, X))
    for k, name in enumerate(classes.output_names):
        of_class = table[[column for column in table if column.endswith(f": {name}")]]
        assert np.allclose(of_class.sum(axis=1), classes.raw_scores(X)[:, k], rtol=0, atol=1e-12)


def test_a_saved_model_is_served(tmp_path: Path) -> None:
    served = pytest.importorskip("mlflow").pyfunc
    model = TPNNRegressor(**QUICK, remainder=True).fit(X, Y)
    mlflow.save_model(model, tmp_path / "regressor", metadata={"owner": "pricing"})
    found = served.load_model(str(tmp_path / "regressor"))
    assert np.array_equal(found.predict(X), model.predict(X))
    assert np.array_equal(found.predict(X.astype({"town": "category"})), model.predict(X))
    table = found.predict(X, params={"output": "contributions"})
    assert np.allclose(table.sum(axis=1), model.predict(X), rtol=0, atol=1e-9)
    assert found.metadata.get_input_schema().input_names() == list(X.columns)
    assert found.metadata.metadata == {"owner": "pricing"}
    assert found.metadata.flavors["tpnn"]["features"]["since"] == "date"
    loaded = mlflow.load_model(str(tmp_path / "regressor"))
    assert np.array_equal(loaded.predict(X), model.predict(X))
    with pytest.raises(ValueError, match=r"^output: must be one of predictions, contributions"):
        found.predict(X, params={"output": "probabilities"})
    with pytest.raises(ValueError, match=r"^path: an empty folder is needed"):
        mlflow.save_model(model, tmp_path / "regressor")


def test_no_pickle(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    mlflow.save_model(TPNNRegressor(**QUICK, order=1).fit(X, Y), tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["MLmodel", "conda.yaml", "model.tpnn", "python_env.yaml", "requirements.txt"]
    assert (tmp_path / "requirements.txt").read_text().startswith("tpnn-runtime==")


def test_log_and_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # mlflow-skinny has no database
    library = pytest.importorskip("mlflow")
    library.set_tracking_uri((tmp_path / "runs").as_uri())
    library.set_experiment("tests")
    model = TPNNClassifier(**QUICK, order=1).fit(X, X["paid"])
    with library.start_run():
        logged = mlflow.log_model(model)
    assert np.array_equal(mlflow.load_model(logged.model_uri).predict(X), model.predict(X))
    served = library.pyfunc.load_model(logged.model_uri)
    shares = served.predict(X, params={"output": "probabilities"})
    assert list(shares.columns) == [False, True]
    assert np.array_equal(shares.to_numpy(), model.predict_proba(X))


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    with pytest.raises(TypeError, match=r"^model: must be a fitted estimator.* found dict"):
        mlflow.save_model({}, tmp_path)
