"""A column of the table as offset or exposure: the same model as with the array, everywhere."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from tests.conftest import QUICK
from tests.explain.report.pages import payload
from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival, load

POISSON: dict[str, Any] = {**QUICK, "objective": "poisson"}


@pytest.fixture(scope="module")
def policies() -> tuple[pd.DataFrame, np.ndarray]:
    """300 policies of different lengths, and their claims."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame(
        {
            "age": rng.normal(size=300),
            "years": rng.uniform(0.05, 3.0, 300),
            "power": rng.normal(size=300),
            "region": rng.choice(list("abc"), 300),
        }
    )
    return X, rng.poisson(X["years"] * np.exp(0.4 + 0.8 * X["age"] - 0.3 * X["power"]))


def target_of(kind: Any, y: np.ndarray) -> Any:
    if kind is TPNNClassifier:
        return np.where(y > 0, "claim", "none")
    return np.column_stack([y + 1.0, y % 2]) if kind is TPNNSurvival else y


def assert_same_model(one: Any, other: Any) -> None:
    assert one.feature_names == other.feature_names
    assert one.component_names == other.component_names
    assert np.array_equal(one.intercepts, other.intercepts)
    for a, b in zip(
        (*one.tables, *one.evidence.spreads), (*other.tables, *other.evidence.spreads), strict=True
    ):
        assert np.array_equal(a, b)


@pytest.mark.filterwarnings("error")
def test_an_exposure_is_the_logarithm_passed_by_hand(policies: Any) -> None:
    X, y = policies
    features, years = X.drop(columns="years"), X["years"].to_numpy()
    column = TPNNRegressor(**POISSON, exposure="years").fit(X, y)
    by_hand = TPNNRegressor(**POISSON).fit(features, y, offset=np.log(years))
    assert_same_model(column.model_, by_hand.model_)
    expected = by_hand.predict(features, offset=np.log(years))
    assert np.array_equal(column.predict(X), expected)
    assert column.score(X, y) == by_hand.score(features, y, offset=np.log(years))
    twice = column.predict(X.assign(years=2 * years))
    assert twice == pytest.approx(2 * expected)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", [TPNNRegressor, TPNNClassifier, TPNNSurvival])
def test_an_offset_is_the_array_passed_by_hand(kind: Any, policies: Any) -> None:
    X, y = policies
    target = target_of(kind, y)
    features, known = X.drop(columns="years"), X["years"].to_numpy()
    column = kind(**QUICK, offset="years").fit(X, target)
    by_hand = kind(**QUICK).fit(features, target, offset=known)
    assert_same_model(column.model_, by_hand.model_)
    assert np.array_equal(column.predict(X), by_hand.predict(features, offset=known))
    assert column.score(X, target) == by_hand.score(features, target, offset=known)
    assert np.array_equal(column.transform(X), by_hand.transform(features))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("place", [0, 1, 3])
def test_positions_are_those_of_the_table_that_is_passed(place: int, policies: Any) -> None:
    """In arrays and in tables with names, for the offset and for every other parameter."""
    X, y = policies
    features = X.drop(columns=["years", "region"]).assign(more=X["age"] ** 2)
    years = X["years"].to_numpy()
    with_years = features.copy()
    with_years.insert(place, "years", years)
    shaped = list(with_years).index("power")
    pair = (shaped, list(with_years).index("age"))
    settings = {"shapes": {shaped: "decreasing"}, "interactions": [pair]}
    plain = {"shapes": {"power": "decreasing"}, "interactions": [("power", "age")]}
    named = TPNNRegressor(**POISSON, exposure=place, **settings).fit(with_years, y)
    by_hand = TPNNRegressor(**POISSON, **plain).fit(features, y, offset=np.log(years))
    assert_same_model(named.model_, by_hand.model_)
    assert named.model_.shapes == {"power": "decreasing"}
    array = TPNNRegressor(**POISSON, exposure=place, **settings).fit(with_years.to_numpy(), y)
    assert array.model_.shapes == {f"x{shaped}": "decreasing"}
    assert (f"x{min(pair)}", f"x{max(pair)}") in array.components_
    assert f"x{place}" not in array.model_.feature_names
    assert array.n_features_in_ == named.n_features_in_ == 4
    assert np.array_equal(array.predict(with_years.to_numpy()), array.predict(with_years))
    plain_array = TPNNRegressor(**POISSON, interactions=[(0, 1)], shapes={1: "decreasing"})
    plain_array.fit(features.to_numpy(), y, offset=np.log(years))
    for a, b in zip(array.model_.tables, plain_array.model_.tables, strict=True):
        assert np.array_equal(a, b)


