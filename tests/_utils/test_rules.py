"""Warnings point at the line that called the package, whichever method was called."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score

from tpnn import Grow, TPNNClassifier, TPNNRegressor, TPNNSurvival, load
from tpnn._utils.rules import warn

QUICK: dict[str, Any] = {
    "order": 1, "n_bags": 2, "solver": Grow(max_rounds=3), "random_state": 0, "verbose": 0
}  # fmt: skip
X = pd.DataFrame({"level": list("ab") * 20, "number": np.arange(40.0)})
UNSEEN = X.assign(level="c")
Y = np.arange(40) % 4 + np.arange(40) / 9
OURS = ("X: ", "y: ", "offset: ")
TIMES = np.column_stack([Y + 1, np.ones(40)])


@pytest.fixture(scope="module")
def regressor() -> Any:
    return TPNNRegressor(**QUICK).fit(X, Y)


@pytest.fixture(scope="module")
def classifier() -> Any:
    return TPNNClassifier(**QUICK).fit(X, Y > 2)


@pytest.fixture(scope="module")
def survival() -> Any:
    return TPNNSurvival(**QUICK).fit(X, TIMES)


CALLS: dict[str, Callable[[Any], Any]] = {
    "predict": lambda model: model.predict(UNSEEN),
    "predict with errors": lambda model: model.predict(UNSEEN, return_std=True),
    "predict_interval": lambda model: model.predict_interval(UNSEEN, 0.8),
    "score": lambda model: model.score(UNSEEN, Y),
    "explain": lambda model: model.explain(UNSEEN).scores,
    "transform": lambda model: model.transform(UNSEEN),
    "shap_values": lambda model: model.shap_values(UNSEEN),
    "predict of the frozen model": lambda model: model.model_.predict(UNSEEN),
    "raw_scores": lambda model: model.model_.raw_scores(UNSEEN),
    "component_scores": lambda model: model.model_.component_scores(UNSEEN),
}


def only_file(call: Callable[[Any], Any], model: Any) -> str:
    """File that all of our warnings of a call point at; there must be at least one."""
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        call(model)
    ours = [warning for warning in record if str(warning.message).startswith(OURS)]
    (file,) = {warning.filename for warning in ours}
    return file


@pytest.mark.parametrize("name", CALLS)
def test_warnings_of_a_regressor(name: str, regressor: Any) -> None:
    assert only_file(CALLS[name], regressor) == __file__


def test_warnings_of_a_loaded_model(regressor: Any, tmp_path: Path) -> None:
    regressor.model_.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert only_file(lambda model: model.predict(UNSEEN, return_std=True), loaded) == __file__


def test_warnings_of_a_classifier(classifier: Any) -> None:
    assert only_file(lambda model: model.predict(UNSEEN), classifier) == __file__
    assert only_file(lambda model: model.predict_proba(UNSEEN), classifier) == __file__
    assert only_file(lambda model: model.decision_function(UNSEEN), classifier) == __file__
    assert only_file(lambda model: model.predict_interval(UNSEEN, 0.8), classifier) == __file__


def test_warnings_of_survival(survival: Any) -> None:
    assert only_file(lambda model: model.predict(UNSEEN), survival) == __file__
    assert only_file(lambda model: model.predict_survival(UNSEEN, [1.0]), survival) == __file__
    assert only_file(lambda model: model.score(X, Y + 1), survival) == __file__  # times alone


def test_warnings_of_offsets() -> None:
    model = TPNNRegressor(**QUICK).fit(X, Y, offset=np.ones(40))
    assert only_file(lambda model: model.predict(X), model) == __file__
    assert only_file(lambda model: model.predict(X, return_std=True), model) == __file__
    assert only_file(lambda model: model.model_.to_sql("postgres"), model) == __file__


def test_scikit_learn_between_the_caller_and_the_package_is_passed_over(regressor: Any) -> None:
    halves = X.assign(level=np.repeat([["a", "b"], ["c", "d"]], 10, axis=0).ravel())
    assert only_file(lambda model: cross_val_score(model, halves, Y, cv=2), regressor) == __file__


def test_a_warning_of_a_module_itself() -> None:
    with pytest.warns(UserWarning, match="said") as record:
        warn("said")
    assert record[0].filename == __file__
