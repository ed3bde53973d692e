"""Refits: components that are kept are fitted again; a list states all components; the path."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from tests.conftest import QUICK, told
from tests.explain.report.pages import payload
from tpnn import Grow, TPNNClassifier, TPNNRegressor, TPNNSurvival
from tpnn.estimators.base import Refits, _halves
from tpnn.model.edit_log import digest
from tpnn.search.select import HeldOut
from tpnn.solvers.problem.problem import Problem
from tpnn.solvers.solution import Solution

QUIET: dict[str, Any] = {"n_bags": 2, "random_state": 0, "verbose": 0}


def alike(n_rows: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Two features that nearly repeat one another, and one that matters by its interaction."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n_rows)
    X = pd.DataFrame({"a": a, "b": a + 0.1 * rng.normal(size=n_rows), "c": rng.normal(size=n_rows)})
    y = X.a + X.b + 0.5 * X.a * X.c + 0.3 * rng.normal(size=n_rows)
    return X, y.to_numpy()


class Spy(Grow):
    """The default solver, with notes of the components that it was asked for."""

    calls: ClassVar[list[list[tuple[int, ...]]]] = []

    def solve(self, problem: Problem, *arguments: Any, **named: Any) -> Solution:
        self.calls.append(list(problem.components))
        return super().solve(problem, *arguments, **named)


def same(one: Any, other: Any) -> bool:
    return one.component_names == other.component_names and all(
        map(np.array_equal, (*one.tables, one.intercepts), (*other.tables, other.intercepts))
    )


# What is kept takes over what was dropped


def test_a_refit_takes_over_what_was_dropped() -> None:
    """Of two features that repeat one another, the one that is kept gets the effect of both."""
    X, y = alike(1500)
    model = TPNNRegressor(order=1, max_components=1, **QUIET).fit(X, y)
    (kept,) = model.components_
    alone = TPNNRegressor(order=1, **QUIET).fit(X[[kept[0]]], y)
    new, target = alike(1500, seed=1)
    assert model.score(new, target) == pytest.approx(alone.score(new[[kept[0]]], target), abs=0.01)
    assert model.score(new, target) > 0.8
    assert told(model)[-1]["stage"] == "refit"
    assert told(model)[-1]["note"] == "1 of 3 components, fitted again"


@pytest.mark.parametrize("asked", [{"selection": "noise"}, {"max_components": 2}], ids=str)
def test_what_is_kept_is_fitted_as_if_listed(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Spy, "calls", [])
    X, y = alike(600)
    settings = {**QUIET, "solver": Spy(max_rounds=60), "order": 2}
    model = TPNNRegressor(**asked, **settings, interactions="all").fit(X, y)
    full, again = ({tuple(X.columns[list(s)]) for s in listed} for listed in Spy.calls)
    assert set(model.components_) < full
    assert again == {(j,) for s in model.components_ for j in s} | set(model.components_)
    exact = TPNNRegressor(components=model.components_, **settings).fit(X, y)
    is_refit = told(model)[-1]["note"].endswith("fitted again")
    assert is_refit or "selection" in asked  # held-out rows may prefer components as they were
    assert same(model.model_, exact.model_) == is_refit


def test_nothing_is_refitted_where_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Spy, "calls", [])
    X, y = alike(300)
    settings = {**QUIET, "solver": Spy(max_rounds=20), "interactions": "all"}
    all_kept = TPNNRegressor(max_components=6, **settings).fit(X, y)
    plain = TPNNRegressor(**settings).fit(X, y)
    assert len(Spy.calls) == 2
    assert same(all_kept.model_, plain.model_)


# Exactly these components


@pytest.mark.parametrize("order", [2, 3])
def test_all_components_listed_are_the_full_model(table: Any, order: int) -> None:
    X, y = table
    full = TPNNRegressor(**QUICK, order=order, interactions="all").fit(X, y)
    listed = TPNNRegressor(**QUICK, components=full.components_[::-1]).fit(X, y)
    assert same(full.model_, listed.model_)


@pytest.mark.parametrize("by_name", [True, False])
def test_a_model_has_exactly_the_listed_components(table: Any, by_name: bool) -> None:
    X, y = table
    names = list(X)
    listed = [(0,), (2, 1)]
    given = [tuple(names[j] for j in s) for s in listed] if by_name else listed
    model = TPNNRegressor(**QUICK, components=given).fit(X, y)
    assert model.components_ == [(names[0],), (names[1], names[2])]
    assert model.model_.identifiability_error() < 1e-6


@pytest.mark.parametrize("kind", [TPNNRegressor, TPNNClassifier, TPNNSurvival])
def test_every_task_takes_a_list(kind: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    signal = X[:, 0] * X[:, 1]
    noisy = signal + 0.1 * rng.normal(size=600)
    targets = {
        TPNNRegressor: noisy,
        TPNNClassifier: noisy > 0,
        TPNNSurvival: np.column_stack([np.exp(-noisy), np.ones(600)]),
    }
    model = kind(**QUIET, components=[(0, 1)]).fit(X, targets[kind])
    assert model.components_ == [("x0", "x1")]
    assert np.corrcoef(model.model_.raw_scores(X), signal)[0, 1] > 0.7


def test_a_pair_alone_is_the_pure_interaction() -> None:
    """Main effects that are not listed are left out, not moved into the pair."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3000, 2))
    y = 2 * X[:, 0] - X[:, 1] + 3 * X[:, 0] * X[:, 1]
    model = TPNNRegressor(**QUIET, components=[(0, 1)]).fit(X, y)
    assert model.model_.intercept == pytest.approx(y.mean(), abs=0.1)
    error = model.predict(X) - y.mean() - 3 * X[:, 0] * X[:, 1]
    assert np.sqrt(np.mean(error**2)) < 0.15


