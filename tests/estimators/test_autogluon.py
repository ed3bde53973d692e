"""AutoGluon: our estimators as one of its models, with the real library where it is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("autogluon.core")
pytestmark = pytest.mark.filterwarnings("ignore")

from tpnn.estimators.autogluon import OF_SOLVER, TPNNModel, estimator_for  # noqa: E402

QUICK: Any = {"n_bags": 2, "max_rounds": 30}


def rows(n_rows: int, seed: int) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.normal(size=n_rows), "b": rng.normal(size=n_rows)})
    X["town"] = pd.Categorical(rng.choice(["x", "y", "z"], n_rows))
    X.loc[rng.random(n_rows) < 0.1, "b"] = np.nan
    return X, X["a"] * X["b"].fillna(1.0) + (X["town"] == "x") + 0.1 * rng.normal(size=n_rows)


X, Y = rows(400, 0)
X_VAL, Y_VAL = rows(100, 1)


def target_of(problem: str, y: pd.Series) -> pd.Series:
    """Labels as AutoGluon passes them, which are numbers from zero."""
    cuts = {"binary": [0.5], "multiclass": [0.0, 1.0]}
    return pd.Series(np.digitize(y, cuts[problem]), index=y.index) if problem in cuts else y


def fitted(problem: str, folder: Path, **named: Any) -> TPNNModel:
    hyperparameters = {**QUICK, **named.pop("hyperparameters", {})}
    if problem == "quantile":
        hyperparameters["ag_args_fit"] = {"quantile_levels": [0.1, 0.5, 0.9]}
    model = TPNNModel(str(folder), "TPNN", problem, hyperparameters=hyperparameters)
    arguments: Any = {"X_val": X_VAL, "y_val": target_of(problem, Y_VAL)} | named
    return model.fit(X=X, y=target_of(problem, Y), num_cpus=1, num_gpus=0, **arguments)


@pytest.mark.parametrize("problem", ["regression", "binary", "multiclass", "quantile"])
def test_every_type_of_problem(problem: str, tmp_path: Path) -> None:
    model = fitted(problem, tmp_path)
    shape = {"multiclass": (100, 3), "quantile": (100, 3)}.get(problem, (100,))
    predicted = model.predict_proba(X_VAL)
    assert predicted.shape == shape
    assert np.isfinite(predicted).all()
    if problem != "quantile":
        assert model.score(X_VAL, target_of(problem, Y_VAL)) > (
            -1.0 if problem == "regression" else 0.7
        )
    problem_rows = model.model._fitted_.solved.problem.rows
    assert (problem_rows.training > 0).sum(0).tolist() == [400] * 2, "all rows of X train"


def test_levels_and_missing_values_arrive_as_they_are(tmp_path: Path) -> None:
    encoder = fitted("regression", tmp_path).model.model_.encoder
    named = dict(
        zip(encoder.feature_names, zip(encoder.features, encoder.axes[1], strict=True), strict=True)
    )
    assert named["town"][0].levels == ("x", "y", "z")
    assert named["b"][1].has_missing


def test_a_saved_model_predicts_the_same(tmp_path: Path) -> None:
    model = fitted("binary", tmp_path)
    found = TPNNModel.load(model.save())
    assert np.array_equal(found.predict_proba(X_VAL), model.predict_proba(X_VAL))
    assert found.explain(X_VAL[:3]).importance()


def test_weights_of_both_tables(tmp_path: Path) -> None:
    one = fitted("regression", tmp_path / "1", sample_weight=pd.Series(np.ones(400)))
    plain = fitted("regression", tmp_path / "2")
    assert np.array_equal(one.predict(X_VAL), plain.predict(X_VAL))
    half = np.r_[np.ones(200), np.zeros(200)]
    some = fitted("regression", tmp_path / "3", sample_weight=half, sample_weight_val=np.ones(100))
    assert not np.array_equal(some.predict(X_VAL), plain.predict(X_VAL))


def test_the_time_limit_and_the_seed_arrive(tmp_path: Path) -> None:
    model = fitted("regression", tmp_path, time_limit=30.0)
    assert 0 < model.model.time_limit < 30
    assert model.model.random_state == 0
    assert model.model.n_jobs == 1


def test_memory_and_search_space(tmp_path: Path) -> None:
    estimates = [
        TPNNModel.estimate_memory_usage_static(X=X, y=target_of(problem, Y), problem_type=problem)
        for problem in ("regression", "multiclass")
    ]
    assert 1e7 < estimates[0] < estimates[1] < 1e9
    searched = TPNNModel(str(tmp_path), "TPNN", "regression")._get_default_searchspace()
    assert len(searched) <= 8
    assert set(OF_SOLVER) < set(searched)
    defaults = {name: values.default for name, values in searched.items()}
    estimator_for("regression", defaults, None).fit(X[:60], Y[:60])
