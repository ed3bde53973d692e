"""fit(start=...): k rounds and then m are k + m; what is frozen stays; the rest is unique."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import SMALL, told
from tpnn import Descent, Grow, TPNNClassifier, TPNNRegressor, TPNNSurvival, load
from tpnn.model.edit_log import digest
from tpnn.solvers.grow.forest import RectangleForest

ROUNDS, MORE = 60, 40


def rows(n_rows: int, slope: float = 1.0, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=n_rows),
            "b": rng.integers(0, 8, n_rows) / 4,
            "c": rng.normal(size=n_rows),
            "t": rng.choice(["u", "v", "w"], n_rows),
        }
    )
    X.loc[rng.random(n_rows) < 0.1, "c"] = np.nan
    y = np.sin(2 * X.a) + slope * X.a * X.b + (X.t == "u") + 0.1 * rng.normal(size=n_rows)
    return X, y


X, Y = rows(200)
NEW_X, NEW_Y = rows(260, slope=2.0, seed=1)


def targets(y: pd.Series) -> dict[str, Any]:
    """Targets of every task that follow from the same numbers."""
    return {
        "numbers": y,
        "classes": (y > 0.5).map({True: "high", False: "low"}),
        "three classes": pd.cut(y, [-np.inf, 0, 1, np.inf], labels=False),
        "survival": np.c_[np.exp(-y), np.arange(len(y)) % 3 > 0],
        "rates": np.exp(y),
        "two targets": np.c_[y, -y],
    }


TARGETS = targets(Y)


def estimator(rounds: int, **settings: Any) -> TPNNRegressor:
    return TPNNRegressor(**{**SMALL, "solver": Grow(max_rounds=rounds), **settings})


def of_task(task: str, rounds: int) -> Any:
    settings = {**SMALL, "solver": Grow(max_rounds=rounds)}
    if task in ("classes", "three classes"):
        return TPNNClassifier(**settings)
    if task == "survival":
        return TPNNSurvival(**settings)
    return TPNNRegressor(**settings, objective="poisson" if task == "rates" else "squared_error")


@pytest.fixture(scope="module")
def old() -> TPNNRegressor:
    return estimator(ROUNDS).fit(X, Y)


def values(model: Any, component: tuple[str, ...]) -> np.ndarray:
    return model.tables[model.component_names.index(component)]


def added(model: Any) -> bool:
    """Whether a fit added to a model, as its history says, and did not go on with it."""
    return any("added to a model" in event["note"] for event in model.history_)


def test_no_rounds_change_nothing(old: TPNNRegressor, tmp_path: Path) -> None:
    same = estimator(0).fit(NEW_X, NEW_Y, start=old)
    assert same.model_ is old.model_
    assert same.components_ == old.components_
    old.model_.save(tmp_path / "model.tpnn")
    loaded = load(tmp_path / "model.tpnn").model_
    assert loaded.evidence.posteriors is not None
    assert loaded.evidence.calibration is not None
    again = estimator(0).fit(NEW_X, NEW_Y, start=loaded)
    assert again.model_ is loaded
    assert digest(again.model_) == digest(old.model_)


def test_no_rounds_keep_the_baseline_of_survival() -> None:
    fitted = of_task("survival", ROUNDS).fit(X, TARGETS["survival"])
    same = of_task("survival", 0).fit(X[:50], TARGETS["survival"][:50], start=fitted)
    assert same.model_ is fitted.model_
    np.testing.assert_array_equal(same.baseline_hazard_, fitted.baseline_hazard_)


@pytest.mark.parametrize("task", TARGETS)
def test_rounds_add_up(task: str) -> None:
    y = TARGETS[task]
    first = of_task(task, ROUNDS).fit(X, y)
    both = of_task(task, MORE).fit(X, y, start=first)
    at_once = of_task(task, ROUNDS + MORE).fit(X, y)
    assert digest(both.model_) == digest(at_once.model_) != digest(first.model_)
    expected = at_once.model_.standard_errors(X[:5]) if task == "numbers" else None
    if expected is not None:
        np.testing.assert_array_equal(both.model_.standard_errors(X[:5]), expected)


@pytest.mark.parametrize(
    "settings",
    [
        {"shapes": {"a": "increasing"}, "interactions": [("a", "b")]},
        {"order": 4, "interactions": [("a", "b", "c"), ("a", "b", "c", "t")]},
        {"max_components": 3},
        {"n_bags": "auto", "max_nodes": 256, "order": 1},
        {"random_state": None, "order": 1},
    ],
    ids=["shapes", "higher orders", "refits", "bags by default", "a random seed"],
)
def test_rounds_add_up_with_other_settings(settings: dict[str, Any]) -> None:
    some, y = X[:120], Y[:120]
    first = estimator(60, **settings).fit(some, y)
    both = estimator(30, **settings).fit(some, y, start=first)
    seed = {"random_state": first._record_.seed}
    at_once = estimator(90, **settings | seed).fit(some, y)
    assert digest(both.model_) == digest(at_once.model_)


def test_rounds_add_up_again_and_again(old: TPNNRegressor) -> None:
    shuffled = np.random.default_rng(0).permutation(len(X))
    copied = pickle.loads(pickle.dumps(old))
    second = estimator(10).fit(X.iloc[shuffled], Y.iloc[shuffled], start=copied)
    second.set_params(solver__max_rounds=MORE).fit(X, Y, start=second)
    assert digest(second.model_) == digest(estimator(ROUNDS + 10 + MORE).fit(X, Y).model_)


def test_growth_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    visits, visit = [0], RectangleForest.visit

    def counted(self: Any, rounds: int) -> None:
        visits[0] += 1
        visit(self, rounds)

    monkeypatch.setattr(RectangleForest, "visit", counted)

    def fitted(rounds: int, **start: Any) -> tuple[str, int]:
        """Digest of a model whose growth never stalls, and the visits of its fit."""
        solver = Grow(growth="smooth", max_rounds=rounds, patience=1000)
        model = estimator(0, solver=solver, n_bags=1, interactions=[("a", "b", "c", "t")])
        visits[0] = 0
        models.append(model.fit(X, Y, **start))
        return digest(models[-1].model_), visits[0]

    models: list[TPNNRegressor] = []
    assert fitted(20)[1] == 4  # rectangles are visited every five rounds
    both = fitted(10, start=models[0])
    at_once = fitted(30)
    assert both == (at_once[0], 2)
    assert at_once[1] == 6


@pytest.mark.parametrize(
    "change",
    [{"y": 1.01 * Y}, {"sample_weight": np.arange(1.0, 201)}, {"groups": np.arange(200) // 2},
     {"offset": np.arange(200.0)}, {"nodes": "new"}, {"freeze": ["a"]}],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_other_rows_do_not_go_on(old: TPNNRegressor, change: dict[str, Any]) -> None:
    assert added(estimator(10).fit(X, start=old, **{"y": Y, **change}))


@pytest.mark.parametrize(
    "settings",
    [{"solver": Grow(max_rounds=10, patience=7)}, {"random_state": 1}, {"n_bags": 3},
     {"time_limit": 60}, {"max_nodes": {1: 33, 2: 12, 3: 6}}],
    ids=lambda settings: next(iter(settings)),
)  # fmt: skip
def test_other_settings_do_not_go_on(old: TPNNRegressor, settings: dict[str, Any]) -> None:
    assert added(estimator(10, **settings).fit(X, Y, start=old))


def test_an_edited_model_does_not_go_on(old: TPNNRegressor) -> None:
    edited = pickle.loads(pickle.dumps(old))
    edited.model_ = edited.model_.edit("a", add=0.5, between=(0, 1))
    assert added(estimator(10).fit(X, Y, start=edited))


@pytest.fixture(scope="module", params=["keep", "new"])
def continued(request: pytest.FixtureRequest, old: TPNNRegressor) -> TPNNRegressor:
    return estimator(60).fit(NEW_X, NEW_Y, start=old, nodes=request.param)


def test_new_rows_improve_the_old_model(old: TPNNRegressor, continued: TPNNRegressor) -> None:
    unseen, y = rows(500, slope=2.0, seed=2)
    assert continued.score(unseen, y) > old.score(unseen, y) + 0.1


def test_components_are_unique(old: TPNNRegressor, continued: TPNNRegressor) -> None:
    model, fresh = continued.model_, estimator(0).fit(NEW_X, NEW_Y).model_
    masses = old.model_ if "'nodes': 'keep'" in str(model.provenance.settings) else fresh
    assert model.identifiability_error() < 1e-12
    for name in set(model.feature_names) & set(masses.feature_names):
        one, other = (m.axes((m.feature_names.index(name),))[0] for m in (model, masses))
        np.testing.assert_array_equal(one.weights, other.weights)


def test_what_was_not_measured_is_not_claimed(continued: TPNNRegressor) -> None:
    model = continued.model_
    assert model.evidence.posteriors is None
    assert model.evidence.calibration is None
    assert model.evidence.tests is None
    assert model.edits is None


def test_nothing_is_added_where_nothing_is_missing(old: TPNNRegressor) -> None:
    coarse = NEW_X.round({"a": 0}).drop(columns="c")
    known = estimator(ROUNDS).fit(coarse, NEW_Y)
    some = coarse[: len(coarse) // 2]
    for nodes in ("keep", "new"):
        again = estimator(30).fit(some, known.predict(some), start=known.model_, nodes=nodes)
        np.testing.assert_allclose(again.predict(some), known.predict(some), atol=1e-4)


@pytest.mark.parametrize("task", TARGETS)
def test_frozen_components_keep_their_values(task: str) -> None:
    shrunken = of_task(task, ROUNDS).set_params(bands=False)  # so that there is something to add
    first = shrunken.fit(X, TARGETS[task]).model_
    frozen = [("a",), ("t",), ("a", "b")]
    new = targets(NEW_Y)[task]
    last = of_task(task, MORE).fit(NEW_X, new, start=first, freeze=["a", "t", ("b", "a")])
    for component in frozen:
        np.testing.assert_array_equal(values(last.model_, component), values(first, component))
    assert not np.array_equal(values(last.model_, ("b",)), values(first, ("b",)))
    assert last.model_.identifiability_error() < 1e-12
    moved = last.model_.intercepts - first.intercepts
    shifts = ", ".join(f"{shift:.6g}" for shift in moved)
    assert f"the intercept moved by {shifts}; frozen: a, t, a x b" in told(last)[-1]["note"]


def test_pairs_grow_on_frozen_main_effects() -> None:
    mains = estimator(200, order=1).fit(NEW_X, NEW_Y)
    pairs = estimator(200).fit(NEW_X, NEW_Y, start=mains, freeze=list("abct"))
    for component in mains.components_:
        ours, theirs = values(pairs.model_, component), values(mains.model_, component)
        np.testing.assert_array_equal(ours, theirs)
    unseen, y = rows(500, slope=2.0, seed=2)
    assert pairs.score(unseen, y) > mains.score(unseen, y) + 0.1


def test_triples_grow_on_frozen_pairs() -> None:
    X, _ = rows(300, seed=3)
    triple = np.sign(X.a) * np.sign(X.b - 0.9) * (X.t == "u")
    pairs = estimator(40, order=2).fit(X, triple)
    frozen = pairs.components_
    settings = {"order": 3, "interactions": [("a", "b", "t")]}
    triples = estimator(100, **settings).fit(X, triple, start=pairs, freeze=frozen)
    for component in frozen:
        ours, theirs = values(triples.model_, component), values(pairs.model_, component)
        np.testing.assert_array_equal(ours, theirs)
    assert triples.model_.identifiability_error() < 1e-12
    assert triples.score(X, triple) > pairs.score(X, triple) + 0.1


def test_a_model_gets_features_and_orders_that_it_did_not_have() -> None:
    small = estimator(ROUNDS, order=1).fit(X[["a", "t"]], Y).model_
    large = estimator(40).fit(NEW_X, NEW_Y, start=small)
    assert {("b",), ("a", "b")} <= set(large.components_)
    assert large.model_.identifiability_error() < 1e-12


def test_columns_without_names_are_matched_by_position() -> None:
    array = X[["a", "b"]].to_numpy()
    first = estimator(ROUNDS).fit(array, Y)
    last = estimator(ROUNDS).fit(array[:150], Y[:150], start=first.model_, freeze=[0])
    np.testing.assert_array_equal(values(last.model_, ("x0",)), values(first.model_, ("x0",)))
    with pytest.raises(ValueError, match="start: X must have all features of the model"):
        estimator(10).fit(array[:, :1], Y, start=first)
    with pytest.raises(ValueError, match="start: features are matched by name, or by position"):
        estimator(10).fit(X[["a", "b"]], Y, start=first)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["z", "u"] * 130, "'t' has new levels in 130 of 260 rows, .* only other levels"),
        ([None, "u"] * 130, "'t' is missing in 130 of 260 rows, .* no missing values"),
    ],
)
def test_values_without_a_node_are_refused(
    old: TPNNRegressor, column: list[Any], message: str
) -> None:
    table = NEW_X.assign(t=column)
    with pytest.raises(ValueError, match=message):
        estimator(10).fit(table, NEW_Y, start=old)
    assert estimator(10).fit(table, NEW_Y, start=old, nodes="new").score(table, NEW_Y) > 0


def test_an_error_changes_nothing(old: TPNNRegressor) -> None:
    model = estimator(ROUNDS).fit(X, Y)
    before = digest(model.model_)
    with pytest.raises(ValueError, match="start: X must have all features"):
        model.fit(X[["a"]], Y, start=model)
    with pytest.raises(ValueError, match="freeze: each must be a component of the model in start"):
        model.fit(X, Y, start=model, freeze=[("a", "b", "c")])
    assert digest(model.model_) == before
    assert model.fit(X, Y, start=model).score(X, Y) > 0.5


def test_shapes_and_frozen_components_exclude_each_other(old: TPNNRegressor) -> None:
    shaped = estimator(10, shapes={"a": "increasing"})
    with pytest.raises(ValueError, match="found 'a' in freeze and in shapes"):
        shaped.fit(X, Y, start=old, freeze=["a"])
    assert shaped.fit(NEW_X, NEW_Y, start=old).model_.certificate("a").holds


def test_gradient_descent_cannot_start_from_a_model(old: TPNNRegressor) -> None:
    with pytest.raises(ValueError, match="start: the solver must be Grow"):
        estimator(0, solver=Descent()).fit(X, Y, start=old)


@pytest.fixture(scope="module")
def deep() -> TPNNRegressor:
    """A model that says most by its remainder: it has the main effects of few features."""
    model = estimator(100, remainder=True, max_components=2).fit(X, Y)
    assert model.model_.remainder_scores(X).std() > 0.1
    return model


@pytest.mark.parametrize("task", TARGETS)
def test_growth_goes_on_beside_deep_trees(task: str) -> None:
    """k rounds and then m are k + m, also for the trees, which grow again."""
    few, more, whole = (of_task(task, n) for n in (ROUNDS, MORE, ROUNDS + MORE))
    for model in (few, more, whole):
        model.set_params(remainder=True, max_components=2)
    y = TARGETS[task]
    assert few.fit(X, y).model_.remainder is not None
    assert digest(more.fit(X, y, start=few).model_) == digest(whole.fit(X, y).model_)


@pytest.mark.parametrize("nodes", ["keep", "new"])
def test_what_is_added_is_beside_the_remainder(deep: TPNNRegressor, nodes: str) -> None:
    """Targets that the old model predicts leave nothing to add, whatever the features' order.

    The components are bent a little by other nodes; trees are what they were on any nodes.
    """
    shuffled = NEW_X.assign(more=np.arange(len(NEW_X)) % 5)[["t", "more", "c", "b", "a"]]
    predicted = deep.predict(NEW_X)
    fit = {"start": deep, "nodes": nodes}
    same = estimator(60).fit(shuffled, predicted, **fit)
    limit = 1e-5 if nodes == "keep" else 0.02
    assert np.abs(same.predict(shuffled) - predicted).max() < limit
    grown = estimator(60).fit(shuffled, NEW_Y, **fit)
    assert grown.predict(shuffled).sum() == pytest.approx(NEW_Y.sum())
    assert grown.score(shuffled, NEW_Y) > deep.score(NEW_X, NEW_Y) + 0.05
    scores = grown.transform(shuffled).sum(1) + grown.model_.remainder_scores(shuffled)
    assert np.allclose(grown.intercept_ + scores, grown.predict(shuffled), atol=1e-12)
    if nodes == "keep":
        for model in (same, grown):
            rest = model.model_.remainder_scores(shuffled)
            assert np.allclose(rest, deep.model_.remainder_scores(NEW_X), atol=1e-12)


def test_a_frozen_component_stays_beside_a_remainder(deep: TPNNRegressor) -> None:
    (first, *_) = deep.components_
    grown = estimator(60).fit(NEW_X, NEW_Y, start=deep, freeze=[first])
    assert np.array_equal(values(grown.model_, first), values(deep.model_, first))


def test_a_shape_beside_a_remainder_is_refused(deep: TPNNRegressor) -> None:
    with pytest.raises(ValueError, match=r"^start: no shape can .* 'a'. Fit with remainder=False"):
        estimator(10, shapes={"a": "increasing"}).fit(NEW_X, NEW_Y, start=deep)