def test_subsets_that_a_shape_needs() -> None:
    X, y = alike(100)
    pair, shapes = [("a", "c")], {"a": "increasing"}
    with pytest.raises(
        ValueError, match=r"^components: the shape of 'a' needs .* none of \[\('a',\), \('c"
    ):
        TPNNRegressor(**QUICK, components=pair, shapes=shapes).fit(X, y)
    closed = [*pair, ("a",), ("c",)]
    shaped = TPNNRegressor(**QUICK, components=closed, shapes=shapes).fit(X, y)
    assert shaped.model_.certificate("a").minimum >= 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"components": [("z",)]}, r"^components: features must be names .*found 'z'"),
        ({"components": [(3,)]}, r"^components: features must be names .*found 3"),
        ({"components": [("a", "a")]}, r"^components: each must name different .*'a' twice"),
        ({"components": [("a", "b"), (1, 0)]}, r"^components: each may be listed once, found"),
        ({"components": [("a",), ("a", "b")], "order": 1}, r"none may have .*found \('a', 'b'\)"),
        ({"components": [("a",)], "interactions": []}, r"nothing to choose.* interactions=\[\]"),
        ({"components": [("a",), ("b",)], "max_components": 1}, r"to choose.* max_components=1"),
        ({"components": [("a",)], "selection": "noise"}, r"to choose.* selection='noise'"),
    ],
)
def test_lists_that_cannot_be_fitted(parameters: dict[str, Any], message: str) -> None:
    X, y = alike(60)
    with pytest.raises(ValueError, match=message):
        TPNNRegressor(**QUICK, **parameters).fit(X, y)


def test_positions_count_the_column_of_an_exposure() -> None:
    X, y = alike(200)
    counts = np.abs(y).round()
    given = X.assign(d=1.0)[["d", "a", "b", "c"]]
    settings = {**QUICK, "objective": "poisson", "exposure": "d"}
    model = TPNNRegressor(**settings, components=[(1,), (1, 3)]).fit(given, counts)
    assert model.components_ == [("a",), ("a", "c")]


# The path


@pytest.fixture(scope="module")
def fitted() -> tuple[TPNNRegressor, pd.DataFrame, np.ndarray]:
    X, y = alike(800)
    X = X.assign(d=np.random.default_rng(5).normal(size=800))
    return TPNNRegressor(**QUIET, interactions="all").fit(X, y), X, y


def test_the_path_leads_from_sparse_to_full(fitted: Any) -> None:
    model, X, _ = fitted
    path = model.path()
    assert path is model.path()
    sizes = [step.n_components for step in path.steps]
    assert sizes == sorted(set(sizes))
    assert (sizes[0], sizes[-1]) == (1, 10)
    added = [component for step in path.steps for component in step.added]
    assert sorted(added) == sorted(model.components_)
    assert path.chosen == 10
    assert same(path.model(10), model.model_)
    assert path.landmarks["order 1"].n_components == 4
    assert path.steps[0].loss > path.landmarks["order 1"].loss > path.steps[-1].loss
    assert path.steps[-1].standard_error == 0
    sparse = path.one_standard_error()
    lowest = min(step.loss for step in path.steps)
    assert sparse.loss <= lowest + sparse.standard_error
    assert path.model(3).identifiability_error() < 1e-6
    wrong: Any
    for wrong in (0, 11, 1.5, "3", True, None):
        message = rf"^n_components: must be a whole number from 1 to 10, found {wrong!r}\. Pass"
        with pytest.raises(ValueError, match=message):
            path.model(wrong)
    assert np.isfinite(path.model(2).predict(X)).all()


