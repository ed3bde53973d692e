"""missing="impute": components of the complete table, and bands that know what is not known."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import tpnn
from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival
from tpnn.estimators import base, imputation

QUICK: dict[str, Any] = {"n_bags": 2, "order": 1, "random_state": 0, "verbose": 0}
FILLED: dict[str, Any] = {**QUICK, "missing": "impute"}


def drawn(n_rows: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """Complete table, table with gaps by what is seen, and targets."""
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(n_rows, 3))
    X = pd.DataFrame({"a": 0.8 * base[:, 0] + 0.6 * base[:, 1], "b": base[:, 0], "c": base[:, 2]})
    X["town"] = np.where(base[:, 0] + base[:, 2] > 0, "Bonn", "Ulm")
    y = X["a"] + np.sin(2 * X["b"]) + 0.5 * rng.normal(size=n_rows)
    gaps = X.copy()
    gaps.loc[rng.random(n_rows) < 1 / (1 + np.exp(1 - y)), "a"] = np.nan
    gaps.loc[rng.random(n_rows) < 0.1, "town"] = None
    return X, gaps, y.to_numpy()


def covered(model: TPNNRegressor, X: pd.DataFrame) -> list[float]:
    """Shares of the bands of a and b that hold the effects of the complete table."""
    shares = []
    for name, effect in {"a": lambda a: a, "b": lambda b: np.sin(2 * b)}.items():
        frame = model.explain().component(name).to_frame()
        frame = frame[frame[name].notna()]
        truth = effect(frame[name].astype(float)) - effect(X[name]).mean()
        inside = (frame["lower"] <= truth) & (truth <= frame["upper"])
        shares.append(float(inside.mean()))
    return shares


def test_bands_cover_the_effects_of_the_complete_table() -> None:
    """Rows with large targets lack a: with a node for missing values bands miss both effects."""
    by_node, by_draws = [], []
    for seed in range(4):
        X, gaps, y = drawn(600, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            by_node += covered(TPNNRegressor(**QUICK).fit(gaps, y), X)
        by_draws += covered(TPNNRegressor(**FILLED).fit(gaps, y), X)
    assert np.mean(by_draws) > 0.9 > 0.85 > np.mean(by_node)


def test_errors_of_lines_are_those_of_rubin() -> None:
    """Without a prior the model is least squares, and so are the fits to single draws."""
    _, gaps, y = drawn(400, 1)
    shapes = {"a": "linear", "b": "linear"}
    model = TPNNRegressor(**{**FILLED, "shapes": shapes}).fit(gaps[["a", "b"]], y)
    problem = model._fitted_.kept.problem
    table, draws = problem.codes.table, problem.targets.draws
    slopes, squares = [], []
    for draw in range(draws.n_draws):
        rows = (draws.numbers < 0) | (draws.numbers == draw)
        columns = [table.column(j).values[rows] for j in (0, 1)]
        design = np.column_stack([*columns, np.ones(rows.sum())])
        beta, rest = np.linalg.lstsq(design, problem.targets.y[rows, 0], rcond=None)[:2]
        covariance = rest[0] / (len(design) - 3) * np.linalg.inv(design.T @ design)
        slopes.append(beta[:2])
        squares.append(np.diag(covariance)[:2])
    between = (1 + 1 / len(slopes)) * np.var(slopes, axis=0, ddof=1)
    for j, name in enumerate("ab"):
        found = model.explain().contrast(name, 1.0, 0.0)
        assert found.difference == pytest.approx(np.mean(slopes, 0)[j], abs=0.01)
        expected = np.sqrt(np.mean(squares, 0)[j] + between[j])
        assert found.error == pytest.approx(expected, rel=0.1)
        assert found.error > 1.05 * np.sqrt(np.mean(squares, 0)[j])


def test_draws_of_a_row_stay_together_and_have_its_weight() -> None:
    _, gaps, y = drawn(200, 2)
    weights = np.random.default_rng(0).integers(0, 3, 200).astype(float)
    model = TPNNRegressor(**FILLED).fit(gaps, y, weights)
    problem = model._fitted_.kept.problem
    distinct, held_out = problem.distinct, problem.rows.validation > 0
    sums = np.bincount(distinct.groups, distinct.weights)
    is_gap = problem.targets.draws.numbers[distinct.rows] >= 0
    counts = np.bincount(distinct.groups)
    assert set(counts[distinct.groups[is_gap]]) == {problem.targets.draws.n_draws}
    assert set(counts[distinct.groups[~is_gap]]) == {1}
    np.testing.assert_allclose(np.sort(sums), np.sort(weights[weights > 0]) / weights.sum())
    assert distinct.size == weights.sum()
    for group in np.unique(distinct.groups[is_gap]):
        assert len(np.unique(held_out[distinct.groups == group], axis=0)) == 1


def test_order_of_rows_and_columns_and_threads_change_nothing() -> None:
    X, gaps, y = drawn(200, 3)
    model = TPNNRegressor(**FILLED).fit(gaps, y)
    rows = np.random.default_rng(0).permutation(len(y))
    again = TPNNRegressor(**FILLED, n_jobs=1).fit(gaps.iloc[rows], y[rows])
    np.testing.assert_array_equal(model.predict(X), again.predict(X))
    turned = TPNNRegressor(**FILLED).fit(gaps[gaps.columns[::-1]], y)
    np.testing.assert_allclose(model.predict(X), turned.predict(X), rtol=1e-12)


@pytest.mark.parametrize("kind", ["two", "three", "counts", "quantiles", "targets", "cox"])
def test_every_task(kind: str, tmp_path: Path) -> None:
    """Fits do not need the values that are missing, and leave no node for them."""
    X, gaps, y = drawn(200, 4)
    rng = np.random.default_rng(0)
    times = rng.exponential(np.exp(-y))
    model, target = {
        "two": (TPNNClassifier(**FILLED), y > 0),
        "three": (TPNNClassifier(**FILLED), np.digitize(y, [-0.5, 0.5])),
        "counts": (TPNNRegressor(**FILLED, objective="poisson"), rng.poisson(np.exp(y / 2))),
        "quantiles": (TPNNRegressor(**FILLED, objective="quantile"), y),
        "targets": (TPNNRegressor(**FILLED), np.column_stack([y, -y])),
        "cox": (TPNNSurvival(**FILLED), np.column_stack([times, times < 2])),
    }[kind]
    model = clone(model).fit(gaps, target)
    assert not any(axis.has_missing for axis in model.model_.encoder.axes[1])
    risks = model.model_.component_scores(X)
    slope = risks.reshape(len(X), len(model.components_), -1)[
        :, model.components_.index(("a",)), -1
    ]
    sign = -1 if kind == "targets" else 1
    assert np.corrcoef(slope, sign * X["a"])[0, 1] > 0.8
    model.model_.save(tmp_path / "model.tpnn")
    loaded = tpnn.load(tmp_path / "model.tpnn")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_a_gap_contributes_the_average_in_predict_and_in_exports() -> None:
    X, gaps, y = drawn(200, 5)
    model = TPNNRegressor(**FILLED).fit(gaps, y)
    row = X.iloc[[0]].assign(a=np.nan)
    with pytest.warns(UserWarning, match="contribute 0"):
        predicted = model.predict(row)
    place = model.components_.index(("a",))
    whole = model.model_.component_scores(X.iloc[[0]])
    assert predicted[0] == pytest.approx(model.predict(X.iloc[[0]])[0] - whole[0, place])
    names: dict[str, Any] = {}
    exec(model.model_.to_code("python"), names)
    record = {name: None if value != value else value for name, value in row.iloc[0].items()}
    assert names["score"](record)["prediction"] == pytest.approx(predicted[0])


def test_without_gaps_nothing_changes() -> None:
    X, _, y = drawn(150, 6)
    one, two = (TPNNRegressor(**settings).fit(X, y) for settings in (QUICK, FILLED))
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    assert two.get_params()["categorical"] == {"features": "auto", "missing": "impute"}


def test_few_complete_rows_suffice() -> None:
    """No row is complete, so the first pilot is fitted to draws."""
    X, _, y = drawn(300, 7)
    gaps = X[["a", "b", "c"]].copy()
    lost = np.random.default_rng(0).integers(0, 3, len(y))
    for number, name in enumerate(gaps):
        gaps.loc[lost == number, name] = np.nan
    model = TPNNRegressor(**FILLED).fit(gaps, y)
    assert np.corrcoef(model.predict(X[["a", "b", "c"]]), X["a"] + np.sin(2 * X["b"]))[0, 1] > 0.9


def test_what_is_not_supported_is_refused(tmp_path: Path) -> None:
    X, gaps, y = drawn(60, 8)
    model = TPNNRegressor(**QUICK).fit(X, y)
    with pytest.raises(ValueError, match=r"^start: .*starts from nothing, found a model"):
        TPNNRegressor(**FILLED).fit(gaps, y, start=model)
    with pytest.raises(ValueError, match=r"^categorical: must be .*found .*'guess'"):
        TPNNRegressor(**{**QUICK, "missing": "guess"}).fit(gaps, y)


def test_one_warning_names_columns_with_gaps_that_others_stand_in_for() -> None:
    _, gaps, y = drawn(400, 9)
    with pytest.warns(UserWarning, match="^X: missing values bias") as caught:
        model = TPNNRegressor(**QUICK).fit(gaps, y)
    text = str(caught[0].message)
    for words in ("'a' is missing in", "with 'b'", "'town' is missing in", 'missing="impute"'):
        assert words in text
    notes = [event["note"] for event in model.history_ if event["stage"] == "table"]
    assert len(notes) == 2
    assert all(note in text for note in notes)


@pytest.mark.parametrize("change", ["independent", "few"])
def test_no_warning_where_gaps_do_no_harm(change: str) -> None:
    X, _, y = drawn(400, 10)
    rng = np.random.default_rng(0)
    if change == "independent":
        X = X[["b"]].assign(d=np.where(rng.random(400) < 0.3, np.nan, rng.normal(size=400)))
    else:
        X.loc[:9, "a"] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TPNNRegressor(**{**QUICK, "bands": False}).fit(X, y)


@pytest.mark.parametrize("is_array", [False, True])
def test_the_column_of_an_offset_has_the_rows_of_the_draws(is_array: bool, tmp_path: Path) -> None:
    """The record of the rows is that of the table, so that a second fit finds its checkpoint."""
    whole, gaps, y = drawn(150, 3)
    whole, gaps = (one[["a", "b"]].assign(offset=np.arange(150) / 100) for one in (whole, gaps))
    X, name = (gaps.to_numpy(), 2) if is_array else (gaps, "offset")
    new = whole.to_numpy() if is_array else whole
    model = TPNNRegressor(**FILLED, bands=False, offset=name)
    first = model.fit(X, y, checkpoint=tmp_path).predict(new)
    np.testing.assert_array_equal(model.fit(X, y, checkpoint=tmp_path).predict(new), first)
    problem = model._fitted_.kept.problem
    table = problem.codes.table
    np.testing.assert_array_equal(table.read_offset_column().values, problem.targets.offset.ravel())
    counts = TPNNRegressor(**FILLED, bands=False, objective="poisson", exposure=name)
    counts.fit(X[1:], np.arange(1, 150) % 4)


def test_the_time_limit_ends_the_draws_and_leaves_half_of_it_to_the_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, gaps, y = drawn(150, 3)
    deadlines, fit = [], base.run

    def noted(plan: Any, *others: Any) -> Any:
        deadlines.append(plan.inputs.limits.deadline)
        return fit(plan, *others)

    monkeypatch.setattr(base, "run", noted)
    TPNNRegressor(**FILLED, bands=False, time_limit=1e6).fit(gaps, y)
    assert len(deadlines) == 3
    assert max(deadlines[:2]) < deadlines[2] - 5e5
    deadlines.clear()
    hurried = TPNNRegressor(**FILLED, bands=False, time_limit=1e-6).fit(gaps, y)
    assert len(deadlines) == 1
    notes = [event["note"] for event in hurried.history_ if event["stage"] == "limit"]
    assert "the time limit ended the draws of missing values after 0 of 2 rounds" in notes


@pytest.mark.parametrize("objective", ["squared_error", "negative_binomial"])
def test_candidates_are_in_memory_for_some_rows_at_a_time(
    monkeypatch: pytest.MonkeyPatch, objective: str
) -> None:
    whole, gaps, y = drawn(150, 3)
    counts = np.round(np.exp(y / 4))
    model = TPNNRegressor(**FILLED, bands=False, objective=objective)
    expected = model.fit(gaps, counts).predict(whole)
    sizes, scores = list[int](), imputation.Pilot.raw_scores

    def noted(pilot: Any, table: Any, offset: Any) -> Any:
        sizes.append(table.n_rows)
        return scores(pilot, table, offset)

    monkeypatch.setattr(imputation, "ROWS_PER_BLOCK", 5)
    monkeypatch.setattr(imputation.Pilot, "raw_scores", noted)
    np.testing.assert_array_equal(model.fit(gaps, counts).predict(whole), expected)
    candidates = [size for size in sizes if size != len(y)]  # all rows are those that are coupled
    assert candidates
    assert max(candidates) <= 5 * imputation.N_CANDIDATES
