"""Fits with deep trees: one raw score, the same bits, and a remainder that held-out rows want."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tests.conftest import QUICK
from tests.table.files.tables import write_parts
from tpnn import AnovaModel, ComponentSet, TPNNClassifier, TPNNRegressor, TPNNSurvival, load
from tpnn._utils import shelf
from tpnn.estimators import inputs, mixture
from tpnn.model.remainder import measured

N_ROWS = 500
DEEP: dict[str, Any] = {**QUICK, "remainder": True}
TASKS: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "numbers": (TPNNRegressor, {}, lambda y: y),
    "several targets": (TPNNRegressor, {}, lambda y: np.column_stack([y, -(y**2)])),
    "quantiles": (
        TPNNRegressor,
        {"objective": {"name": "quantile", "levels": [0.1, 0.9]}},
        lambda y: y,
    ),
    "counts": (TPNNRegressor, {"objective": "poisson"}, lambda y: np.round(np.exp(y / 2))),
    "two classes": (TPNNClassifier, {}, lambda y: y > 0),
    "three classes": (TPNNClassifier, {}, lambda y: np.digitize(y, [-0.5, 0.5])),
    "survival": (TPNNSurvival, {}, lambda y: np.column_stack([np.exp(-y), y > -1])),
}


def mixed(n_rows: int = N_ROWS) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers, one with gaps, and levels; a signal of up to four features at once."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(n_rows, 4)), columns=list("abcd"))
    X["d"] = X.d.where(rng.random(n_rows) > 0.15)
    X["level"] = rng.choice(list("xyz"), n_rows)
    signs = np.sign(X.a * X.b * X.c * X.d.fillna(1.0))
    return X, (signs + X.a * (X.level == "x") + 0.1 * rng.normal(size=n_rows)).to_numpy()


def bits(model: AnovaModel) -> list[np.ndarray]:
    """Every array of a model and of its remainder."""
    rest = model.remainder
    of_rest = [] if rest is None else [*rest.trees.arrays, rest.constants, *rest.tables,
                                       np.array([rest.share, rest.worth])]  # fmt: skip
    return [*model.tables, model.intercepts, *of_rest]


def identical(one: Any, other: Any) -> bool:
    a, b = bits(one.model_), bits(other.model_)
    same = one.model_.components == other.model_.components and len(a) == len(b)
    return same and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.fixture(scope="module", params=TASKS)
def fitted(request: pytest.FixtureRequest) -> tuple[Any, pd.DataFrame]:
    kind, parameters, target = TASKS[request.param]
    X, y = mixed()
    return kind(**DEEP, **parameters).fit(X, target(y)), X


@pytest.fixture(scope="module")
def deep() -> TPNNRegressor:
    return TPNNRegressor(**DEEP).fit(*mixed())


@pytest.mark.filterwarnings("ignore:X. levels or missing values that fit has not seen")
def test_intercept_components_and_remainder_are_the_raw_score(fitted: Any) -> None:
    model, X = fitted[0].model_, fitted[1]
    rows = X.head(50).assign(level="unseen", a=np.nan)
    for some in (X, rows):
        parts = model.component_scores(some).sum(1) + model.remainder_scores(some)
        assert np.allclose(model.intercept + parts, model.raw_scores(some), rtol=0, atol=1e-12)


@pytest.mark.parametrize("classes", [False, True])
def test_trees_of_some_rows_are_mixed_and_balanced_on_all(
    classes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tpnn.solvers.grow.solver.MOST_DEEP_ROWS", N_ROWS // 2)
    X, y = mixed()
    if classes:
        names = np.digitize(y, [-0.5, 0.5])
        model = TPNNClassifier(**DEEP).fit(X, names)
        shares = np.bincount(names) / len(names)
        assert model.predict_proba(X).mean(0) == pytest.approx(shares, abs=1e-12)
    else:
        model = TPNNRegressor(**DEEP).fit(X, y)
        assert model.predict(X).mean() == pytest.approx(y.mean(), abs=1e-12)
    frozen = model.model_
    parts = frozen.component_scores(X).sum(1) + frozen.remainder_scores(X)
    assert np.allclose(frozen.intercept + parts, frozen.raw_scores(X), rtol=0, atol=1e-12)


def test_sets_of_the_remainder_are_those_of_the_leaves_in_the_model() -> None:
    """They are read bag by bag in canonical order in the fit, and off the joined trees here."""
    X, y = mixed()
    model = TPNNRegressor(**DEEP).fit(X[X.columns[::-1]], y).model_
    assert model.remainder is not None
    sets, again = model.remainder.largest, measured(model).remainder.largest
    assert sets
    assert {each.features for each in sets} == {each.features for each in again}
    shares = {each.features: each.share for each in again}
    assert [each.share for each in sets] == pytest.approx([shares[each.features] for each in sets])


def test_every_component_averages_to_zero(fitted: Any) -> None:
    assert fitted[0].model_.identifiability_error() <= 1e-12


def test_a_core_is_small_enough_to_read(fitted: Any) -> None:
    assert 0 < len(fitted[0].components_) <= 24


def test_a_file_has_the_same_raw_scores(fitted: Any, tmp_path: Path) -> None:
    model, X = fitted[0].model_, fitted[1]
    model.save(tmp_path / "model.tpnn")
    assert np.array_equal(load(tmp_path / "model.tpnn").model_.raw_scores(X), model.raw_scores(X))


@pytest.mark.parametrize("n_jobs", [1, 2, 4])
def test_threads_change_no_bit(deep: TPNNRegressor, n_jobs: int) -> None:
    assert deep.model_.remainder is not None
    assert identical(TPNNRegressor(**DEEP, n_jobs=n_jobs).fit(*mixed()), deep)


def test_order_and_copies_of_rows_change_no_bit(deep: TPNNRegressor) -> None:
    X, y = mixed()
    twice = np.random.default_rng(0).permutation(np.tile(np.arange(N_ROWS), 2))
    assert identical(TPNNRegressor(**DEEP).fit(X.iloc[twice], y[twice]), deep)


def test_whole_weights_are_copies_of_rows() -> None:
    X, y = mixed()
    weights = np.random.default_rng(0).integers(0, 4, N_ROWS)
    copies = np.repeat(np.arange(N_ROWS), weights)
    one = TPNNRegressor(**DEEP).fit(X, y, sample_weight=weights)
    assert one.model_.remainder is not None
    assert identical(one, TPNNRegressor(**DEEP).fit(X.iloc[copies], y[copies]))


def test_a_table_in_files_gives_the_same_bits(
    deep: TPNNRegressor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = mixed()
    write_parts(pa.Table.from_pandas(X.assign(target=y)), tmp_path)
    monkeypatch.setattr(inputs, "TABLE_MEMORY_SHARE", 0.0)
    monkeypatch.setattr(shelf, "SMALLEST_FILE_BYTES", 0)
    assert identical(TPNNRegressor(**DEEP).fit(tmp_path, "target"), deep)


def test_an_offset_is_added() -> None:
    X, y = mixed()
    known = np.linspace(-3, 3, N_ROWS)
    model = TPNNRegressor(**DEEP).fit(X, y + known, offset=known).model_
    assert model.remainder is not None
    zero = model.raw_scores(X, np.zeros(N_ROWS))
    assert np.allclose(model.raw_scores(X, known), zero + known, atol=1e-12)


def test_without_a_remainder_there_is_none() -> None:
    X, y = mixed()
    model = TPNNRegressor(**{**DEEP, "remainder": False}).fit(X, y).model_
    assert model.remainder is None
    assert not model.remainder_scores(X).any()


def test_held_out_rows_decide_whether_there_is_a_remainder() -> None:
    """An interaction of four features is none of the core; a line leaves nothing to say."""
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, 1.0], (600, 4)) * rng.uniform(0.5, 1.5, (600, 4))
    auto = TPNNRegressor(**{**QUICK, "remainder": "auto"})
    kept = auto.fit(X, X[:, 0] + np.sign(X.prod(1))).model_.remainder
    assert kept is not None
    assert kept.worth > 0.002
    assert auto.fit(X, X[:, 0] + 0.5 * rng.normal(size=600)).model_.remainder is None


def test_required_interactions_keep_no_others_out() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(500, 4)), columns=list("abcd"))
    settings = {**DEEP, "interactions": {"required": [("a", "b")]}}
    model = TPNNRegressor(**settings).fit(X, X.c * X.d + 0.1 * rng.normal(size=500))
    assert {("a", "b"), ("c", "d")} <= set(model.components_)


@pytest.mark.parametrize("rules", [{"groups": ["ab", "cd"]}, {"forbidden": ["ac", "ad", "bc"]}])
def test_no_leaf_joins_features_that_may_not_meet(rules: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 4)), columns=list("abcd"))
    model = TPNNRegressor(**DEEP, interactions={k: list(map(tuple, v)) for k, v in rules.items()})
    rest = model.fit(X, X.a * X.b * X.c + X.c * X.d).model_.remainder
    assert rest is not None
    joined = ["".join("abcd"[j] for j in s) for s in rest.boxes.together]
    if "groups" in rules:
        assert all(set(s) <= set("ab") or set(s) <= set("cd") for s in joined)
    else:
        assert not any(set(pair) <= set(s) for s in joined for pair in rules["forbidden"])


@pytest.mark.parametrize("value", [1, 0, None, "yes", 0.5])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r'^remainder.*"auto", True or False'):
        TPNNRegressor(**{**QUICK, "remainder": value}).fit(*mixed(50))


@pytest.mark.parametrize(
    "settings",
    [{"shapes": {0: "increasing"}}, {"interactions": [(0, 1)]}, {"selection": "noise"}],
)
def test_a_remainder_that_cannot_be_had_is_an_error(settings: dict[str, Any]) -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    with pytest.raises(ValueError, match=f"remainder: True .* '{next(iter(settings))}'"):
        TPNNRegressor(remainder=True, **settings).fit(X, X[:, 0])


def test_an_order_limits_the_core_beside_a_remainder() -> None:
    X = np.random.default_rng(0).normal(size=(300, 3))
    y = np.sign(X[:, 0] * X[:, 1]) + X[:, 2]
    model = TPNNRegressor(order=1, remainder=True, n_bags=2, random_state=0).fit(X, y).model_
    assert max(map(len, model.components)) == 1
    assert model.remainder is not None
    assert model.remainder.largest[0].features == ("x0", "x1")


def test_where_trees_find_nothing_the_core_has_what_held_out_rows_miss_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mixture, "core_of", lambda *_: ComponentSet(()))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 40))
    model = TPNNRegressor(**QUICK).fit(X, X[:, 30:] @ np.arange(1.0, 11.0))
    assert len(model.components_) == mixture.MOST_IN_CORE
    assert {(f"x{j}",) for j in range(31, 40)} <= set(model.components_)


def test_the_history_speaks_of_trees_only_where_they_found_something() -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        model = TPNNRegressor(**QUICK).fit(rng.normal(size=(60, 3)), rng.normal(size=60))
        notes = [event["note"] for event in model.history_ if event["stage"] == "mix"]
        has_trees = any(e["step"] for e in model.history_ if e["note"] == "deep trees")
        assert len(notes) == 1
        assert ("no deep trees" in notes[0]) != has_trees


def test_trees_that_ask_nothing_are_no_remainder() -> None:
    rng = np.random.default_rng(0)
    rare = {**DEEP, "validation_fraction": 0.9, "objective": "gamma"}
    model = TPNNRegressor(**rare).fit(rng.normal(size=(10, 2)), rng.gamma(1, size=10))
    assert model.model_.remainder is None


@pytest.mark.parametrize("remainder", ["auto", True])
def test_a_handful_of_rows_says_nothing_about_a_remainder(remainder: Any) -> None:
    """Rows so few are on both sides of every bag: what they lose without it is no held-out loss."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(8, 4)), rng.normal(size=8)
    settings = QUICK | {"validation_fraction": 0.1}
    model = TPNNRegressor(**settings, remainder=remainder).fit(X, y)
    assert model.model_.remainder is None
    assert not [event for event in model.history_ if event["note"] == "deep trees"]
    copied = np.repeat(np.arange(8), 30)  # so often that all of them count
    deep = TPNNRegressor(**settings).fit(X[copied], y[copied] + rng.normal(size=240))
    assert [event for event in deep.history_ if event["note"] == "deep trees"]
