"""Explanation: the public class, of fitted and of loaded models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot

from tests.models import random_model
from tpnn import Explanation, TPNNRegressor, load


def test_a_loaded_model_explains_any_table(table: Any, quick: Any, tmp_path: Path) -> None:
    X, y = table
    model = TPNNRegressor(**quick).fit(X, y)
    model.model_.save(tmp_path / "model")
    loaded = load(tmp_path / "model").model_
    expected = model.explain(X)
    for rows in (X, X[X.columns[::-1]], X.to_numpy(), X.to_numpy().tolist()):
        local = Explanation(loaded, rows)
        assert np.array_equal(local.shap_values().values, expected.shap_values().values)
        assert local.reasons() == expected.reasons()
        assert np.array_equal(local.component("atom").density, expected.component("atom").density)


def test_representation_is_short() -> None:
    model = random_model(4, 2)
    words = "AnovaModel(10 components of 4 features, order 2, identity link)"
    assert repr(model) == words
    assert repr(Explanation(model)) == f"Explanation({words})"
    assert repr(Explanation(model, np.zeros((7, 4)))) == f"Explanation({words}, 7 rows)"


def test_plot_draws_one_component_or_the_importance_of_all() -> None:
    explanation = Explanation(random_model(3, 2))
    assert explanation.plot("x1").get_xlabel() == "x1"
    assert explanation.plot((0, 2)).get_ylabel() == "x2"
    assert len(explanation.plot().patches) == 6
    ax = pyplot.subplots()[1]
    assert explanation.plot("x0", ax=ax) is ax
    assert explanation.plot(ax=ax) is ax
    pyplot.close("all")


def test_what_of_returns_can_be_drawn() -> None:
    model = random_model(3, 2, n_outputs=2)
    one = Explanation(model).of("output 1")
    assert type(one) is Explanation
    assert one.plot("x1").get_xlabel() == "x1"
    pyplot.close("all")


def test_an_explanation_cannot_be_changed() -> None:
    explanation = Explanation(random_model(2, 1))
    with pytest.raises(AttributeError):
        explanation.model = random_model(2, 2)  # type: ignore[misc]