def test_rules_of_interactions_by_position(policies: Any) -> None:
    X, y = policies
    given = {"required": [(2, 3)], "forbidden": [(0, 3)], "groups": [[0, 2, 3]]}
    model = TPNNRegressor(**POISSON, exposure=1, interactions=given, categorical=[3])
    model.fit(X.drop(columns="region").assign(zone=np.arange(300) % 4), y)
    assert ("power", "zone") in model.components_
    assert ("age", "zone") not in model.components_
    assert model.model_.encoder.features[2].kind == "nominal"


@pytest.mark.filterwarnings("error")
def test_cross_validation_is_right_by_itself(policies: Any) -> None:
    X, y = policies
    folds = KFold(3)
    scores = cross_val_score(TPNNRegressor(**POISSON, exposure="years"), X, y, cv=folds)
    by_hand = []
    for training, held_out in folds.split(X):
        features, known = X.drop(columns="years"), np.log(X["years"].to_numpy())
        model = TPNNRegressor(**POISSON)
        model.fit(features.iloc[training], y[training], offset=known[training])
        by_hand.append(model.score(features.iloc[held_out], y[held_out], offset=known[held_out]))
    assert scores.tolist() == by_hand


@pytest.mark.filterwarnings("error")
def test_pipelines_and_searches(policies: Any) -> None:
    X, y = policies
    model = TPNNRegressor(**POISSON, exposure="years")
    assert clone(model).exposure == "years"
    alone = model.fit(X, y).predict(X)
    pipeline = make_pipeline(FunctionTransformer(lambda rows: rows), clone(model)).fit(X, y)
    assert np.array_equal(pipeline.predict(X), alone)
    search = GridSearchCV(clone(model), {"exposure": ["years"]}, cv=3).fit(X, y)
    assert np.array_equal(search.predict(X), alone)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("as_array", [False, True])
def test_a_loaded_model_reads_the_column(as_array: bool, policies: Any, tmp_path: Path) -> None:
    X, y = policies
    rows: Any = X.drop(columns="region")
    rows = rows.to_numpy() if as_array else rows
    model = TPNNRegressor(**POISSON, exposure=1).fit(rows, y)
    model.model_.save(tmp_path / "saved")
    loaded = load(tmp_path / "saved").model_
    assert np.array_equal(loaded.predict(rows), model.predict(rows))
    assert loaded.feature_names == model.model_.feature_names
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "saved").read_bytes()
    missing = "X: the number of columns must be" if as_array else "X: column 'years' is needed"
    with pytest.raises(ValueError, match=f"^{missing}"):
        loaded.predict(rows[:, [0, 2]] if as_array else rows[["age", "power"]])


def test_columns_are_found_by_name(policies: Any) -> None:
    X, y = policies
    model = TPNNRegressor(**POISSON, exposure="years").fit(X, y)
    assert model.feature_names_in_.tolist() == list(X)
    other = X[["region", "power", "years", "age"]].assign(extra=1.0)
    assert np.array_equal(model.predict(other), model.predict(X))
    assert np.array_equal(model.predict(X.to_numpy(object)), model.predict(X))


def test_components_do_not_need_the_column(policies: Any) -> None:
    X, y = policies
    model = TPNNRegressor(**POISSON, exposure="years").fit(X, y)
    features = X.drop(columns="years")
    assert np.array_equal(model.explain(features).scores, model.explain(X).scores)
    with pytest.raises(ValueError, match=r"^X: column 'years' is needed, because it is the expo"):
        model.predict(features)


@pytest.mark.parametrize("number", [0.0, -1.0, np.nan, np.inf])
def test_an_exposure_is_positive_and_finite(number: float, policies: Any) -> None:
    X, y = policies
    wrong = X.assign(years=X["years"].where(np.arange(300) != 7, number))
    words = r"^exposure: every number of column 'years' must be positive and finite, found 1 of 300"
    model = TPNNRegressor(**POISSON, exposure="years")
    with pytest.raises(ValueError, match=words):
        model.fit(wrong, y)
    with pytest.raises(ValueError, match=words):
        model.fit(X, y).predict(wrong)