@pytest.mark.parametrize("count", [1, 3, 7])
def test_a_model_of_the_path_is_that_of_max_components(fitted: Any, count: int) -> None:
    model, X, y = fitted
    few = clone(model).set_params(max_components=count).fit(X, y)
    assert same(model.path().model(count), few.model_)


def test_rows_that_rank_the_components_do_not_score_the_models(fitted: Any) -> None:
    refits = Refits(fitted[0]._fitted_)
    problem, solution = refits.solved.problem, refits.solved.solution
    ranking, scoring = _halves(problem)
    assert not (ranking & scoring).any()
    assert (ranking | scoring).all()
    assert abs(ranking.sum() - scoring.sum()) <= 1
    steps = refits.path().steps
    assert steps[-1].loss == pytest.approx(HeldOut(problem, solution, scoring).loss)
    first = HeldOut(problem, solution, ranking)
    worth = {
        tuple(sorted(s)): first.change(first.raw - first.values(i))[0] + first.averaged_noise(i)
        for i, s in enumerate(first.components)
    }
    best = max(worth, key=worth.__getitem__)
    assert steps[0].added == (tuple(problem.encoder.feature_names[j] for j in best),)


def test_subsets_that_were_fitted_anyway_are_not_fitted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To keep a pair without its main effects, growth would fit the same three components."""
    monkeypatch.setattr(Spy, "calls", [])
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 2))
    settings: dict[str, Any] = {**QUIET, "solver": Spy(max_rounds=30), "order": 2}
    y = X[:, 0] * X[:, 1]
    model = TPNNRegressor(max_components=1, interactions="all", **settings).fit(X, y)
    assert len(Spy.calls) == 1
    exact = TPNNRegressor(components=[(0, 1)], **settings).fit(X, y)
    assert same(model.model_, exact.model_)


def test_a_pickled_estimator_has_no_path(fitted: Any) -> None:
    model, X, _ = fitted
    data = pickle.dumps(model)
    assert len(data) < 2_500_000
    copy = pickle.loads(data)
    assert np.array_equal(copy.predict(X), model.predict(X))
    with pytest.raises(ValueError, match=r"^path: needs the training rows, which a pickled"):
        copy.path()


def test_the_report_shows_a_path_that_was_computed(fitted: Any, tmp_path: Path) -> None:
    model, X, y = fitted
    path = model.path()
    model.report(tmp_path / "page.html", X, y)
    shown = payload(tmp_path / "page.html")["path"]
    assert shown["steps"] == [[step.n_components, step.loss] for step in path.steps]
    assert shown["landmarks"] == [["order 1", 4, path.landmarks["order 1"].loss]]
    assert shown["chosen"] == 10
    pickle.loads(pickle.dumps(model)).report(tmp_path / "page.html", X, y)
    assert payload(tmp_path / "page.html")["path"] is None


# Sparser models of a fit with a remainder


def test_a_sparser_model_does_without_the_remainder() -> None:
    """It would hold what the model lacks; the model of full size is the fitted one."""
    X, y = alike(600)
    X["d"], X["e"] = np.random.default_rng(1).normal(size=(2, 600))
    y = y + np.sign(X.c * X.d * X.e)
    fitted = TPNNRegressor(**QUIET, remainder=True, max_components=4).fit(X, y)
    path, n_components = fitted.path(), len(fitted.components_)
    assert fitted.model_.remainder is not None
    assert path.steps[-1].n_components == n_components == path.chosen
    assert same(path.model(n_components), fitted.model_)
    assert digest(path.model(n_components)) == digest(fitted.model_)
    for step in path.steps[:-1]:
        sparse = path.model(step.n_components)
        assert sparse.remainder is None
        assert len(sparse.components) == step.n_components
        assert sparse.predict(X).sum() == pytest.approx(y.sum())
        assert step.loss > path.steps[-1].loss
