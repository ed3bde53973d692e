"""Features whose values go in circles: the fit, what it promises, and bad input."""

from __future__ import annotations

import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import tpnn
from tpnn import TPNNClassifier, TPNNRegressor
from tpnn.anova.shapes import WRAPPED
from tpnn.model.constrain import constrain
from tpnn.table.axis import within_period

QUICK: dict[str, Any] = {"n_bags": 2, "order": 2, "random_state": 0, "bands": False, "verbose": 0}


def truth(X: pd.DataFrame) -> np.ndarray:
    turn = 2 * np.pi * X["hour"] / 24
    return np.asarray(np.cos(turn - 0.3) + 0.5 * X["load"] * np.sin(turn))


def drawn(n_rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    hours = np.where(rng.random(n_rows) < 0.05, np.nan, rng.uniform(0, 24, n_rows))
    frame = pd.DataFrame({"hour": hours, "load": rng.normal(size=n_rows)})
    return frame.assign(town=rng.choice(["Bonn", "Ulm"], n_rows))


def target(X: pd.DataFrame) -> np.ndarray:
    noise = np.random.default_rng(9).normal(size=len(X)) / 4
    return np.nan_to_num(truth(X)) + noise


@pytest.fixture(scope="module")
def rows() -> pd.DataFrame:
    return drawn(1200, 1)


@pytest.fixture(scope="module")
def fitted(rows: pd.DataFrame) -> TPNNRegressor:
    return TPNNRegressor(**QUICK, periodic={"hour": 24}).fit(rows, target(rows))


def test_whole_periods_change_no_bit(fitted: TPNNRegressor, rows: pd.DataFrame) -> None:
    """Eighths of an hour are exact in binary, so adding days to them is exact as well."""
    exact = rows.assign(hour=np.floor(8 * rows["hour"]) / 8)
    days = 24 * np.random.default_rng(2).integers(-3, 4, len(rows))
    moved = exact.assign(hour=exact["hour"] + days)
    one, two = (
        TPNNRegressor(**QUICK, periodic={"hour": 24}).fit(X, target(rows)) for X in (exact, moved)
    )
    np.testing.assert_array_equal(one.predict(exact), two.predict(exact))
    np.testing.assert_array_equal(one.predict(exact), one.predict(moved))


def test_the_function_has_no_jump_at_the_end_of_a_period(fitted: TPNNRegressor) -> None:
    for load in (-1.0, 0.7):
        ends = pd.DataFrame({"hour": [24 - 1e-9, 24.0, 0.0, -1e-9], "load": load, "town": "Ulm"})
        np.testing.assert_allclose(np.diff(fitted.predict(ends)), 0, atol=1e-6)
    certificate = fitted.model_.certificate("hour")
    assert (certificate.shape, certificate.minimum) == (WRAPPED, 0.0)
    assert ("hour", "load") in fitted.components_
    assert "periodic" in str(fitted.model_.summary())


def test_the_truth_is_found_on_both_sides_of_midnight(fitted: TPNNRegressor) -> None:
    new = drawn(2000, 3).dropna()
    errors = fitted.predict(new) - truth(new)
    late = (new["hour"] < 1) | (new["hour"] > 23)
    assert np.sqrt(np.mean(errors**2)) < 0.12
    assert np.sqrt(np.mean(errors[late] ** 2)) < 0.15


def test_components_stay_pure(fitted: TPNNRegressor) -> None:
    model = fitted.model_
    for component, table in zip(model.components, model.tables, strict=True):
        for place, axis in enumerate(model.axes(component)):
            means = np.tensordot(table, axis.weights, axes=(place, 0))
            np.testing.assert_allclose(means, 0, atol=1e-12)


def test_it_survives_a_file(fitted: TPNNRegressor, rows: pd.DataFrame, tmp_path: Path) -> None:
    moved = rows.assign(hour=rows["hour"] - 240)
    for name in ("model.tpnn", "model.json"):
        path = tmp_path / name
        fitted.model_.to_json(path) if path.suffix == ".json" else fitted.model_.save(path)
        read = tpnn.load(path)
        np.testing.assert_allclose(read.predict(moved), fitted.predict(rows), atol=1e-9)
        assert read.model_.certificate("hour").holds


def test_two_classes(rows: pd.DataFrame) -> None:
    labels = np.where(target(rows) > 0, "yes", "no")
    model = TPNNClassifier(**QUICK, periodic={0: 24}).fit(rows, labels)
    at = pd.DataFrame({"hour": [0.0, 24.0, 48.0], "load": 0.0, "town": "Bonn"})
    assert np.ptp(model.predict_proba(at), axis=0).max() == 0


def test_an_edit_that_opens_the_circle_says_so(fitted: TPNNRegressor) -> None:
    raised = fitted.model_.edit("hour", add=1.0, between={"hour": (22, 24)})
    assert raised.shapes == {}
    assert not raised.certificate("hour", WRAPPED).holds


def test_models_of_one_period_can_be_merged(fitted: TPNNRegressor, rows: pd.DataFrame) -> None:
    half = TPNNRegressor(**QUICK, periodic={"hour": 24}).fit(rows[:600], target(rows)[:600])
    both = tpnn.merge([fitted, half])
    mean = (fitted.predict(rows) + half.predict(rows)) / 2
    np.testing.assert_allclose(both.predict(rows.assign(hour=rows["hour"] + 48)), mean, atol=1e-9)
    other = TPNNRegressor(**QUICK, periodic={"hour": 25}).fit(rows[:600], target(rows)[:600])
    with pytest.raises(ValueError, match="one period in all of them"):
        tpnn.merge([fitted, other])


def test_a_column_without_values_has_no_period(rows: pd.DataFrame) -> None:
    model = TPNNRegressor(**QUICK, periodic={"hour": 24}).fit(
        rows.assign(hour=np.nan), target(rows)
    )
    assert "hour" not in model.model_.shapes


def test_three_classes_and_the_shape_by_its_long_name(rows: pd.DataFrame) -> None:
    labels = np.digitize(target(rows), [-0.5, 0.5])
    model = TPNNClassifier(**QUICK, shapes={"hour": ("periodic", 24)}).fit(rows, labels)
    at = pd.DataFrame({"hour": [0.0, 24.0, 48.0], "load": 0.0, "town": "Bonn"})
    assert np.ptp(model.predict_proba(at), axis=0).max() == 0
    short = TPNNClassifier(periodic={"hour": 24})
    assert short.get_params()["shapes"] == {"hour": ("periodic", 24)}
    assert clone(short).shapes == short.shapes


@pytest.mark.parametrize("period", [2 * np.pi, 0.1, 0.3, 0.7, 24.0])
def test_what_is_within_a_period_is_at_least_0_and_at_most_the_period(period: float) -> None:
    """Beside the exact remainder of fractions; where a quotient rounds up it may be either end."""
    x = np.arange(-5000, 5000) * period / 12
    inside = within_period(x, period)
    assert inside.min() >= 0
    assert inside.max() <= period
    exact = np.array([float(Fraction(number) % Fraction(period)) for number in x])
    apart = np.abs(inside - exact)
    assert np.minimum(apart, period - apart).max() <= 1e-12 * period * 500
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        huge = within_period(np.array([1e308, -1e308, np.nan]), period * 1e-3)
    assert ((huge[:2] >= 0) & (huge[:2] <= period * 1e-3)).all()
    assert np.isnan(huge[2])


@pytest.mark.filterwarnings("error")
def test_quotients_that_round_up_are_fitted_saved_and_exported(tmp_path: Path) -> None:
    period = 2 * np.pi
    X = pd.DataFrame({"angle": np.arange(5000) * period / 12})
    model = TPNNRegressor(**QUICK, periodic={"angle": period}).fit(X, np.cos(X["angle"])).model_
    assert model.encoder.axes[1][0].values[0] == 0
    model.save(tmp_path / "model.tpnn")
    np.testing.assert_array_equal(tpnn.load(tmp_path / "model.tpnn").predict(X), model.predict(X))
    score: dict[str, Any] = {}
    exec(model.to_code("python"), score)  # the code that was just written
    for angle in (*X["angle"][-50:], 1e308, -1e308):
        expected = model.predict(pd.DataFrame({"angle": [angle]}))[0]
        assert score["score"]({"angle": angle})["prediction"] == pytest.approx(expected, abs=1e-12)


def test_other_shapes_of_a_periodic_feature_are_refused(
    fitted: TPNNRegressor, rows: pd.DataFrame
) -> None:
    model = fitted.model_
    for shape in ("increasing", "convex", "linear"):
        with pytest.raises(ValueError, match=r"^shape: a periodic feature ends as it begins and"):
            model.edit("hour", shape=shape)
        with pytest.raises(ValueError, match=r"^shapes: a periodic feature ends as it begins and"):
            constrain(model, {"hour": shape})
        assert not model.certificate("hour", shape).holds
        twice = TPNNRegressor(**QUICK, shapes={"hour": shape}, periodic={0: 24})
        with pytest.raises(ValueError, match=r"^shapes: a feature is named once, found 'hour' by"):
            twice.fit(rows, target(rows))


@pytest.mark.parametrize("nodes", ["keep", "new"])
def test_a_fit_that_adds_to_a_model_has_its_periods(
    fitted: TPNNRegressor, rows: pd.DataFrame, nodes: str
) -> None:
    y = target(rows)
    plain = TPNNRegressor(**QUICK).fit(rows, y)
    for start, periods in ((plain, {"hour": 24}), (fitted, {"hour": 25}), (fitted, None)):
        other = TPNNRegressor(**QUICK, periodic=periods)
        with pytest.raises(ValueError, match=r"^start: a feature must be of the same kind .*'hour"):
            other.fit(rows, -y, start=start, nodes=nodes)
    same = TPNNRegressor(**QUICK, periodic={"hour": 24}).fit(rows, -y, start=fitted, nodes=nodes)
    assert same.model_.certificate("hour", WRAPPED).holds


def test_a_periodic_component_can_be_frozen(fitted: TPNNRegressor, rows: pd.DataFrame) -> None:
    again = TPNNRegressor(**QUICK, periodic={"hour": 24})
    again.fit(rows, -target(rows), start=fitted, freeze=["hour"])
    one, two = (each.model_.component_names.index(("hour",)) for each in (fitted, again))
    before, after = fitted.model_.tables[one], again.model_.tables[two]
    np.testing.assert_allclose(before, after, rtol=0, atol=1e-14)  # closed and centred once more
    assert again.model_.certificate("hour", WRAPPED).holds


def test_numbers_as_objects_are_read_within_the_period(
    fitted: TPNNRegressor, rows: pd.DataFrame
) -> None:
    moved = rows.assign(hour=rows["hour"] + 48)
    for kind in ("object", "category"):
        read = fitted.predict(moved.assign(hour=moved["hour"].astype(kind)))
        np.testing.assert_array_equal(read, fitted.predict(moved))


@pytest.mark.parametrize("wrong", [24, "hour", ["hour"], 0])
def test_periods_are_a_dict(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"^periodic: must be None, or a dict by feature, found"):
        TPNNRegressor(periodic=wrong)
    with pytest.raises(ValueError, match=r"^shapes: must be None, or a dict by feature, found 'i"):
        TPNNRegressor(periodic={"hour": 24}, shapes="increasing")


def test_bad_input(rows: pd.DataFrame) -> None:
    y = target(rows)
    with pytest.raises(
        ValueError, match="shapes: a periodic feature needs a column of numbers, found lev"
    ):
        TPNNRegressor(**QUICK, periodic={"town": 24}).fit(rows, y)
    with pytest.raises(ValueError, match="has no other shape, found 'hour' in shapes"):
        TPNNRegressor(**QUICK, periodic={"hour": 24}, shapes={"hour": "convex"}).fit(rows, y)
    with pytest.raises(ValueError, match="shapes: must be None, or a dict"):
        TPNNRegressor(**QUICK, periodic={"hour": 0}).fit(rows, y)
    with pytest.raises(ValueError, match=r"^periodic: features must be names"):
        TPNNRegressor(**QUICK, periodic={"hours": 24}).fit(rows, y)
    fitted = TPNNRegressor(**QUICK, periodic={"hour": 24}).fit(rows, y)
    with pytest.raises(TypeError, match="must hold what it held in fit, periodic numbers"):
        fitted.predict(rows.assign(hour="noon"))
