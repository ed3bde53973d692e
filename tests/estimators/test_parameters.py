"""Parameters: each has a rule, and solvers have their own."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from tests.conftest import BY_SOLVER, QUICK, with_solver
from tpnn import Grow, TPNNClassifier, TPNNRegressor, TPNNSurvival
from tpnn.estimators.parameters import RULES, rules_of

ESTIMATORS = [TPNNRegressor, TPNNClassifier, TPNNSurvival]
MOST_PARAMETERS = 21

X = np.random.default_rng(0).normal(size=(30, 3))
Y = X[:, 0] + X[:, 1] * X[:, 2]

BAD_PARAMETERS: dict[str, list[Any]] = {
    "order": [0, 1.5, "two", True],
    "interactions": [
        "some", 0, True, [0, 1], {"count": 0}, {"method": "guess"}, {"top": 3}, {"required": 3},
        {"required": [0, 1]}, {"forbidden": "x0"}, {"forbidden": [0]}, {"groups": None},
        {"groups": ["x0"]}, {"heredity": 1},
    ],
    "components": [[], [()], "x0", ["x0"], 3],
    "max_components": [0, 1.5],
    "selection": ["some", None],
    "objective": ["least squares", {"name": "quantile", "levels": [0.9, 0.1]}, {"name": "huber"}],
    "shapes": ["increasing", {"x0": "up"}, {"x0": ("periodic", 0)}, {"x0": ("round", 24)}],
    "categorical": ["x0", 3, {"min_rows": 0}, {"min_rows": 1.5}, {"rare": 3}, {"features": 3}],
    "offset": [-1, 1.5, True, ["x0"], [0.1, 0.2]],
    "exposure": [-1, 1.5, True, ["x0"]],
    "solver": ["adam", Grow, None],
    "n_bags": [0, 2.0],
    "max_nodes": [1, 70000, {1: 1}, {"2": 8}],
    "validation_fraction": [0.0, 1.0],
    "bands": [1, "simultaneous"],
    "remainder": ["some", 1, None],
    "device": ["tpu", 0],
    "n_jobs": [0, 1.5, True],
    "time_limit": [0, -3],
    "random_state": [-1, "seed", 2**32],
    "verbose": [3, "yes"],
}  # fmt: skip
BAD_SOLVER_PARAMETERS: dict[str, dict[str, list[Any]]] = {
    "grow": {
        "growth": ["zero", True],
        "l2": [-1e-3, "some"],
        "max_rounds": [-1, 1.5],
        "patience": [0],
    },
    "descent": {
        "n_bases": [0, "many", {2: 0}, np.array([1, 2])],
        "shared_bases": [1],
        "activation": ["tanh"],
        "scale": ["big"],
        "learning_rate": [0, -1.0, float("inf")],
        "l2": [-1e-3, "auto"],
        "max_steps": [0],
        "patience": [0],
    },
}


def sentence(name: str, owner: str = "") -> str:
    return rf"^{name}: must be .*, found .*\. Pass for example {owner}{name}="


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in BAD_PARAMETERS.items() for value in values],
)
def test_bad_parameter(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=sentence(name)):
        TPNNRegressor(**{**QUICK, name: value}).fit(X, Y)


@pytest.mark.parametrize(
    ("solver", "name", "value"),
    [
        (solver, name, value)
        for solver, parameters in BAD_SOLVER_PARAMETERS.items()
        for name, values in parameters.items()
        for value in values
    ],
)
def test_bad_parameter_of_a_solver(solver: str, name: str, value: Any) -> None:
    owner = rf"solver={type(BY_SOLVER[solver]['solver']).__name__}\("
    with pytest.raises(ValueError, match=sentence(name, owner)):
        TPNNRegressor(**with_solver(BY_SOLVER[solver], **{name: value})).fit(X, Y)


def test_every_parameter_is_checked() -> None:
    assert set(BAD_PARAMETERS) == set(TPNNRegressor().get_params())
    for name, settings in BY_SOLVER.items():
        assert set(BAD_SOLVER_PARAMETERS[name]) == set(settings["solver"].get_params())
    every = {name for kind in ESTIMATORS for name in kind().get_params()}
    assert every == set(RULES)


@pytest.mark.parametrize("rule", RULES.items(), ids=list(RULES))
def test_the_example_of_a_rule_satisfies_it(rule: Any) -> None:
    _, (_, holds, example) = rule
    assert holds(example)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_parameters_are_few(kind: Any) -> None:
    assert len(kind().get_params()) <= MOST_PARAMETERS


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_defaults_satisfy_their_rules(kind: Any) -> None:
    rules = rules_of(kind)
    assert all(rules[name].holds(value) for name, value in kind().get_params().items())


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_monotone_is_called_shapes(kind: Any) -> None:
    with pytest.raises(TypeError, match=r"^monotone: is called shapes. Pass shapes={'x0': 'up'}"):
        kind(monotone={"x0": "up"})


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_an_unknown_parameter_is_refused(kind: Any) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'depth'"):
        kind(depth=3)
    with pytest.raises(ValueError, match=r"Invalid parameter 'depth'.* Valid parameters are"):
        kind().set_params(depth=3)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_estimators_share_their_parameters(kind: Any) -> None:
    """The docs describe most of them once: same names, same defaults."""
    own = {"objective", "exposure", "class_weight"}
    shared = {name: value for name, value in kind().get_params().items() if name not in own}
    expected = {n: v for n, v in TPNNRegressor().get_params().items() if n not in own}
    assert shared == expected
    assert set(signature(kind).parameters) == set(kind().get_params())  # and no **unknown


@pytest.mark.parametrize("settings", BY_SOLVER.values(), ids=list(BY_SOLVER))
def test_parameters_reach_inside_a_solver(settings: dict[str, Any]) -> None:
    model = clone(TPNNRegressor(**settings))
    deep = model.get_params()
    assert {f"solver__{name}" for name in model.solver.get_params()} <= set(deep)
    assert not any(name.startswith("solver__") for name in model.get_params(deep=False))
    model.set_params(solver__l2=0.25)
    assert model.solver.l2 == model.get_params()["solver__l2"] == 0.25
    copy = clone(model)
    assert copy.solver is not model.solver
    copy.set_params(solver__l2=0.5)
    assert model.solver.l2 == 0.25
    assert settings["solver"].l2 != 0.25


def test_a_solver_and_its_parameters_can_be_set_at_once() -> None:
    model = TPNNRegressor().set_params(solver=Grow(), solver__l2=0.1)
    assert model.solver.l2 == 0.1


@pytest.mark.parametrize("solver", ["auto", "grow", "gradient"])
def test_the_name_of_a_solver_has_no_parameters(solver: str) -> None:
    with pytest.raises(
        ValueError, match=r"^solver: must be a solver object to have parameters, found"
    ):
        TPNNRegressor(solver=solver).set_params(solver__l2=0.1)


def test_an_unknown_parameter_of_a_solver_is_refused() -> None:
    with pytest.raises(ValueError, match="learning_rate"):
        TPNNRegressor(solver=Grow()).set_params(solver__learning_rate=0.1)


def test_a_search_reaches_inside_a_solver(table: Any, settings: dict[str, Any]) -> None:
    rows, y = table
    grid = {"solver__l2": [1e-4, 100.0], "order": [1]}
    search = GridSearchCV(TPNNRegressor(**settings), grid, cv=2).fit(rows, y)
    assert search.best_params_["solver__l2"] == 1e-4
    assert search.best_estimator_.solver.l2 == 1e-4
    weak_ridge, strong_ridge = search.cv_results_["mean_test_score"]
    assert weak_ridge > strong_ridge
