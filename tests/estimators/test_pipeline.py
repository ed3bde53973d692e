"""The pipeline: what a fit leaves behind, what its probes use, what it says, when it stops."""

from __future__ import annotations

import json
import time
from dataclasses import fields
from itertools import combinations, count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from tests.conftest import QUICK, told, with_solver
from tpnn import Grow, TPNNClassifier, TPNNRegressor, TPNNSurvival
from tpnn.estimators.inputs import Settings, limits_from_now
from tpnn.estimators.pipeline import nodes_by_order
from tpnn.solvers.solution import Event

N_WIDE = 110  # features: too many to include all main effects and pairs


def wide(n_rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n_rows, N_WIDE))
    return X, 2 * X[:, 0] + 3 * X[:, 2] * X[:, 3] + 0.1 * rng.normal(size=n_rows)


# What a failed fit leaves behind


def fail(*arguments: Any, **named: Any) -> Any:
    raise RuntimeError("the disk is on fire")


FAILURES: dict[str, tuple[dict[str, Any], Any]] = {
    "a parameter": ({"order": 0}, None),
    "the targets": ({}, np.full(400, np.nan)),
    "the solver": ({}, None),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("kind", [TPNNRegressor, TPNNClassifier, TPNNSurvival])
def test_a_failed_refit_leaves_the_old_fit(
    kind: Any, failure: str, table: Any, labels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = table
    events = np.column_stack([np.exp(y), np.ones(len(y))])
    target = {TPNNRegressor: y, TPNNClassifier: labels, TPNNSurvival: events}[kind]
    model = clone(kind(**QUICK)).fit(X, target)
    path, predicted = model.path(), model.predict(X)
    old = {name: value for name, value in vars(model).items() if name.endswith("_")}
    parameters, bad_target = FAILURES[failure]
    if failure == "the solver":
        monkeypatch.setattr(Grow, "_solve_lower", fail)
    with pytest.raises((RuntimeError, ValueError)):
        model.set_params(**parameters).fit(X, target if bad_target is None else bad_target)
    assert {name: vars(model)[name] for name in vars(model) if name.endswith("_")} == old
    assert model.path() is path
    assert np.array_equal(model.predict(X), predicted)


def test_an_interrupt_at_the_end_of_a_fit_leaves_the_old_fit(
    table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The baseline is the last thing that a survival model gets."""
    X, y = table
    events = np.column_stack([np.exp(y), np.ones(len(y))])
    model = TPNNSurvival(**QUICK).fit(X, events)
    old = model.model_
    monkeypatch.setattr("tpnn.estimators.survival.breslow", fail)
    with pytest.raises(RuntimeError):
        model.fit(X, events[::-1])
    assert model.model_ is old
    assert old.evidence.baseline is not None


def test_a_refit_keeps_what_was_set_beside_the_parameters(table: Any) -> None:
    X, y = table
    model = TPNNRegressor(**QUICK).set_output(transform="pandas").fit(X, y)
    assert list(model.fit(X, y).transform(X).columns[:4]) == list(X.columns)


def test_names_of_an_earlier_table_are_forgotten(table: Any) -> None:
    X, y = table
    model = TPNNRegressor(**QUICK).fit(X, y)
    assert model.feature_names_in_.tolist() == list(X.columns)
    assert not hasattr(model.fit(X.to_numpy(), y), "feature_names_in_")


# Shapes


@pytest.mark.parametrize("order", [2, 3])
def test_every_model_of_the_path_has_its_shapes(
    table: Any, settings: dict[str, Any], order: int
) -> None:
    X, y = table
    shapes = {"smooth": "increasing", "skewed": "decreasing"}
    asked = {"order": order, "interactions": "all", "shapes": shapes}
    model = TPNNRegressor(**settings, **asked).fit(X, y)
    path = model.path()
    free = TPNNRegressor(**settings, **{**asked, "shapes": None}).fit(X, y)
    broken = [free.model_.certificate(name, shape).minimum for name, shape in shapes.items()]
    assert min(broken) < 0
    assert len(path.steps) >= 8
    for step in path.steps:
        sparse = path.model(step.n_components)
        for name, shape in shapes.items():
            assert sparse.certificate(name, shape).minimum >= 0
        assert sparse.identifiability_error() < 1e-6
    chosen = path.model(path.chosen)
    assert np.array_equal(chosen.predict(X), model.predict(X))


# Threads


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_number_of_threads_changes_no_bit(
    table: Any, settings: dict[str, Any], order: int
) -> None:
    X, y = table
    asked = {"order": order, "interactions": "all", "n_bags": 3}
    one, two, every = (
        TPNNRegressor(**{**settings, **asked}, n_jobs=n_jobs).fit(X, y).model_
        for n_jobs in (1, 2, None)
    )
    for other in (two, every):
        assert np.array_equal(one.intercepts, other.intercepts)
        assert all(map(np.array_equal, one.tables, other.tables))
        assert all(map(np.array_equal, one.evidence.spreads, other.evidence.spreads))


def test_a_search_gives_the_same_bits_on_any_number_of_threads() -> None:
    X, y = wide()
    one, two = (TPNNRegressor(**QUICK, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2))
    assert one.components_ == two.components_
    assert np.array_equal(one.predict(X), two.predict(X))


# History

KEYS = [field.name for field in fields(Event)]
STAGES = {"search", "grow", "descent", "mix", "time"}


@pytest.mark.parametrize("interactions", ["auto", "all", 2, [(0, 1, 3)]], ids=str)
def test_every_record_of_the_history_has_the_same_keys(
    table: Any, settings: dict[str, Any], interactions: Any
) -> None:
    X, y = table
    asked = {"order": 3, "interactions": interactions}
    history = TPNNRegressor(**settings, **asked).fit(X, y).history_
    assert [list(record) for record in history] == [KEYS] * len(history)
    stages = {record["stage"] for record in history}
    assert stages <= STAGES
    assert ("search" in stages) == (interactions in ("auto", 2))
    assert stages & {"grow", "descent"}
    assert json.loads(json.dumps(history)) == history  # plain numbers and words
    if "grow" in stages and interactions not in ("auto", 2):
        assert {record["note"] for record in history} >= {"from 0", "from the smooth start"}


def test_the_history_of_higher_orders_follows_that_of_the_lower(table: Any) -> None:
    X, y = table
    model = TPNNRegressor(**QUICK, order=3, interactions=[(0, 1, 3)]).fit(X, y)
    notes = [record["note"] for record in told(model)]
    assert notes == ["from 0", "from the smooth start", "mixed"] * 2 + ["triples"] * 2
    assert [record["n_components"] for record in told(model)] == [4] * 6 + [8] * 2
    lower, higher = told(model)[:6], told(model)[6:]
    for record in higher:  # growth goes on from the mixture, which is no worse than the worst start
        starts = [r["validation_loss"] for r in lower if r["bag"] == record["bag"]]
        assert record["validation_loss"] <= max(starts)


# Time


def test_a_time_limit_ends_a_fit_with_a_model(
    table: Any, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that moves one second at every look."""
    X, y = table
    name = "max_rounds" if isinstance(settings["solver"], Grow) else "max_steps"
    endless = with_solver(settings, patience=10**9, **{name: 10**9})
    ticks = count()
    monkeypatch.setattr(time, "monotonic", lambda: float(next(ticks)))
    limit = 200
    model = TPNNRegressor(**endless, time_limit=limit).fit(X, y)
    assert next(ticks) < 20 * limit  # what is under way is finished
    assert len(model.history_) <= limit
    assert max(record["step"] or 0 for record in model.history_) <= 10 * limit
    assert any("time limit" in record["note"] for record in model.history_)
    assert model.score(X, y) > 0.3
    assert model.model_.identifiability_error() < 1e-6


def test_no_time_at_all_still_gives_a_model(table: Any, settings: dict[str, Any]) -> None:
    X, y = table
    model = TPNNRegressor(**settings, order=3, time_limit=1e-6).fit(X, y)
    assert all(record["step"] in (0, None) for record in model.history_)
    assert np.isfinite(model.predict(X)).all()


def test_a_time_limit_says_what_it_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that moves one second at every look: bags, training and selection are cut."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 6))
    ticks = count()
    monkeypatch.setattr(time, "monotonic", lambda: float(next(ticks)))
    model = TPNNRegressor(interactions="all", order=3, n_bags=4, time_limit=30, random_state=0)
    model.set_params(selection="one_se").fit(X, X[:, 0] * X[:, 1])
    assert next(ticks) < 200  # without a limit it looks at the clock thousands of times
    notes = [record["note"] for record in told(model)]
    assert "the time limit affords 1 of 4 bags" in notes
    assert "from 0, until the time limit" in notes
    assert "triples, until the time limit" in notes
    assert notes[-1] == "the time limit ended the selection: 40 of 41 models not scored"
    assert len(model.components_) == 21  # the triples had no time: they are zero
    assert model.model_.identifiability_error() < 1e-6


def test_no_time_for_a_refit_is_said(table: Any) -> None:
    X, y = table
    model = TPNNRegressor(**QUICK, order=2, max_components=2, time_limit=1e-6).fit(X, y)
    assert len(model.components_) == 2
    notes = [record["note"] for record in model.history_]
    assert "the time limit left no time for a refit" in notes
    assert "the time limit left no time for bands" in notes
    refitted = model.path().model(2)  # takes its time
    assert np.mean((refitted.predict(X) - y) ** 2) < np.mean((model.predict(X) - y) ** 2)


def settings_of(**parameters: Any) -> Settings:
    return Settings.of(TPNNRegressor(**parameters).get_params(deep=False))


def test_the_clock_starts_with_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    limits = limits_from_now(settings_of(time_limit=20, n_jobs=3, device="cpu"))
    assert (limits.deadline, limits.n_threads, limits.device) == (120.0, 3, "cpu")
    assert not limits.are_reached()
    assert limits_from_now(settings_of()).deadline == float("inf")


# Nodes


@pytest.mark.parametrize(
    ("max_nodes", "expected"),
    [
        (256, {1: 256, 2: 128, 3: 24, 4: 12, 5: 6}),
        (16, {1: 16, 2: 16, 3: 16, 4: 12, 5: 6}),
        ({1: 50}, {1: 50, 2: 50, 3: 24, 4: 12, 5: 6}),
        ({2: 200}, {1: 65535, 2: 200, 3: 24, 4: 12, 5: 6}),
        ({1: 8, 3: 60}, {1: 8, 2: 8, 3: 8, 4: 8, 5: 6}),
    ],
)
def test_nodes_by_order(max_nodes: Any, expected: dict[int, int]) -> None:
    """Never finer than a lower order; few features afford finer pairs."""
    settings = settings_of(order=5, max_nodes=max_nodes)
    assert nodes_by_order(5, settings) == expected
    assert nodes_by_order(2, settings) == {order: expected[order] for order in (1, 2)}
    if max_nodes == 256:
        assert nodes_by_order(13, settings) == {**expected, 2: 64}


def test_memory_counts_what_a_fit_may_need(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table
    needed = 40.0 * 2 * (4 * 32 + 6 * 12 * 12)
    monkeypatch.setattr("tpnn.estimators.pipeline.available_memory", lambda: 0.99 * needed)
    with pytest.raises(MemoryError, match=r"^interactions: the components of 4 features up to"):
        TPNNRegressor(**{**QUICK, "max_nodes": {1: 32, 2: 12}}).fit(X.assign(level=X.smooth**3), y)
    TPNNRegressor(**{**QUICK, "n_bags": 1}).fit(X, y)


# Bands


@pytest.mark.parametrize("kind", [TPNNRegressor, TPNNClassifier, TPNNSurvival])
def test_without_bands_none_are_computed_and_components_stay_as_they_grew(
    kind: Any, table: Any, labels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = table
    events = np.column_stack([np.exp(y), np.ones(len(y))])
    target = {TPNNRegressor: y, TPNNClassifier: labels, TPNNSurvival: events}[kind]
    fitted = kind(**QUICK).fit(X, target)
    assert fitted.model_.evidence.posteriors is not None
    assert fitted.path().model(2).evidence.posteriors is not None
    monkeypatch.setattr("tpnn.estimators.pipeline.infer", fail)
    plain = kind(**QUICK, bands=False).fit(X, target)
    assert plain.model_.evidence.posteriors is None
    assert plain.path().model(2).evidence.posteriors is None
    solved = fitted._fitted_.solved
    grown = solved.problem.freeze(solved.solution, fitted._fitted_.task)
    assert plain.model_.components == grown.components == fitted.model_.components
    for one, other in zip(plain.model_.tables, grown.tables, strict=True):
        assert np.array_equal(one, other)


# Features with a single value


def test_constant_columns_are_not_needed(table: Any) -> None:
    """Components of a feature with one node are zero; the others keep their bits."""
    X, y = table
    known = list(X.columns)
    given = X.assign(one=1.0, word="u", nothing=np.nan)
    model = TPNNRegressor(**QUICK).fit(given, y)
    assert set(model.model_.required_features) == set(known)
    assert np.array_equal(model.predict(X), model.predict(given))
    assert model.path().steps[-1].n_components == len(model.components_)
    assert all({*names} <= {*known} for names in model.path().model(4).component_names)
    searched = TPNNRegressor(**QUICK, order=2).fit(given, y)
    assert set(searched.model_.required_features) == set(known)
    assert np.array_equal(searched.predict(X), searched.predict(given))
    listed = list(combinations(given.columns, 2))
    whole = TPNNRegressor(**QUICK, interactions=listed).fit(given, y)
    assert {*map(frozenset, listed)} <= {*map(frozenset, whole.components_)}


def test_a_constant_column_that_is_asked_for_stays(table: Any) -> None:
    X, y = table
    given, pair = X.assign(one=1.0), (X.columns[0], "one")
    exact = TPNNRegressor(**QUICK, components=[("one",), pair]).fit(given, y)
    assert set(exact.components_) == {("one",), pair}
    rules = {"required": [pair]}
    required = TPNNRegressor(**QUICK, interactions={**rules, "heredity": True}).fit(given, y)
    asked = [names for names in required.components_ if "one" in names]
    assert sorted(asked) == sorted([("one",), pair])
    shaped = TPNNRegressor(**QUICK, shapes={"one": "increasing"}).fit(given, y)
    assert "one" in shaped.model_.required_features


def test_a_table_of_nothing_but_constants(table: Any, tmp_path: Path) -> None:
    X, y = table
    given = X.assign(one=1.0, word="u")[["one", "word"]]
    model = TPNNRegressor(**QUICK).fit(given, y)
    assert model.predict(given) == pytest.approx(np.full(len(y), np.mean(y)))
    assert model.explain(given).reasons()
    assert "one" in str(model.summary())
    assert model.report(tmp_path / "page.html", given, y).path.exists()
    assert len(model.path().model(1).components) == 1


def named_rows(n_rows: int = 300) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers, and a column with a name for each row."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(n_rows, 2)), columns=["a", "b"])
    return X.assign(id=[f"u{number}" for number in range(n_rows)]), X.a + rng.normal(size=n_rows)


def test_an_identifier_is_named_and_says_nothing() -> None:
    X, y = named_rows()
    with pytest.warns(
        UserWarning,
        match=r"^X: look at these columns again: 'id' looks like an identifier, with 300 lev",
    ):
        model = TPNNRegressor(**QUICK).fit(X, y)
    assert "id" not in model.model_.required_features
    X = X.assign(id=[f"u{number // 2 if number < 100 else number}" for number in range(300)])
    with pytest.warns(
        UserWarning,
        match=r"^X: look at these columns again: 'id' looks like an identifier, with 250 lev",
    ):
        model = TPNNRegressor(**QUICK, interactions={"required": [("id",)]}).fit(X, y)
    assert ("id",) in model.components_
    assert not [s for s in model.components_ if "id" in s and len(s) > 1]


def test_an_identifier_has_the_interactions_that_are_listed() -> None:
    X, y = named_rows()
    with pytest.warns(
        UserWarning, match=r"^X: look at these columns again: 'id' looks like an identifier"
    ):
        model = TPNNRegressor(**QUICK, components=[("a",), ("a", "id")]).fit(X, y)
    assert model.components_ == [("a",), ("a", "id")]


def test_a_required_main_effect_is_in_every_model() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 5)), columns=list("abcde"))
    settings = {**QUICK, "max_components": 2, "order": "auto"}
    model = TPNNRegressor(**settings, interactions={"required": [("e",)]}).fit(X, X.a * X.b)
    assert ("e",) in model.components_
