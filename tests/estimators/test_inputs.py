"""Settings: an estimator's parameters as the pipeline reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tpnn import Descent, Grow, TPNNClassifier, TPNNRegressor, TPNNSurvival
from tpnn.estimators.inputs import Settings, solver_of


@pytest.mark.parametrize(
    ("given", "device", "expected"),
    [
        ("auto", "auto", Grow),
        ("auto", "cpu", Grow),
        ("auto", "cuda", Grow),
        ("grow", "auto", Grow),
        ("gradient", "auto", Descent),
        ("gradient", "cuda", Descent),
        (Descent(n_bases=3), "cpu", Descent),
    ],
)
def test_names_of_solvers(given: Any, device: str, expected: type) -> None:
    solver = solver_of(given, device)
    assert type(solver) is expected
    assert isinstance(given, str) or solver is given


@pytest.mark.parametrize("kind", [TPNNRegressor, TPNNClassifier, TPNNSurvival])
def test_parameters_are_read(kind: Any) -> None:
    model = kind(
        order=3, interactions={"count": 7, "required": [("a", "b")]}, shapes={"a": "increasing"},
        categorical=["b"], n_bags=5, n_jobs=-1, random_state=9,
    )  # fmt: skip
    settings = Settings.of(model.get_params(deep=False))
    assert (settings.order, settings.n_bags, settings.n_jobs, settings.seed) == (3, 5, -1, 9)
    assert settings.interactions.count == 7
    assert settings.interactions.required == [("a", "b")]
    assert settings.shapes == {"a": "increasing"}
    assert settings.nominal == ["b"]


def test_nothing_asked_for() -> None:
    settings = Settings.of(TPNNRegressor().get_params(deep=False))
    assert settings.shapes == {}
    assert settings.nominal == ()
    assert settings.interactions.are_searched


def test_seeds() -> None:
    def seed(state: Any) -> int:
        return Settings.of(TPNNRegressor(random_state=state).get_params(deep=False)).seed

    assert seed(7) == seed(np.int64(7)) == 7
    assert seed(None) != seed(None)
    for make in (np.random.RandomState, np.random.default_rng):
        generator = make(3)
        first, second = seed(generator), seed(generator)
        assert first != second
        assert first == seed(make(3))
        assert 0 <= first < 2**32
