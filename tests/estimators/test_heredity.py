"""With heredity every model of a path has the subsets of its components, for both solvers."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from tests.conftest import QUICK, QUICK_DESCENT
from tpnn import TPNNRegressor


@pytest.mark.parametrize("settings", [QUICK, QUICK_DESCENT], ids=["grow", "descent"])
@pytest.mark.parametrize("rules", [{"count": 1}, {"required": [(0, 1, 2)]}, {}])
def test_subsets_are_there(settings: dict[str, Any], rules: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 4))
    y = X[:, 0] * X[:, 1] * X[:, 2] * 4 + X[:, 3] + 0.05 * rng.normal(size=600)
    model = TPNNRegressor(**settings, order=3, interactions={**rules, "heredity": True}).fit(X, y)
    assert any(len(component) == 3 for component in model.components_)
    for step in model.path().steps:
        kept = set(model.path().model(step.n_components).component_names)
        assert all(
            subset in kept
            for component in kept
            for size in range(1, len(component))
            for subset in combinations(component, size)
        )
