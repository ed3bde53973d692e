"""Rows of X_val decide when growth stops and what is kept, and do nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tpnn import Grow, TPNNClassifier, TPNNRegressor, TPNNSurvival, fingerprint

QUICK: Any = {"n_bags": 2, "random_state": 0, "verbose": 0}
PAIRS: Any = {**QUICK, "order": 2, "bands": False}


def rows(n_rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.normal(size=n_rows), "b": rng.normal(size=n_rows)})
    X["town"] = rng.choice(["x", "y", "z"], n_rows)
    X.loc[rng.random(n_rows) < 0.1, "b"] = np.nan
    signal = X["a"] * X["b"].fillna(1.0) + (X["town"] == "x")
    return X, (signal + 0.3 * rng.normal(size=n_rows)).to_numpy()


X, Y = rows(400, 0)
X_VAL, Y_VAL = rows(200, 1)


def same(one: Any, other: Any) -> bool:
    tables = zip(one.model_.tables, other.model_.tables, strict=True)
    return one.components_ == other.components_ and all(np.array_equal(a, b) for a, b in tables)


def test_nodes_and_masses_are_those_of_x() -> None:
    far = X_VAL.assign(a=1000 * X_VAL["a"], town="w")
    far.loc[100:, "town"] = "x"
    with pytest.warns(UserWarning, match=r"^X_val: rows with levels.* found 100 of 200 rows"):
        model = TPNNRegressor(**PAIRS).fit(X, Y, X_val=far, y_val=Y_VAL)
    for order, axes in TPNNRegressor(**PAIRS).fit(X, Y).model_.encoder.axes.items():
        for axis, other in zip(axes, model.model_.encoder.axes[order], strict=True):
            assert np.array_equal(axis.values, other.values)
            assert np.array_equal(axis.weights, other.weights)
    assert model.model_.encoder.features[2].levels == ("x", "y", "z")
    provenance = model.model_.provenance
    assert (provenance.n_rows, provenance.fingerprint) == (400, fingerprint(X, Y))


def test_values_depend_on_them_through_choices_alone() -> None:
    """Levels have no widths to choose, and three rounds are too few to stop before their end."""
    levels = pd.DataFrame(
        {c: np.digitize(X["a"] + i, [0, 1]).astype(str) for i, c in enumerate("ab")}
    )
    others = pd.DataFrame(
        {c: np.digitize(X_VAL["a"] + i, [0, 1]).astype(str) for i, c in enumerate("ab")}
    )
    settings = {**QUICK, "interactions": [], "bands": False, "solver": Grow(max_rounds=3)}
    model, half, none = (
        TPNNRegressor(**settings).fit(levels, X["a"], X_val=some, y_val=target)
        for some, target in [
            (others, X_VAL["a"]), (others[::2], X_VAL["a"][::2]), (others, -5 * X_VAL["a"]),
        ]
    )  # fmt: skip
    assert same(model, half)
    assert model.intercept_ == pytest.approx(half.intercept_, abs=1e-12)
    assert not same(model, none), "rows that speak against all rounds end growth at once"


def test_all_bags_train_on_all_rows() -> None:
    model = TPNNRegressor(**PAIRS).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    problem = model._fitted_.solved.problem
    held_out = problem.rows.validation > 0
    assert (problem.rows.training > 0).sum(0).tolist() == [400, 400]
    assert held_out.sum(0).tolist() == [200, 200]
    assert not (held_out & (problem.rows.training > 0)).any()
    assert np.mean(model.predict(X)) == pytest.approx(np.mean(Y), abs=1e-9)
    assert model.score(*rows(500, 2)) > 0.7
    deviations = [float(spread.max()) for spread in model.model_.evidence.spreads]
    assert max(deviations) > 0, "bags differ by their random draws"


def test_order_copies_and_weights_of_rows() -> None:
    def fit(*arguments: Any, **named: Any) -> TPNNRegressor:
        return TPNNRegressor(**PAIRS).fit(*arguments, **named)

    model = fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    order = np.random.default_rng(0).permutation(200)
    assert same(model, fit(X, Y, X_val=X_VAL.iloc[order], y_val=Y_VAL[order]))
    twice = pd.concat([X_VAL, X_VAL])
    assert same(model, fit(X, Y, X_val=twice, y_val=np.tile(Y_VAL, 2)))
    weights = np.repeat([1.0, 3.0, 0.0], [400, 120, 80])
    odd = np.append(Y_VAL[:120], -5 * Y_VAL[120:])
    weighted = fit(X, Y, weights, X_val=X_VAL, y_val=odd)
    assert same(weighted, fit(X, Y, X_val=X_VAL[:120], y_val=odd[:120]))
    assert not same(weighted, fit(X, Y, X_val=X_VAL, y_val=odd))


def test_noise_ends_growth_early() -> None:
    """A model that stops on targets without a relation to the features stays close to its mean."""
    shuffled = np.random.default_rng(1).permutation(Y_VAL)
    settings = {**QUICK, "remainder": False, "bands": False}
    good = TPNNRegressor(**settings).fit(X, Y, X_val=X_VAL, y_val=Y_VAL).predict(X)
    idle = TPNNRegressor(**settings).fit(X, Y, X_val=X_VAL, y_val=shuffled).predict(X)
    assert np.std(idle) < 0.3 * np.std(good)


def test_bands_intervals_and_path() -> None:
    model = TPNNRegressor(**QUICK).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    fresh, target = rows(2000, 3)
    low, high = model.predict_interval(fresh, 0.9)
    assert np.mean((low <= target) & (target <= high)) == pytest.approx(0.9, abs=0.06)
    assert len(model.explain().importance()) == len(model.components_) + (
        model.model_.remainder is not None
    )
    assert model.path().steps


def test_classes_and_class_weights() -> None:
    label, label_val = np.where(Y > 1, "high", "low"), np.where(Y_VAL > 1, "high", "low")
    settings = {**PAIRS, "class_weight": "balanced"}
    model = TPNNClassifier(**settings).fit(X, label, X_val=X_VAL, y_val=label_val)
    counts = {name: np.mean(label == name) for name in model.classes_}
    weights = np.array([0.5 / counts[one] for one in [*label, *label_val]])
    other = TPNNClassifier(**PAIRS).fit(X, label, weights, X_val=X_VAL, y_val=label_val)
    rounded = zip(model.model_.tables, other.model_.tables, strict=True)
    assert all(np.allclose(one, two, atol=0.05) for one, two in rounded)
    with pytest.raises(
        ValueError, match=r"^y_val: labels must be among those of y, found \['no'\]"
    ):
        TPNNClassifier(**PAIRS).fit(X, label, X_val=X_VAL[:3], y_val=["low", "no", "low"])


def test_survival() -> None:
    life, life_val = (np.column_stack([np.exp(-y), np.arange(len(y)) % 3 > 0]) for y in (Y, Y_VAL))
    model = TPNNSurvival(**PAIRS).fit(X, life, X_val=X_VAL, y_val=life_val)
    assert set(model.event_times_) <= set(life[:, 0]), "the baseline is that of X"
    assert model.score(X, life) > 0.75
    with pytest.raises(ValueError, match=r"^y_val: at least one event must be observed"):
        TPNNSurvival(**PAIRS).fit(X, life, X_val=X_VAL, y_val=life_val * [1, 0])


def test_columns_are_found_by_name_in_tables_of_any_library() -> None:
    model = TPNNRegressor(**PAIRS).fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    records = X_VAL[["town", "b", "a"]].to_dict("records")
    assert same(model, TPNNRegressor(**PAIRS).fit(X, Y, X_val=records, y_val=Y_VAL.tolist()))
    categories = X_VAL.assign(town=X_VAL["town"].astype("category"))
    assert same(model, TPNNRegressor(**PAIRS).fit(X, Y, X_val=categories, y_val=Y_VAL))


def test_an_offset_column_is_read_from_both() -> None:
    counts = np.random.default_rng(0).poisson(np.exp(0.5 * X["a"]))
    settings = {**PAIRS, "objective": "poisson"}
    one, other = X.assign(years=1.0 + (X["a"] > 0)), X_VAL.assign(years=2.0)
    named = TPNNRegressor(**settings, exposure="years").fit(
        one, counts, X_val=other, y_val=np.round(np.exp(Y_VAL))
    )
    offset = np.log(np.append(one["years"], other["years"]))
    passed = TPNNRegressor(**settings).fit(
        X, counts, offset=offset, X_val=X_VAL, y_val=np.round(np.exp(Y_VAL))
    )
    assert same(named, passed)
    assert np.sum(named.predict(one)) == pytest.approx(counts.sum())


def test_growth_goes_on_with_the_same_rows() -> None:
    rounds = {"order": 2, "remainder": False}
    first = TPNNRegressor(**QUICK | rounds, solver=Grow(max_rounds=5))
    first.fit(X, Y, X_val=X_VAL, y_val=Y_VAL)
    more = TPNNRegressor(**QUICK | rounds, solver=Grow(max_rounds=7))
    more.fit(X, Y, start=first, X_val=X_VAL, y_val=Y_VAL)
    whole = TPNNRegressor(**QUICK | rounds, solver=Grow(max_rounds=12))
    assert same(more, whole.fit(X, Y, X_val=X_VAL, y_val=Y_VAL))


def test_files(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    for name, (table, target) in {"one": (X, Y), "two": (X_VAL, Y_VAL)}.items():
        table.assign(y=target, w=1.0 + np.arange(len(table)) % 2).to_parquet(
            tmp_path / f"{name}.parquet"
        )
    one, two = (str(tmp_path / f"{name}.parquet") for name in ("one", "two"))
    weights = np.concatenate([1.0 + np.arange(len(table)) % 2 for table in (X, X_VAL)])
    model = TPNNRegressor(**PAIRS).fit(X, Y, weights, X_val=X_VAL, y_val=Y_VAL)
    assert same(model, TPNNRegressor(**PAIRS).fit(one, "y", "w", X_val=two))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"X_val": X_VAL}, "y_val: is needed with X_val"),
        ({"y_val": Y_VAL}, "X_val: is needed with y_val"),
        ({"X_val": X_VAL[["a", "b"]], "y_val": Y_VAL}, r"X_val: the columns of X .* \['town'\]"),
        ({"X_val": X_VAL.to_numpy()[:, :2], "y_val": Y_VAL}, "X_val: as many columns as in X"),
        (
            {"X_val": X_VAL.assign(a="q"), "y_val": Y_VAL},
            "X_val: column 'a' must hold what it holds",
        ),
        ({"X_val": X_VAL, "y_val": Y_VAL * np.nan}, "y_val: every target must be finite"),
        ({"X_val": X_VAL, "y_val": Y_VAL[1:]}, "y: one value per row of X is needed, found 599"),
        (
            {"X_val": X_VAL, "y_val": Y_VAL, "sample_weight": np.ones(400)},
            "sample_weight: with X_val, a value is needed .* 400 and 200, found 400",
        ),
        (
            {"X_val": X_VAL, "y_val": Y_VAL, "groups": np.arange(600) % 500},
            "groups: no group may have rows in X and in X_val, found 100",
        ),
        (
            {"X_val": X_VAL, "y_val": Y_VAL, "sample_weight": np.repeat([1, 0], [400, 200])},
            "sample_weight: a row of X_val must have a positive weight",
        ),
        (
            {"X_val": X_VAL.assign(town="new"), "y_val": Y_VAL},
            "X_val: rows are needed whose levels",
        ),
        ({"X_val": "rows.parquet", "y_val": "y"}, "X_val: must be in files if X is"),
    ],
)
def test_refusals(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=f"^{words}"):
        TPNNRegressor(**PAIRS).fit(X, Y, **arguments)


def test_importances_of_features() -> None:
    model = TPNNRegressor(**PAIRS).fit(X.assign(constant=1.0), Y)
    by_component, sums = model.explain().importance(), dict.fromkeys([*X.columns, "constant"], 0.0)
    for component, size in by_component.items():
        for name in component:
            sums[name] += size
    assert model.feature_importances_ == pytest.approx(list(sums.values()))
    assert model.feature_importances_[-1] == 0
    assert not hasattr(TPNNRegressor(), "feature_importances_")
    assert TPNNRegressor(**PAIRS).fit(X[["a", "b"]].to_numpy(), Y).feature_importances_.shape == (
        2,
    )
