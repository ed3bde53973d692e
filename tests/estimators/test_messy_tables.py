"""Messy tables: a model that can be read, shown and kept, or a clear error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.fuzz.faults import argument_of
from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival, load

RNG = np.random.default_rng(0)
N = 60
DAYS = pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 99, N), "D"))
X = pd.DataFrame(
    {
        "a": RNG.normal(size=N),
        "b": RNG.integers(0, 5, N),
        "c": RNG.choice(list("xyz"), N),
        "d": DAYS,
    }
)
Y = X["a"] + 0.5 * X["b"] + 0.3 * RNG.normal(size=N)
COUNTS = np.round(np.exp(Y / 2))
TIMES = np.round(np.exp(Y), 1) + 0.1
ODD = np.arange(N) % 2
GAPS = X.assign(d=DAYS.where(ODD == 1) + pd.to_timedelta(5000 * (np.arange(N) > 30), "D"))


def quantiles(**parameters: Any) -> Any:
    return TPNNRegressor(objective={"name": "quantile", "levels": [0.1, 0.5, 0.9]}, **parameters)


def of(objective: str) -> Callable[..., Any]:
    return lambda **parameters: TPNNRegressor(objective=objective, **parameters)


Fit = tuple[Callable[..., Any], Any, Any, dict[str, Any]]
FITTED: dict[str, Fit] = {
    "one time": (TPNNSurvival, X, np.c_[np.ones(N), ODD], {}),
    "one event": (TPNNSurvival, X, np.c_[TIMES, np.arange(N) == 3], {}),
    "lifetimes without weight": (TPNNSurvival, X, np.c_[TIMES, np.ones(N)], {"sample_weight": ODD}),
    "quantiles of an atom": (quantiles, X, np.where(np.arange(N) < 45, 0.0, Y), {}),
    "an outlier": (of("huber"), X, np.where(np.arange(N) == 3, 1e6, Y), {}),
    "counts without weight": (of("poisson"), X, COUNTS, {"sample_weight": ODD}),
    "one count": (of("poisson"), X, np.arange(N) == 7, {}),
    "amounts without weight": (of("gamma"), X, COUNTS + 1, {"sample_weight": ODD}),
    "constant target": (TPNNRegressor, X, np.full(N, 3.0), {}),
    "one weight": (TPNNRegressor, X, Y, {"sample_weight": np.arange(N) == 3}),
    "one member": (TPNNClassifier, X, np.arange(N) == 3, {}),
    "one level": (TPNNRegressor, X.assign(c="x", e=1.0), Y, {}),
    "one level alone": (TPNNClassifier, X[["c"]].assign(c="x"), ODD, {}),
    "missing columns": (TPNNRegressor, X.assign(e=np.nan, f=None), Y, {}),
    "missing values alone": (TPNNRegressor, pd.DataFrame({"e": [np.nan] * N}), Y, {}),
    "dates with gaps": (TPNNRegressor, GAPS, Y, {}),
}
REFUSED: dict[str, tuple[Fit, str]] = {
    "no event": ((TPNNSurvival, X, np.c_[TIMES, np.zeros(N)], {}), "y"),
    "events in words": ((TPNNSurvival, X, pd.DataFrame({"t": TIMES, "e": "died"}), {}), "y"),
    "no count": ((of("poisson"), X, np.zeros(N), {}), "y"),
    "no count of weight": ((of("poisson"), X, ODD, {"sample_weight": 1 - ODD}), "y"),
    "text": ((TPNNRegressor, X, ["good"] * N, {}), "y"),
    "one class": ((TPNNClassifier, X, ["good"] * N, {}), "y"),
    "one class of weight": ((TPNNClassifier, X, ODD, {"sample_weight": ODD}), "y"),
    "no weight": ((TPNNRegressor, X, Y, {"sample_weight": np.zeros(N)}), "sample_weight"),
    "names twice": ((TPNNRegressor, X.set_axis(list("abca"), axis=1), Y, {}), "X"),
    "one row": ((TPNNRegressor, X[:1], Y[:1], {}), "X"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:X. levels or missing values that fit has not seen")
@pytest.mark.parametrize("kind", FITTED)
def test_a_model_of_a_messy_table_lives_on(kind: str, tmp_path: Path) -> None:
    make, table, y, given = FITTED[kind]
    model = make(n_bags=2, random_state=0, verbose=0).fit(table, y, **given)
    answer = model.predict(table)
    assert np.isfinite(np.asarray(answer, float)).all()
    assert repr(model.summary())
    assert repr(model.explain(table[:2]))
    model.report(tmp_path / "page.html", table, y)
    model.model_.save(tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").predict(table), answer)


@pytest.mark.parametrize("kind", REFUSED)
def test_a_table_of_which_there_is_no_model_is_refused(kind: str) -> None:
    (make, table, y, given), argument = REFUSED[kind]
    with pytest.raises(ValueError, match=f"^{argument}: ") as caught:
        make(random_state=0, verbose=0).fit(table, y, **given)
    assert argument_of(caught.value) == argument
