"""Docstrings of the estimators list every parameter, as the constructor does."""

from __future__ import annotations

import pydoc
import re
from inspect import signature
from typing import Any

import pytest

from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival
from tpnn.lifecycle.distill import DistilledModel

ESTIMATORS = [TPNNRegressor, TPNNClassifier, TPNNSurvival, DistilledModel]


def section(estimator: Any, title: str) -> dict[str, str]:
    """Entries of one section of a docstring."""
    text = estimator.__doc__.split(f"{title}\n{'-' * len(title)}\n")[1]
    listed = re.findall(r"^\w+ : .*(?:\n    .*)*", text.split("\n\n")[0], re.MULTILINE)
    return {entry.split(" : ")[0]: entry for entry in listed}


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_parameters_are_those_of_the_constructor(estimator: Any) -> None:
    listed = list(section(estimator, "Parameters"))
    assert listed == list(signature(estimator).parameters)
    assert set(listed) == set(estimator().get_params(deep=False))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_defaults_are_those_of_the_constructor(estimator: Any) -> None:
    for name, value in estimator().get_params(deep=False).items():
        first = section(estimator, "Parameters")[name].splitlines()[0]
        quoted = f'"{value}"' if isinstance(value, str) else str(value)
        assert first.endswith(", optional" if value is None else f", default={quoted}") or (
            name == "random_state" and first.endswith("default=None")
        )


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_attributes_are_listed_and_help_shows_them(estimator: Any) -> None:
    assert {"model_", "components_", "intercept_", "history_"} <= set(
        section(estimator, "Attributes")
    )
    shown = pydoc.render_doc(estimator)
    assert "max_components : int, optional" in shown
    assert shown.count("Attributes\n") == shown.count("Parameters\n |  ---") == 1


def test_each_estimator_has_its_own_beside_the_shared_ones() -> None:
    assert "objective" in section(TPNNRegressor, "Parameters")
    assert "class_weight" in section(TPNNClassifier, "Parameters")
    assert "fine_gray" in section(TPNNSurvival, "Parameters")["objective"]
    assert "fine_gray" not in section(TPNNRegressor, "Parameters")["objective"]
    assert "classes_" in section(TPNNClassifier, "Attributes")
    assert "event_times_" in section(TPNNSurvival, "Attributes")