def test_an_offset_is_finite_but_may_be_negative(policies: Any) -> None:
    X, y = policies
    model = TPNNRegressor(**QUICK, offset="years").fit(X.assign(years=-X["years"]), y)
    with pytest.raises(ValueError, match=r"^offset: every number of column 'years' must be finite"):
        model.predict(X.assign(years=np.nan))
    with pytest.raises(ValueError, match=r"^offset: column 'region' must hold numbers"):
        TPNNRegressor(**QUICK, offset="region").fit(X, y)


@pytest.mark.parametrize("objective", ["squared_error", "quantile", "huber"])
def test_an_exposure_needs_a_log_link(objective: str, policies: Any) -> None:
    X, y = policies
    model = TPNNRegressor(**QUICK, objective=objective, exposure="years")
    with pytest.raises(ValueError, match=r"^exposure: an objective with a log link is needed"):
        model.fit(X, y)


def test_there_is_one_offset(policies: Any) -> None:
    X, y = policies
    with pytest.raises(ValueError, match=r"^offset: only one offset is possible, found the param"):
        TPNNRegressor(**POISSON, exposure="years", offset="age").fit(X, y)
    model = TPNNRegressor(**POISSON, exposure="years")
    with pytest.raises(ValueError, match=r"^offset: only one offset is possible.*passed to fit"):
        model.fit(X, y, offset=y)
    model.fit(X, y)
    with pytest.raises(ValueError, match=r"^offset: column 'years' of X is the offset"):
        model.predict(X, offset=y)
    with pytest.raises(ValueError, match=r"^offset: column 'years' of X is the offset"):
        model.score(X, y, offset=y)


def test_a_column_of_offsets_is_no_feature(policies: Any) -> None:
    X, y = policies
    with pytest.raises(ValueError, match=r"^shapes: features must be names or indices"):
        TPNNRegressor(**POISSON, exposure="years", shapes={1: "increasing"}).fit(X, y)
    with pytest.raises(ValueError, match=r"^exposure: a feature is needed besides it"):
        TPNNRegressor(**POISSON, exposure="years").fit(X[["years"]], y)
    with pytest.raises(ValueError, match=r"^exposure: features must be names or indices of col"):
        TPNNRegressor(**POISSON, exposure="nobody").fit(X, y)


def test_more_than_two_classes_have_no_offset(policies: Any) -> None:
    X, _ = policies
    with pytest.raises(ValueError, match=r"^offset: two classes are needed"):
        TPNNClassifier(**QUICK, offset="years").fit(X, np.arange(300) % 3)


def test_the_report_reads_the_column(policies: Any, tmp_path: Path) -> None:
    X, y = policies
    features, known = X.drop(columns="years"), np.log(X["years"].to_numpy())
    column = TPNNRegressor(**POISSON, exposure="years").fit(X, y)
    by_hand = TPNNRegressor(**POISSON).fit(features, y, offset=known)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        column.report(tmp_path / "column.html", X, y)
        by_hand.report(tmp_path / "by_hand.html", features, y, offset=known)
    found, expected = (payload(tmp_path / f"{name}.html") for name in ("column", "by_hand"))
    own = {"settings", "written", "digest", "offset"}  # of the column; the minute
    assert found.keys() == expected.keys() > own
    assert all(found[name] == expected[name] for name in expected.keys() - own)
    assert found["offset"] == {"name": "years", "isExposure": True}
    assert expected["offset"] == {"name": None, "isExposure": False}
    with pytest.warns(UserWarning, match=r"^offset: this model was fitted with an offset"):
        by_hand.report(tmp_path / "without.html", features, y)


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_tables_of_other_libraries(library: str, policies: Any) -> None:
    module = pytest.importorskip(library)
    X, y = policies
    rows = X.drop(columns="region")
    other = module.table(dict(rows)) if library == "pyarrow" else module.DataFrame(dict(rows))
    one, two = (TPNNRegressor(**POISSON, exposure="years").fit(table, y) for table in (rows, other))
    assert np.array_equal(one.predict(rows), two.predict(other))
