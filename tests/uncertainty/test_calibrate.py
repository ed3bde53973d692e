"""Prediction intervals: what they promise, where they come from, and what they refuse."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import QUICK, with_solver
from tests.models import with_evidence
from tpnn import TPNNClassifier, TPNNRegressor, TPNNSurvival, load
from tpnn.model.intervals import score_at
from tpnn.uncertainty.calibrate import held_out_rows

SETTINGS = {**with_solver(QUICK, max_rounds=80), "n_bags": 4}
N_TRAINING, N_TEST = 1500, 20_000
SMALLEST, LARGEST = 0.87, 0.93  # of coverages around 0.9; of 1,000 scores the error is 0.01


def sample(n_rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Noise that is ten times as large at one end of ``a`` as at the other, and in group "q"."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.random(n_rows), "b": rng.normal(size=n_rows)})
    X["group"] = rng.choice(["p", "q"], n_rows, p=[0.8, 0.2])
    noise = (0.1 + X["a"]) * np.where(X["group"] == "q", 3.0, 1.0)
    return X, np.sin(X["b"]) + X["a"] + noise * rng.standard_t(5, n_rows)


@pytest.fixture(scope="module")
def fitted() -> TPNNRegressor:
    return TPNNRegressor(**SETTINGS).fit(*sample(N_TRAINING, 0))


def inside(model: Any, X: Any, y: Any, *arguments: Any, **named: Any) -> Any:
    lower, upper = model.predict_interval(X, *arguments, **named)
    return (lower <= y) & (y <= upper)


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.95])
def test_new_rows_lie_inside_as_often_as_promised(fitted: Any, coverage: float) -> None:
    X, y = sample(N_TEST, 1)
    error = np.sqrt(coverage * (1 - coverage) / N_TRAINING)
    assert abs(inside(fitted, X, y, coverage).mean() - coverage) < 4 * error


def test_the_width_follows_the_noise(fitted: Any) -> None:
    X, y = sample(N_TEST, 1)
    covered = inside(fitted, X, y)
    for part in (X["a"] < 0.25, X["a"] > 0.75):
        assert SMALLEST - 0.03 < covered[part].mean() < LARGEST + 0.03
    lower, upper = fitted.predict_interval(X)
    width = upper - lower
    assert width[X["a"] > 0.9].mean() > 3 * width[X["a"] < 0.1].mean()


def test_groups_are_covered_one_by_one(fitted: Any) -> None:
    X, y = sample(N_TEST, 1)
    covered = inside(fitted, X, y, by="group")
    for group in ("p", "q"):
        assert SMALLEST - 0.03 < covered[X["group"] == group].mean() < LARGEST + 0.03
    same = inside(fitted, X, y, by=2)
    assert np.array_equal(covered, same)


def unbalanced(n_rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Three classes, of which one has 6 % of the rows."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n_rows, 2)), columns=["a", "b"])
    scores = np.column_stack([X["a"], 0 * X["a"], X["b"] - 2.8]) + rng.gumbel(size=(n_rows, 3))
    return X, np.array(["p", "q", "rare"])[scores.argmax(1)]


@pytest.mark.parametrize("classes", [2, 3])
def test_each_class_is_covered_by_sets_of_its_own(classes: int, tmp_path: Path) -> None:
    """Without it the rare class is in hardly any set. A saved model has the same sets."""

    def labels(y: np.ndarray) -> np.ndarray:
        return y if classes == 3 else np.where(y == "rare", "rare", "other")

    X, y = unbalanced(2500, 0)
    model = TPNNClassifier(**SETTINGS).fit(X, labels(y))
    X, y = unbalanced(N_TEST, 1)
    numbers = np.searchsorted(model.classes_, labels(y))
    plain, sets = (model.predict_interval(X, 0.8, by=by) for by in (None, "class"))
    n_held_out = 2500 / 3  # of four bags, each holding out a tenth; the share of the rare class
    for number, name in enumerate(model.classes_):
        here = numbers == number
        error = np.sqrt(0.16 / (n_held_out * here.mean()))
        assert sets[here, number].mean() > 0.8 - 3 * error
        if name == "rare":
            assert sets[here, number].mean() < 0.8 + 3 * error
            assert plain[here, number].mean() < 0.35
    model.model_.save(tmp_path / "model")
    again = load(tmp_path / "model").model_.predict_interval(X, 0.8, by="class")
    assert np.array_equal(again, sets)


def test_a_feature_called_class_comes_before_the_classes() -> None:
    X, y = unbalanced(600, 0)
    X["class"] = np.random.default_rng(0).choice(["u", "v"], 600)
    model = TPNNClassifier(**QUICK).fit(X, y)
    with pytest.raises(ValueError, match="in every group of 'class'"):
        model.predict_interval(X, 0.9999, by="class")


@pytest.mark.parametrize("objective", ["poisson", "gamma", "tweedie"])
def test_intervals_of_amounts_cover_and_are_never_negative(objective: str) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(6000, 2)), columns=["a", "b"])
    years = rng.uniform(0.5, 2, 6000)
    means = years * np.exp(1 + X["a"])
    y = rng.gamma(2.0, means / 2) if objective == "gamma" else rng.poisson(means)
    model = TPNNRegressor(**SETTINGS, objective=objective)
    offset = np.log(years)
    model.fit(X[:2000], y[:2000], offset=offset[:2000])
    lower, upper = model.predict_interval(X[2000:], offset=offset[2000:])
    assert lower.min() >= 0
    covered = ((lower <= y[2000:]) & (y[2000:] <= upper)).mean()
    assert SMALLEST < covered < LARGEST + (0.03 if objective != "gamma" else 0)  # whole numbers


def test_robust_losses_have_intervals_too(fitted: Any) -> None:
    X, y = sample(N_TEST, 1)
    for objective in ("absolute_error", "huber"):
        model = TPNNRegressor(**SETTINGS, objective=objective).fit(*sample(N_TRAINING, 0))
        assert SMALLEST < inside(model, X, y).mean() < LARGEST


def test_several_targets_have_intervals_of_their_own() -> None:
    X, y = sample(N_TRAINING, 0)
    X_test, y_test = sample(N_TEST, 1)
    both, both_test = (np.column_stack([t, 3 * x["b"] + t]) for x, t in ((X, y), (X_test, y_test)))
    covered = inside(TPNNRegressor(**SETTINGS).fit(X, both), X_test, both_test)
    assert ((covered.mean(0) > SMALLEST) & (covered.mean(0) < LARGEST)).all()


@pytest.mark.parametrize("task", ["numbers", "classes"])
def test_the_remainder_of_held_out_rows_counts(task: str) -> None:
    """One bag is the model itself, and values that are nodes leave nothing to interpolate."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 6, (600, 4)).astype(float), columns=list("abcd"))
    y = X["a"] * X["b"] / 5 + (X["c"] > X["d"]) * X["a"] + rng.normal(size=600)
    settings = {**QUICK, "bands": False, "n_bags": 1, "remainder": True, "max_components": 3}
    if task == "classes":
        model: Any = TPNNClassifier(**settings).fit(X, np.digitize(y, [2.0, 4.0]))
    else:
        model = TPNNRegressor(**settings).fit(X, y)
    solved = model._fitted_.solved
    rows = held_out_rows(solved.problem, solved.solution, model.model_)
    assert rows is not None
    X = X.iloc[solved.problem.distinct.rows[rows.places]]
    raw = model.model_.raw_scores(X).reshape(rows.raw.shape)
    assert model.model_.remainder_scores(X).std() > 0.01
    assert rows.raw == pytest.approx(raw, abs=1e-5)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_sets_of_classes_hold_the_class_as_often_as_promised(n_classes: int) -> None:
    def classes(n_rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
        rng = np.random.default_rng(seed)
        X = pd.DataFrame(rng.normal(size=(n_rows, 2)), columns=["a", "b"])
        X["group"] = rng.choice(["p", "q"], n_rows)
        noise = rng.gumbel(size=(n_rows, n_classes)) * np.where(X["group"] == "q", 3, 1)[:, None]
        centres = np.column_stack([X["a"] * k + X["b"] * (-1) ** k for k in range(n_classes)])
        return X, np.array(list("wxyz"))[(centres + noise).argmax(1)]

    model = TPNNClassifier(**SETTINGS).fit(*classes(N_TRAINING, 0))
    X, labels = classes(N_TEST, 1)
    codes = np.searchsorted(model.classes_, labels)
    sets = model.predict_interval(X)
    assert sets.shape == (N_TEST, n_classes)
    assert sets.dtype == bool
    assert SMALLEST < sets[np.arange(N_TEST), codes].mean() < LARGEST
    assert sets.any(1).all()
    best = model.predict_proba(X).argmax(1)
    assert sets[np.arange(N_TEST), best].all()
    by_group = model.predict_interval(X, by="group")[np.arange(N_TEST), codes]
    for group in ("p", "q"):
        assert SMALLEST - 0.03 < by_group[X["group"] == group].mean() < LARGEST + 0.03


def test_the_score_is_the_conformal_quantile() -> None:
    """Of n scores the k-th smallest, k = ceil(coverage (n + 1)): the rank of split conformal."""
    scores = np.sort(np.random.default_rng(0).random(99))[:, None]
    for coverage in (0.1, 0.5, 0.9, 0.99):
        assert score_at(scores, coverage, "")[0] == scores[int(np.ceil(coverage * 100)) - 1, 0]


def test_files_keep_the_intervals(fitted: Any, tmp_path: Path) -> None:
    X, _ = sample(50, 2)
    fitted.model_.save(tmp_path / "model.tpnn")
    fitted.model_.to_json(tmp_path / "model.json")
    wanted = fitted.predict_interval(X, by="group")
    for name in ("model.tpnn", "model.json"):
        loaded = load(tmp_path / name)
        assert np.array_equal(loaded.predict_interval(X, by="group"), wanted)
        assert np.array_equal(load(tmp_path / name).model_.predict_interval(X, by="group"), wanted)
        errors = loaded.predict(X, return_std=True)[1]
        assert np.array_equal(errors, fitted.predict(X, return_std=True)[1])


def test_order_columns_and_copies_of_rows_change_nothing() -> None:
    X, y = sample(300, 0)
    one = TPNNRegressor(**QUICK).fit(X, y).predict_interval(X)
    moved = TPNNRegressor(**QUICK).fit(X[["group", "b", "a"]], y).predict_interval(X)
    order = np.random.default_rng(0).permutation(np.tile(np.arange(300), 2))
    twice = TPNNRegressor(**QUICK).fit(X.iloc[order], y.iloc[order]).predict_interval(X)
    assert np.allclose(one, moved, rtol=1e-6)
    assert np.array_equal(one, twice)


def test_models_of_a_path_have_intervals(fitted: Any) -> None:
    X, y = sample(N_TEST, 1)
    smaller = fitted.path().model(2)
    assert SMALLEST < inside(smaller, X, y).mean() < LARGEST


@pytest.mark.parametrize("coverage", [0, 1, -0.1, "90", None, True, np.nan])
def test_what_is_no_share_is_refused(fitted: Any, coverage: Any) -> None:
    with pytest.raises(ValueError, match=r"^coverage: must be a number above 0 and below 1, found"):
        fitted.predict_interval(sample(5, 0)[0], coverage)


def test_too_few_rows_for_a_coverage_are_refused() -> None:
    X, y = sample(60, 0)
    model = TPNNRegressor(**QUICK).fit(X, y)
    model.predict_interval(X, 0.5)
    with pytest.raises(ValueError, match=r"^coverage: 0.999 needs at least 999 held-out rows, fo"):
        model.predict_interval(X, 0.999)


def test_groups_that_cannot_be_are_refused(fitted: Any) -> None:
    X, _ = sample(20, 0)
    with pytest.raises(ValueError, match=r"^by: must be a feature with few values.*'group'"):
        fitted.predict_interval(X, by="a")
    with pytest.raises(ValueError, match=r"^by: features must be names or indices"):
        fitted.predict_interval(X, by="nothing")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # levels that fit has not seen
        with pytest.raises(ValueError, match=r"^by: .* rows have values of 'group' that no held"):
            fitted.predict_interval(X.assign(group="new"), by="group")


def test_numbers_between_the_groups_are_refused() -> None:
    X, y = sample(600, 0)
    X["grade"] = np.random.default_rng(0).integers(0, 3, 600).astype(float)
    model = TPNNRegressor(**QUICK, components=[("grade",), ("a",), ("b",)]).fit(X, y)
    model.predict_interval(X, by="grade")
    with pytest.raises(ValueError, match=r"^by: 600 of .* rows have values of 'grade' that"):
        model.predict_interval(X.assign(grade=0.5), by="grade")


def test_models_without_calibration_say_so(fitted: Any) -> None:
    X, y = sample(60, 0)
    quantile = TPNNRegressor(**QUICK, objective="quantile").fit(X, y)
    times = np.column_stack([np.abs(y), np.ones(len(y))])
    survival = TPNNSurvival(**QUICK).fit(X, times)
    part = fitted.model_.restrict(list(fitted.model_.components)[:1])
    for model in (quantile, survival, part, with_evidence(fitted.model_, calibration=None)):
        with pytest.raises(ValueError, match=r"^predict_interval: this model was not calibrated"):
            model.predict_interval(X)


def test_files_without_evidence_say_so() -> None:
    folder = Path(__file__).parents[1] / "reference" / "version_1"
    for path in folder.glob("*.tpnn"):
        with pytest.raises(ValueError, match=r"^predict_interval: this model was not calibrated"):
            load(path).model_.predict_interval(np.zeros((1, 1)))
        with pytest.raises(ValueError, match=r"^return_std: this model has no bands"):
            load(path).model_.standard_errors(np.zeros((1, 1)))
