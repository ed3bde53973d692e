"""Columns that deserve a second look are named once, and nothing else is named."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival

QUICK: dict[str, Any] = {
    "n_bags": 2, "order": 1, "random_state": 0, "bands": False, "verbose": 0
}  # fmt: skip
N_ROWS = 400


def rows() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=N_ROWS), "town": rng.choice(list("abc"), N_ROWS)})
    X["years"] = rng.integers(18, 90, N_ROWS)
    return X, X["a"].to_numpy() + rng.normal(size=N_ROWS)


def odd_rows() -> tuple[pd.DataFrame, np.ndarray]:
    X, y = rows()
    rng = np.random.default_rng(1)
    X["constant"] = 3.0
    X["gap"] = np.where(np.arange(N_ROWS) < 3, 1.0, np.nan)
    X["again"] = X["a"]
    X["near"] = X["a"] + 1e-9 * (np.arange(N_ROWS) == 7)
    X["city"] = X["town"]
    X["name"] = [f"n{number}" for number in range(N_ROWS)]
    X["row"] = rng.permutation(N_ROWS) + 1000
    X["leak"] = np.round(y, 1) + 0.01 * rng.normal(size=N_ROWS)
    return X, y


def said(estimator: Any, X: Any, y: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(X, y)
    return [str(warning.message) for warning in caught]


def test_nothing_is_said_of_a_plain_table() -> None:
    X, y = rows()
    assert said(TPNNRegressor(**QUICK), X, y) == []
    assert said(TPNNClassifier(**QUICK), X, y > 0) == []


def test_one_warning_names_them_all() -> None:
    X, y = odd_rows()
    model = TPNNRegressor(**QUICK)
    (message,) = said(model, X, y)
    notes = [event["note"] for event in model.history_ if event["stage"] == "table"]
    expected = [
        "'constant' has one value",
        "'gap' is missing in 99.2 % of the rows",
        "'name' looks like an identifier, with 400 levels in 400 rows (levels of a single row "
        "share one effect, and it has no interactions unless they are listed)",
        "'row' looks like the number of a row",
        "'again' is a copy of 'a'",
        "'city' is a copy of 'town'",
    ]
    assert notes[:-1] == expected
    assert notes[-1].startswith("'leak' alone explains 99.")
    assert message.startswith("X: look at these columns again: ")
    assert "; ".join(notes) in message
    assert model._fit_facts().quality == notes
    page = model.report()._repr_html_()
    assert "&#x27;again&#x27; is a copy of" in page or "'again' is a copy of 'a'" in page


@pytest.mark.parametrize(("share", "is_named"), [(0.998, True), (0.97, False)])
def test_a_leak_is_a_column_that_explains_99_percent(share: float, is_named: bool) -> None:
    """The target is a bent function of one column plus as much noise as leaves this share."""
    X, _ = rows()
    signal = X["a"] + np.sin(X["a"])
    noise = np.random.default_rng(2).normal(size=N_ROWS)
    y = signal + noise * signal.std() * np.sqrt((1 - share) / share)
    messages = said(TPNNRegressor(**QUICK), X, y)
    assert [len(messages), "'a' alone explains 99." in "".join(messages)] == [is_named, is_named]


def test_a_class_that_a_column_tells_is_a_leak() -> None:
    X, y = rows()
    X["seen"] = np.where(y > 0, "paid", "open")
    (message,) = said(TPNNClassifier(**QUICK), X, y > 0)
    assert "'seen' alone explains 99." in message


def test_one_value_is_one_distinct_value() -> None:
    """Five rare levels share a node, and a constant hour has the nodes of its period's ends."""
    X, y = rows()
    X["rare"] = np.resize(list("vwxyz"), N_ROWS)
    X["hour"] = 7.0
    settings = {"features": "auto", "min_rows": 200}
    model = TPNNRegressor(**QUICK, periodic={"hour": 24}, categorical=settings)
    (message,) = said(model, X, y)
    assert "'hour' has one value. They" in message
    assert "'rare'" not in message


def test_survival_has_no_leaks_but_constants() -> None:
    X, y = rows()
    X["constant"] = "x"
    target = pd.DataFrame({"time": np.exp(y), "event": np.ones(N_ROWS)})
    (message,) = said(TPNNSurvival(**QUICK), X, target)
    assert message.startswith("X: look at these columns again: 'constant' has one value. They")


@pytest.mark.parametrize("kind", ["numbers", "polars"])
def test_other_tables(kind: str) -> None:
    X, y = rows()
    doubled = X[["a", "years"]].assign(b=X["a"])
    table: Any = doubled.to_numpy()
    if kind == "polars":
        table = pytest.importorskip("polars").from_pandas(doubled)
    (message,) = said(TPNNRegressor(**QUICK), table, y)
    assert ("'x2' is a copy of 'x0'" if kind == "numbers" else "'b' is a copy of 'a'") in message
