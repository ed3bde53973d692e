"""Selection: the path from sparse to full, and how many components are kept."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tpnn import TPNNRegressor

QUIET: dict[str, Any] = {"n_bags": 2, "random_state": 0, "verbose": 0}


def test_path_leads_from_sparse_to_full(table: Any) -> None:
    X, y = table
    model = TPNNRegressor(**QUIET).fit(X, y)
    path = model.path()
    assert [step.n_components for step in path.steps] == list(range(1, 11))
    assert {step.added for step in path.steps} == set(model.components_)
    np.testing.assert_array_equal(path.model(10).predict(X), model.predict(X))
    errors = [np.mean((path.model(k).predict(X) - y) ** 2) for k in (1, 5, 10)]
    assert errors == sorted(errors, reverse=True)
    sparse = path.one_standard_error()
    lowest = min(step.loss for step in path.steps)
    assert sparse.loss <= lowest + sparse.standard_error
    assert path.model(3).identifiability_error() < 1e-6
    with pytest.raises(ValueError, match=r"^n_components: must be a whole number from 1 to 10"):
        path.model(0)


def test_one_standard_error_and_budget(table: Any) -> None:
    X, y = table
    full = TPNNRegressor(**QUIET).fit(X, y)
    sparse = TPNNRegressor(selection="one_se", **QUIET).fit(X, y)
    assert len(sparse.components_) == full.path().one_standard_error().n_components
    few = TPNNRegressor(max_components=2, selection="none", **QUIET).fit(X, y)
    assert len(few.components_) <= 2


def test_selection_drops_noise_and_keeps_signal() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2000, 6))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=2000)
    model = TPNNRegressor(selection="noise", **QUIET).fit(X, y)
    assert {("x0",), ("x1", "x2")} <= set(model.components_)
    assert len(model.components_) <= 5
    inherited = TPNNRegressor(selection="noise", heredity=True, **QUIET).fit(X, y)
    assert {("x1",), ("x2",), ("x1", "x2")} <= set(inherited.components_)


@pytest.mark.parametrize("selection", ["none", "noise", "one_se"])
def test_a_required_pair_is_in_the_smallest_model(selection: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    model = TPNNRegressor(
        interactions={"required": [(2, 3)]}, max_components=2, selection=selection, **QUIET
    ).fit(X, X[:, 0] + X[:, 1])
    assert len(model.components_) <= 2
    assert ("x2", "x3") in model.components_


def closed(components: list[tuple[str, ...]]) -> bool:
    """Whether all subsets of some components are among them."""
    subsets = (u for s in components for d in range(1, len(s)) for u in combinations(s, d))
    return set(subsets) <= set(components)


@pytest.mark.slow
def test_heredity_holds_for_every_model_of_the_path() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(1500, 5)), columns=list("abcde"))
    y = X.a * X.b + 0.7 * X.c * X.d + 0.3 * X.e + 0.1 * rng.normal(size=1500)
    settings = {**QUIET, "heredity": True}
    path = TPNNRegressor(**settings).fit(X, y).path()
    added = [step.added for step in path.steps]
    assert all(closed(added[:count]) for count in range(1, len(added) + 1))
    sparse = TPNNRegressor(**settings, selection="one_se").fit(X, y).components_
    assert {("a", "b"), ("c", "d")} <= set(sparse)
    assert closed(sparse)
    few = TPNNRegressor(**settings, max_components=3, interactions={"required": [("b", "e")]})
    assert few.fit(X, y).components_ == [("b",), ("e",), ("b", "e")]
    with pytest.raises(ValueError, match=r"^max_components: required interactions count too"):
        few.set_params(max_components=2).fit(X, y)
